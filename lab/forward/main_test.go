// SPDX-License-Identifier: Apache-2.0

package forward

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/gopacket/gopacket/pcapgo"
	"github.com/vishvananda/netns"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/lab"
)

// world is h1 - f - h2, f forwarding in user space.
type world struct {
	*lab.Lab
	fwd  *Forwarder
	stop func() // ends the forwarder, then its counts are final
}

const worldConf = "h1[0]=A\nf[0]=A\nf[1]=B\nh2[0]=B\n"

// newWorld starts the machines; prepare is f's script.
func newWorld(t *testing.T, prepare string) *world {
	t.Helper()
	need.AsRoot(t)
	need.Programs(t, "ip:iproute2", "ping:iputils-ping", "iperf3", "tcpdump", "ethtool", "nsenter:util-linux")
	t.Setenv("RADAR_STATE_DIR", t.TempDir())
	folder := fstest.MapFS{}
	for name, text := range map[string]string{
		"lab.conf":   worldConf,
		"h1.startup": "ip address add 10.0.0.1/24 dev eth0\n",
		"h2.startup": "ip address add 10.0.0.2/24 dev eth0\n",
		"f.startup":  prepare + "\n:\n",
	} {
		folder[name] = &fstest.MapFile{Data: []byte(text)}
	}
	topo, err := lab.Parse(folder)
	if err != nil {
		t.Fatal(err)
	}
	l, err := lab.Up(t.Context(), topo, lab.Options{Name: fmt.Sprintf("rdr%df", os.Getpid()), ScriptTimeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	nstest.Cleanup(t, func() {
		if err := l.Down(); err != nil {
			t.Error(err)
		}
	})
	w := &world{Lab: l}
	w.carry(t)
	return w
}

// patience is how long something that must happen may take.
const patience = nstest.Patience

// carry waits until all links carry, of which the kernel tells later: before that the
// machines drop what they are to send.
func (w *world) carry(t *testing.T) {
	t.Helper()
	for _, machine := range []string{"h1", "f", "h2"} {
		for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
			links := w.run(t, machine, "ip", "-o", "link", "show", "type", "veth")
			if strings.Count(links, ": <") == strings.Count(links, " state UP ") { // ip may complain, too, of other namespaces
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("a link of %s has no carrier:\n%s", machine, links)
			}
		}
	}
}

// forward starts the forwarder in f.
func (w *world) forward(t *testing.T, cfg Config) {
	t.Helper()
	if cfg.A == "" {
		cfg.A, cfg.B = "eth0", "eth1"
	}
	var err error
	w.within(t, "f", func() { w.fwd, err = Open(cfg) })
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.fwd.Run(ctx) }()
	stopped := false
	w.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
		if err := w.fwd.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
	t.Cleanup(w.stop)
}

// within runs f on a thread in the namespace of a machine.
func (w *world) within(t *testing.T, machine string, f func()) {
	t.Helper()
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // for good: the thread ends with the goroutine
		var ns netns.NsHandle
		if ns, err = netns.GetFromPath(w.NetNSPath(machine)); err != nil {
			return
		}
		defer ns.Close()
		if err = netns.Set(ns); err == nil {
			f()
		}
	}()
	<-done
	if err != nil {
		t.Fatal(err)
	}
}

// run runs a command in a machine and returns what it printed.
func (w *world) run(t *testing.T, machine string, argv ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	b, err := w.Command(ctx, machine, argv...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %s: %v\n%s", machine, strings.Join(argv, " "), err, b)
	}
	return string(b)
}

// captured is a frame as tcpdump saw it.
type captured struct {
	at   time.Time
	data string
}

// capture runs tcpdump at a machine's eth0; what it returns ends it and gives
// the frames that match the filter, of which there must be want, if it is not 0.
func (w *world) capture(t *testing.T, machine, direction string, want int, filter ...string) func() []captured {
	t.Helper()
	return w.captureSome(t, machine, direction, func() int { return want }, filter...)
}

// captureSome is capture where it is known in the end how many frames there must be.
func (w *world) captureSome(t *testing.T, machine, direction string, some func() int, filter ...string) func() []captured {
	t.Helper()
	path := filepath.Join(t.TempDir(), machine+".pcap")
	// Every frame in the buffer takes as much room as one may have: with 64 KiB each there
	// would be room for few, while tcpdump waits for a CPU.
	argv := append([]string{
		"tcpdump", "-i", "eth0", "-n", "-U", "-B", "32768", "-s", "2048", "--immediate-mode", "-Z", "root",
		"--time-stamp-precision", "nano", "-Q", direction, "-w", path,
	}, filter...)
	cmd := w.Command(context.Background(), machine, argv...)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill() })
	said := bufio.NewReader(stderr)
	if line, err := said.ReadString('\n'); err != nil || !strings.Contains(line, "listening") {
		t.Fatalf("tcpdump: %v: %s", err, line)
	}
	rest := make(chan string, 1)
	go func() {
		b, _ := io.ReadAll(said)
		rest <- string(b)
	}()
	return func() []captured {
		t.Helper()
		var list []captured
		want := some()
		for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
			if list = readPcap(t, path); want > 0 && len(list) >= want {
				break
			} else if want == 0 {
				time.Sleep(200 * time.Millisecond)
				list = readPcap(t, path)
				break
			}
		}
		cmd.Process.Signal(os.Interrupt)
		summary := <-rest
		cmd.Wait()
		if !strings.Contains(summary, "\n0 packets dropped by kernel") {
			t.Fatalf("tcpdump at %s has missed packets: %s", machine, summary)
		}
		return list
	}
}

func readPcap(t *testing.T, path string) []captured {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	r, err := pcapgo.NewReader(file)
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	var list []captured
	for {
		data, info, err := r.ReadPacketData()
		if err != nil { // also a frame half written
			return list
		}
		list = append(list, captured{info.Timestamp, string(data)})
	}
}
