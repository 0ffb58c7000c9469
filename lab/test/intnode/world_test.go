// SPDX-License-Identifier: Apache-2.0

package intnode

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/lab/test/radarbin"
)

func TestMain(m *testing.M) { radarbin.Main(m) }

// world is h1 - r1 - r2 - r3 - h2, IPv4 and IPv6, in which no router has a role yet. e0 is the port to the
// left, e1 the one to the right; h1 has an e1 only.
type world struct {
	testing.TB
	*nstest.Net
	domain, state string
	bin           string
}

var names = []string{"h1", "r1", "r2", "r3", "h2"}

func newWorld(t testing.TB) *world {
	t.Helper()
	need.AsRoot(t)
	w := &world{TB: t, Net: nstest.New(t, names...), domain: nstest.Unique(), state: t.TempDir(), bin: radarbin.Path(t)}
	for i := range 4 {
		w.wire(i)
	}
	for _, r := range names[1:4] {
		w.Run(r, "sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1")
	}
	for i := range names {
		w.routes(i)
	}
	nstest.Cleanup(t, func() {
		if t.Failed() {
			out, _ := w.try("int", "status")
			log, _ := os.ReadFile(filepath.Join(w.state, "int", w.domain, "agent.log"))
			t.Logf("%s\n%s", out, log)
		}
		if out, err := w.try("int", "detach", "--no-drain"); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
	return w
}

// wire makes the link to the right of a node.
func (w *world) wire(i int) {
	w.Helper()
	w.Veth(names[i], "e1", names[i+1], "e0")
	w.Address(names[i], "e1", fmt.Sprintf("10.0.%d.1/24", i))
	w.Address(names[i+1], "e0", fmt.Sprintf("10.0.%d.2/24", i))
	w.Address(names[i], "e1", fmt.Sprintf("fd00:%d::1/64", i))
	w.Address(names[i+1], "e0", fmt.Sprintf("fd00:%d::2/64", i))
}

// routes gives a node its routes to links that are not its own.
func (w *world) routes(i int) {
	for j := range 4 {
		for _, v := range [][2]string{{"10.0.%d.0/24", "10.0.%d.%d"}, {"fd00:%d::/64", "fd00:%d::%d"}} {
			if j > i {
				w.Run(names[i], "ip", "route", "replace", fmt.Sprintf(v[0], j), "via", fmt.Sprintf(v[1], i, 2))
			}
			if j < i-1 {
				w.Run(names[i], "ip", "route", "replace", fmt.Sprintf(v[0], j), "via", fmt.Sprintf(v[1], i-1, 1))
			}
		}
	}
}

func (w *world) command(args ...string) *exec.Cmd {
	cmd := exec.Command(w.bin, args...)
	cmd.Env = append(os.Environ(), "RADAR_STATE_DIR="+w.state, "RADAR_DOMAIN="+w.domain)
	return cmd
}

func (w *world) try(args ...string) (string, error) {
	out, err := w.command(args...).CombinedOutput()
	return string(out), err
}

// radar runs radar, which must succeed.
func (w *world) radar(args ...string) string {
	w.Helper()
	out, err := w.try(args...)
	if err != nil {
		w.Fatalf("radar %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// refuses wants radar to refuse with that exit code and text.
func (w *world) refuses(code int, text string, args ...string) {
	w.Helper()
	out, err := w.try(args...)
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != code || !strings.Contains(out, text) {
		w.Errorf("radar %s: %v, want exit code %d and %q\n%s", strings.Join(args, " "), err, code, text, out)
	}
}

// nodes makes r1, r2 and r3 a domain of routers, whose reports go to a socket in r2.
func (w *world) nodes(more ...string) {
	w.Helper()
	w.radar(append([]string{"int", "attach", "--role", "source,sink", "--via", w.Spec("r2"), w.Spec("r1") + "/e0", w.Spec("r3") + "/e1"}, more...)...)
	w.radar("int", "attach", "--role", "transit", "r1", w.Spec("r2"), "r3")
}

// counts is one node's in "radar int status".
type counts map[string]uint64

// status is what "radar int status" says.
type status struct {
	Nodes []struct {
		Name  string
		ID    uint32
		Ports []struct {
			Name, Role string
			Gone       bool
			Closed     string
		}
		Did, Skipped []struct {
			Name  string
			Value uint64
		}
	}
	Lease struct {
		Runs bool
	}
	Agent struct {
		PID                              int
		Reports, Datagrams, Sent, Failed uint64
		Refused                          uint64
	}
	Lost  uint64 `json:"reports_lost"`
	Notes []string
}

func (w *world) status() (s status) {
	w.Helper()
	out, err := w.command("int", "status", "-o", "json").Output()
	if err != nil {
		w.Fatalf("radar int status: %v\n%s", err, out)
	}
	if err := json.Unmarshal(out, &s); err != nil {
		w.Fatalf("radar int status: %v\n%s", err, out)
	}
	return s
}

func (s status) of(name string) counts {
	c := make(counts)
	for _, n := range s.Nodes {
		if n.Name == name {
			for _, x := range append(slices.Clone(n.Did), n.Skipped...) {
				c[x.Name] = x.Value
			}
		}
	}
	return c
}

// collector is a socket that telemetry reports come to.
type collector struct {
	*net.UDPConn
	t    *world
	name string // its node
}

func (w *world) collector(name string) *collector {
	w.Helper()
	c := &collector{t: w, name: name}
	w.in(name, func() (err error) {
		if c.UDPConn, err = net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 32766}); err != nil {
			return err
		}
		raw, err := c.SyscallConn()
		if err != nil {
			return err
		}
		var set error
		return errors.Join(raw.Control(func(fd uintptr) { // the test reads when all was sent
			set = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 64<<20)
		}), set)
	})
	w.Cleanup(func() { c.Close() })
	return c
}

// reports waits until n individual reports have come.
func (c *collector) reports(n int) (list []single) {
	c.t.Helper()
	b := make([]byte, 1<<16)
	_ = c.SetReadDeadline(time.Now().Add(nstest.Patience))
	for len(list) < n {
		size, err := c.Read(b)
		if err != nil {
			c.t.Fatalf("%d of %d reports have come: %v; the status says %+v\n%s", len(list), n, err, c.t.status(), c.kernel())
		}
		if size > 1400 {
			c.t.Errorf("a datagram of %d bytes", size)
		}
		some, err := readGroup(bytes.Clone(b[:size]))
		if err != nil {
			c.t.Fatal(err)
		}
		list = append(list, some...)
	}
	return list
}

// kernel is what the kernel counted of datagrams between the agent and the collector: those that a processor's queue had
// no room for (the second number of each line of softnet_stat, of all namespaces), and those that a socket did not take.
func (c *collector) kernel() string {
	out, err := c.t.Try(c.name, "grep", "", "/proc/net/softnet_stat", "/proc/net/udp", "/proc/net/snmp")
	return fmt.Sprintf("the kernel says (%v)\n%s", err, out)
}

// flow sends UDP from one end to the other, with numbers in the payload, and waits until all have come.
type flow struct {
	from, to, address string
	port              int
	n                 int
}

func (w *world) send(f flow) {
	w.Helper()
	w.meet(f.from, f.address)
	var in *net.UDPConn
	w.in(f.to, func() (err error) {
		in, err = net.ListenUDP("udp", &net.UDPAddr{Port: f.port})
		return err
	})
	defer in.Close()
	var out net.Conn
	w.in(f.from, func() (err error) {
		out, err = net.Dial("udp", net.JoinHostPort(f.address, fmt.Sprint(f.port)))
		return err
	})
	defer out.Close()
	for i := range f.n {
		payload := binary.BigEndian.AppendUint32(nil, uint32(i))
		payload = append(payload, bytes.Repeat([]byte{byte(i)}, i%700)...)
		if err := nstest.Again(func() error { _, err := out.Write(payload); return err }); err != nil {
			w.Fatal(err)
		}
		b := make([]byte, 2000)
		_ = in.SetReadDeadline(time.Now().Add(nstest.Patience))
		n, err := in.Read(b)
		if err != nil || !bytes.Equal(b[:n], payload) {
			w.Fatalf("packet %d to %s: %v, got %x", i, f.address, err, b[:n])
		}
	}
}

// meet waits until two nodes reach each other: while a busy machine resolves neighbours, or a bridge learns, it drops packets.
func (w *world) meet(from, address string) {
	w.Helper()
	nstest.WaitFor(w.TB, "an answer of "+address+" to "+from, func() bool {
		_, err := w.Try(from, "ping", "-q", "-c", "1", "-W", "1", address)
		return err == nil
	})
}

// left wants nothing of the domain to be left.
func (w *world) left() {
	w.Helper()
	for _, path := range []string{filepath.Join("/sys/fs/bpf/radar/int", w.domain), filepath.Join(w.state, "int")} {
		if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
			left, _ := filepath.Glob(filepath.Join(path, "*", "*"))
			w.Errorf("%s is left (%v): %v", path, err, left)
		}
	}
	for _, name := range names {
		if _, err := os.Stat(w.Path(name)); err != nil {
			continue
		}
		for _, port := range []string{"e0", "e1"} {
			if port == "e0" && name == "h1" || port == "e1" && name == "h2" {
				continue
			}
			in, out := w.programs(name, port)
			for _, prog := range append(in, out...) {
				if strings.HasPrefix(prog, "radar_int") {
					w.Errorf("%s/%s: %s is left", name, port, prog)
				}
			}
			if out, err := w.Try(name, "tc", "qdisc", "show", "dev", port); err == nil && strings.Contains(out, "clsact") {
				w.Errorf("%s/%s: %s", name, port, out)
			}
		}
	}
}

// programs are those at the TCX hooks of a port, in their order; none where the kernel has no TCX.
func (w *world) programs(name, port string) (in, out []string) {
	w.Helper()
	index := w.Index(name, port)
	w.in(name, func() error {
		for at, list := range map[ebpf.AttachType]*[]string{ebpf.AttachTCXIngress: &in, ebpf.AttachTCXEgress: &out} {
			there, err := link.QueryPrograms(link.QueryOptions{Target: index, Attach: at})
			if err != nil {
				return nil
			}
			for _, p := range there.Programs {
				prog, err := ebpf.NewProgramFromID(p.ID)
				if err != nil {
					continue
				}
				if info, err := prog.Info(); err == nil {
					*list = append(*list, info.Name)
				}
				prog.Close()
			}
		}
		return nil
	})
	return in, out
}

// ofPort are the packets to a port.
func ofPort(list []packet, port int) (some []packet) {
	for _, p := range list {
		if int(p.dport) == port {
			some = append(some, p)
		}
	}
	return some
}

// kill ends the agent as a crash does.
func (w *world) kill(pid int) {
	w.Helper()
	if err := unix.Kill(pid, unix.SIGKILL); err != nil {
		w.Fatal(err)
	}
	nstest.WaitFor(w.TB, "the agent's end", func() bool {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		return err != nil || strings.Contains(string(b), ") Z ")
	})
}
