// SPDX-License-Identifier: Apache-2.0

package p4test

import (
	"context"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netns"

	scenarios "github.com/vnetradar/radar/lab/scenarios"
	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/lab/test/radarbin"
	"github.com/vnetradar/radar/p4"
	"github.com/vnetradar/radar/pkg/host"
	"github.com/vnetradar/radar/pkg/lab"
	"github.com/vnetradar/radar/pkg/telemetry/control/p4runtime"
)

// network is lab int-p4 as it runs, with a capture on each link.
type network struct {
	t        *testing.T
	lab      *lab.Lab
	switches map[int]*p4runtime.Switch
	captures map[string]*capture
	next     map[int]uint32 // the number of each switch's next report
}

// startLab starts the lab with its own settings.
func startLab(t *testing.T, set map[string]string) *network {
	t.Helper()
	need.AsRoot(t)
	need.Tree(t) // the switch reads the program
	need.Programs(t, "ip:iproute2", "ethtool", "tcpdump", "nsenter:util-linux")
	t.Setenv("RADAR_STATE_DIR", t.TempDir())
	t.Setenv("PATH", filepath.Dir(radarbin.Path(t))+":"+os.Getenv("PATH"))
	s, err := scenarios.Open("int-p4")
	if err != nil {
		t.Fatal(err)
	}
	topo, err := s.Topology(set)
	if err != nil {
		t.Fatal(err)
	}
	n := &network{t: t, switches: make(map[int]*p4runtime.Switch), captures: make(map[string]*capture), next: make(map[int]uint32)}
	if n.lab, err = lab.Up(t.Context(), topo, lab.Options{Name: nstest.Unique(), ScriptTimeout: nstest.Patience}); err != nil {
		t.Fatal(err)
	}
	nstest.Cleanup(t, func() {
		if err := n.lab.Down(); err != nil {
			t.Errorf("clean up: %v", err)
		}
	})
	var paths []string
	for _, m := range n.lab.Machines {
		paths = append(paths, n.lab.NetNSPath(m.Name))
	}
	nstest.AwaitCarrier(t, paths...)
	return n
}

// run runs a command in a machine.
func (n *network) run(machine string, argv ...string) string {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(n.t.Context(), nstest.Patience)
	defer cancel()
	out, err := n.lab.Command(ctx, machine, argv...).CombinedOutput()
	if err != nil {
		n.t.Fatalf("%s: %s: %v\n%s", machine, strings.Join(argv, " "), err, out)
	}
	return string(out)
}

// inside runs f in the network namespace of a machine.
func (n *network) inside(machine string, f func() error) error {
	ns, err := netns.GetFromPath(n.lab.NetNSPath(machine))
	if err != nil {
		return err
	}
	defer ns.Close()
	return host.InNetns(ns, f)
}

// dialer connects from inside the network namespace of a machine.
func (n *network) dialer(machine string) func(context.Context, string) (net.Conn, error) {
	return func(ctx context.Context, address string) (conn net.Conn, err error) {
		err = n.inside(machine, func() (err error) {
			conn, err = new(net.Dialer).DialContext(ctx, "tcp4", address)
			return err
		})
		return conn, err
	}
}

// control becomes the controller of all switches, whose program the lab has loaded.
func (n *network) control() {
	n.t.Helper()
	program, err := p4runtime.NewProgram(p4.Info, p4.JSON)
	if err != nil {
		n.t.Fatal(err)
	}
	for s := 1; s <= 4; s++ {
		ctx, cancel := context.WithTimeout(n.t.Context(), nstest.Patience)
		defer cancel()
		sw, err := p4runtime.Dial(ctx, p4runtime.Target{Address: "127.0.0.1:9559", Device: uint64(s), Dial: n.dialer(fmt.Sprint("s", s))})
		if err != nil {
			n.t.Fatal(err)
		}
		n.t.Cleanup(sw.Close)
		sw.Use(program)
		n.switches[s] = sw
		counts, err := sw.Counts(n.t.Context(), "int.done")
		if err != nil {
			n.t.Fatal(err)
		}
		n.next[s] = uint32(counts[doneSent]) // drops of what the hosts' kernels sent as they came up
	}
}

