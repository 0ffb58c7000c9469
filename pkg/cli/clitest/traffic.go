// SPDX-License-Identifier: Apache-2.0

package clitest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/vnetradar/radar/lab/test/dropwatch"
	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/aggregate"
	"github.com/vnetradar/radar/pkg/answer"
	"github.com/vnetradar/radar/pkg/answer/note"
	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/system/resident"
	"github.com/vnetradar/radar/pkg/vnet/agent"
)

// Status is what "radar status -o json" says, as far as tests ask.
type Status struct {
	Attached time.Time `json:"attached"`
	Options  struct {
		Watch string `json:"watch"`
	} `json:"options"`
	Agent struct {
		Alive    bool               `json:"alive"`
		Troubles []resident.Trouble `json:"troubles"`
	} `json:"agent"`
	IPv6Held bool          `json:"ipv6_held"`
	Lease    note.Lease    `json:"lease"`
	Nodes    []answer.Node `json:"nodes"`
	Totals   agent.Totals  `json:"totals"`
	Counters []struct {
		Name  string `json:"name"`
		Value uint64 `json:"value"`
	} `json:"counters"`
}

// Status is what "radar status" says now.
func (w *World) Status() (v Status) {
	w.Helper()
	if err := json.Unmarshal([]byte(w.Radar(kit.ExitOK, "status", "-o", "json")), &v); err != nil {
		w.Fatal(err)
	}
	return v
}

// In runs a command in a machine, and returns what it printed.
func (w *World) In(machine string, argv ...string) string {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), Patience)
	defer cancel()
	out, err := w.Lab.Command(ctx, machine, argv...).CombinedOutput()
	if err != nil {
		w.Fatalf("%s: %v: %v\n%s", machine, argv, err, out)
	}
	return string(out)
}

// KeepOrder gives all that comes to a machine's ports to one processor (RPS), which takes it in the order in which it
// came. Else the kernel reorders: a packet waits in the queue of the processor that sent it, while one that another
// processor sent later is received at once.
func (w *World) KeepOrder() {
	w.Helper()
	for _, m := range w.Lab.Machines {
		w.In(m.Name, "unshare", "--mount", "sh", "-ec", `mount -t sysfs sysfs /mnt
for queue in /mnt/class/net/eth*/queues/rx-*/rps_cpus; do echo 1 > $queue; done`)
	}
}

// Python runs a program in a machine until the test ends. It has begun when it says something.
func (w *World) Python(machine, program string) {
	w.Helper()
	process := w.Lab.Command(w.Context(), machine, "python3", "-c", program)
	out, err := process.StdoutPipe()
	if err != nil {
		w.Fatal(err)
	}
	if err := process.Start(); err != nil {
		w.Fatal(err)
	}
	nstest.Cleanup(w, func() { _ = process.Process.Kill(); _ = process.Wait() })
	if _, err := out.Read(make([]byte, 1)); err != nil {
		w.Fatal(err)
	}
}

// Listen starts a process that takes UDP packets.
func (w *World) Listen(machine string, port int) {
	w.Helper()
	w.Python(machine, fmt.Sprintf(`import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("", %d))
print("ready", flush=True)
while True: s.recv(1000)`, port))
}

// Fails runs a command in a machine of the lab that does not succeed.
func (w *World) Fails(machine string, argv ...string) {
	w.Helper()
	if out, err := w.Lab.Command(w.Context(), machine, argv...).CombinedOutput(); err == nil {
		w.Fatalf("%s: %s succeeded\n%s", machine, strings.Join(argv, " "), out)
	}
}

// Says demands that a command succeeds and prints all of these.
func (w *World) Says(args []string, want ...string) string {
	w.Helper()
	out := w.Radar(kit.ExitOK, args...)
	for _, text := range want {
		if !strings.Contains(out, text) {
			w.Errorf("radar %s: no %q in\n%s", strings.Join(args, " "), text, out)
		}
	}
	return out
}

// Await is says of what becomes known only later. What must be true by then, says asks for: a
// missing answer is then told at once, and not only when patience is at its end.
func (w *World) Await(args []string, want ...string) {
	w.Helper()
	nstest.WaitFor(w.T, fmt.Sprintf("radar %s to say %q", strings.Join(args, " "), want), func() bool {
		out := w.Radar(kit.ExitOK, args...)
		return !slices.ContainsFunc(want, func(text string) bool { return !strings.Contains(out, text) })
	})
}

// Ended waits until n packets that are selected have ended for good, whatever became of them.
func (w *World) Ended(n uint64, selected ...string) {
	w.Helper()
	nstest.WaitFor(w.T, fmt.Sprintf("the end of %d packets of %q", n, selected), func() bool {
		sum := uint64(0)
		for _, f := range RowsOf[aggregate.FlowRow](w, append([]string{"flows", "--top", "0"}, selected...)...) {
			sum += f.Packets
		}
		return sum >= n
	})
}

// UDPTo sends one datagram from h1.
func (w *World) UDPTo(addr string, port int) {
	w.Helper()
	w.In("h1", "bash", "-c", fmt.Sprintf("echo x > /dev/udp/%s/%d", addr, port))
}

// UDP sends one packet from h1 to a port of h2 that nobody listens to.
func (w *World) UDP() {
	w.Helper()
	if out, err := w.Lab.Command(w.Context(), "h1", "bash", "-c", "echo x > /dev/udp/10.0.2.2/9").CombinedOutput(); err != nil {
		w.Fatalf("send: %v\n%s", err, out)
	}
}

// Counter is one of the domain's, by the name that status shows.
func (w *World) Counter(name string) uint64 {
	w.Helper()
	for _, c := range w.Status().Counters {
		if c.Name == name {
			return c.Value
		}
	}
	w.Fatalf("no counter %s", name)
	return 0
}

// Untold is how many of the listed drops for that reason at most radar was not told of: no program ran
// (package dropwatch).
func (w *World) Untold(drops *dropwatch.Watch, reason string) uint64 {
	w.Helper()
	if err := drops.Read(); err != nil {
		w.Fatal(err)
	}
	return uint64(drops.Unseen(reason)) + w.Counter("loss_missed")
}

// RowsOf is what a command answers in JSON.
func RowsOf[T any](w *World, args ...string) []T {
	w.Helper()
	stdout, stderr, code := Radar(w.T, append(args, "-o", "json")...)
	if code != kit.ExitOK {
		w.Fatalf("radar %v: code %d, stderr %q", args, code, stderr)
	}
	var rows []T
	for dec := json.NewDecoder(strings.NewReader(stdout)); dec.More(); {
		var row T
		if err := dec.Decode(&row); err != nil {
			w.Fatal(err)
		}
		rows = append(rows, row)
	}
	return rows
}

const tcpTransfer = `import socket, subprocess
l = socket.socket()
l.bind(("10.0.2.2", 5001))
l.listen()
p = subprocess.Popen(["nsenter", "--net=%s", "python3", "-c", """import socket
c = socket.create_connection(("10.0.2.2", 5001))
c.sendall(b"x" * %d)
c.shutdown(socket.SHUT_WR)
c.recv(1)"""])
s, _ = l.accept()
while s.recv(65536): pass
s.close()
p.wait()
`

// TCP sends bytes from h1 to port 5001 of h2, and returns when all have come and the connection has ended.
func (w *World) TCP(bytes int) {
	w.Helper()
	w.In("h2", "python3", "-c", fmt.Sprintf(tcpTransfer, w.Lab.NetNSPath("h1"), bytes))
}