// quieten keeps the hosts' kernels from sending anything themselves, and lets frames pass that leave
// no room for INT.
func (n *network) quieten() {
	n.t.Helper()
	for _, m := range []string{"h1", "h2", "c"} {
		n.run(m, "sysctl", "-qw", "net.ipv4.ip_forward=0", "net.ipv6.conf.all.disable_ipv6=1")
	}
	n.run("c", "ip", "address", "flush", "dev", "eth0")
	// The bridge of link T learns where c is, and floods its reports no more.
	hello := append(append(slices.Repeat([]byte{0xff}, 6), hostMAC(9)...), append([]byte{0x88, 0xb5}, make([]byte, 46)...)...)
	if err := n.inside("c", func() error { return nstest.SendFrame("eth0", hello) }); err != nil {
		n.t.Fatal(err)
	}
	n.run("h1", "ip", "link", "set", "eth0", "mtu", "1500")
	n.run("h2", "ip", "link", "set", "eth0", "mtu", "1500")
}

// blackholes are routes of all cases, beside the lab's own.
const blackholes = "table_add forward.ipv4_routes forward.blackhole 10.9.9.0/24 =>\n"

// set gives the switches the settings of a case.
func (n *network) set(c *testcase) {
	n.t.Helper()
	for s, sw := range n.switches {
		err := sw.Clear(n.t.Context(), "int.ingress_ports", "int.egress_ports", "int.watchlist", "int.collectors", "forward.acl")
		if err == nil {
			err = sw.Run(n.t.Context(), c.entries(s))
		}
		if err != nil {
			n.t.Fatalf("s%d: %v", s, err)
		}
	}
}

// counters reads those of all switches.
func (n *network) counters() map[int]counters {
	n.t.Helper()
	all := make(map[int]counters)
	for s, sw := range n.switches {
		var c counters
		for name, into := range map[string]*map[int]int{"int.skipped": &c.Skipped, "int.done": &c.Done, "int.drops": &c.Drops} {
			counts, err := sw.Counts(n.t.Context(), name)
			if err != nil {
				n.t.Fatalf("s%d: %v", s, err)
			}
			*into = counts
		}
		entries, err := sw.EntryCounts(n.t.Context(), "int.watchlist")
		if err != nil {
			n.t.Fatalf("s%d: %v", s, err)
		}
		c.Watched = entries[watchers]
		all[s] = c
	}
	return all
}

// added is what the counters have more than before.
func added(now, before map[int]counters) map[int]counters {
	less := func(a, b map[int]int) map[int]int {
		d := make(map[int]int)
		for i, n := range a {
			if n != b[i] {
				d[i] = n - b[i]
			}
		}
		return d
	}
	all := make(map[int]counters)
	for s, c := range now {
		b := before[s]
		all[s] = counters{Skipped: less(c.Skipped, b.Skipped), Done: less(c.Done, b.Done), Drops: less(c.Drops, b.Drops), Watched: c.Watched - b.Watched}
	}
	return all
}

// play runs a case, and returns what is known of it.
func (n *network) play(c *testcase) *evidence {
	n.t.Helper()
	n.set(c)
	for _, cap := range n.captures {
		cap.skip()
	}
	before := n.counters()
	ev := &evidence{Captured: make(map[string][][]byte), Next: maps.Clone(n.next)}
	err := n.inside("h1", func() error {
		out, err := nstest.OpenFrames("eth0")
		if err != nil {
			return err
		}
		defer out.Close()
		for i := range c.frames {
			f := c.frames[i].bytes()
			ev.Sent = append(ev.Sent, f)
			if err := out.Send(f); err != nil {
				return fmt.Errorf("send frame %d: %w", i, err)
			}
		}
		return nil
	})
	if err != nil {
		n.t.Fatal(err)
	}
	n.settle(c, before)
	ev.Counters = added(n.counters(), before)
	for link, cap := range n.captures {
		ev.Captured[link] = cap.frames()
	}
	return ev
}

// most is how long a case may take until all that it causes is there. Then verify says what is
// missing.
const most = 10 * time.Second

// settle waits until all frames are where they end, and nothing changes any more.
func (n *network) settle(c *testcase, before map[int]counters) {
	delivered, dropped := 0, 0
	for _, s := range c.frames {
		delivered += b2i(s.lost == 0 && !s.gone)
		dropped += b2i(s.lost != 0)
	}
	var last string
	for end := time.Now().Add(most); time.Now().Before(end); time.Sleep(30 * time.Millisecond) {
		now := added(n.counters(), before)
		reports, drops := 0, 0
		for _, s := range now {
			reports += s.Done[doneSent]
			for k := range maps.Values(s.Drops) {
				drops += k
			}
		}
		state := fmt.Sprint(now, n.captures["B"].count(), n.captures["T"].count())
		if n.captures["B"].count() >= delivered && drops >= dropped && n.captures["T"].count() >= reports && state == last {
			return
		}
		last = state
	}
}
