// SPDX-License-Identifier: Apache-2.0

package p4test

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/telemetry/control"
	"github.com/vnetradar/radar/pkg/telemetry/control/p4runtime"
	"github.com/vnetradar/radar/pkg/telemetry/node"
)

// device is a switch of the lab as a topology names it.
func (n *network) device(s int) control.Device {
	t := reportPort(s)
	return control.Device{Name: fmt.Sprint("s", s), Driver: "p4runtime", Spec: "127.0.0.1:9559", Options: map[string]any{
		"device_id": s, "namespace": fmt.Sprint("s", s), "ports": map[string]any{"eth0": 1, "eth1": 2, "eth2": 3},
		"collector": map[string]any{
			"port": t, "src_mac": routerMAC(s, t).String(), "dst_mac": "02:00:00:00:00:09", "src": fmt.Sprint("10.0.9.", s),
		},
	}}
}

// connect opens a switch of the lab by the driver.
func (n *network) connect(s int) control.Conn {
	n.t.Helper()
	driver := &p4runtime.Driver{Find: func(_ context.Context, d control.Device) (node.Place, error) {
		var st unix.Stat_t
		path := n.lab.NetNSPath(d.Spec)
		err := unix.Stat(path, &st)
		return node.Place{Name: d.Name, Path: path, Inum: uint32(st.Ino)}, err
	}}
	d := n.device(s)
	if err := driver.Check(d); err != nil {
		n.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(n.t.Context(), nstest.Patience)
	defer cancel()
	c, err := driver.Connect(ctx, d)
	if err != nil {
		n.t.Fatalf("s%d: %v", s, err)
	}
	n.t.Cleanup(func() { _ = c.Close() })
	return c
}

// stateOf is what a switch holds in an INT domain with these entries.
func stateOf(s int, entries ...control.Entry) control.State {
	want := control.State{
		NodeID: nodeID(s), Mark: "dscp=0x17/0x3f", Collector: netip.MustParseAddrPort("10.0.9.9:32766"), Report: node.Report20, Quote: 32,
	}
	for i := range 3 {
		role := control.Transit
		if i == 0 && isEdge(s) {
			role = control.Edge
		}
		if i < 2 || isEdge(s) {
			want.Ports = append(want.Ports, control.DevicePort{Name: fmt.Sprint("eth", i), Role: role})
		}
	}
	if isEdge(s) {
		want.Entries = entries
	}
	return want
}

// bearing counts packets of UDP to the port that bear INT, and those that do not, on a link.
func (n *network) bearing(link string, port uint16) (with, without int) {
	for _, f := range n.captures[link].frames() {
		p := parse(f)
		if p.proto != 17 || be.Uint16(f[p.l4+2:]) != port {
			continue
		}
		if f[p.l3+1]>>2 == 0x17 {
			with++
		} else {
			without++
		}
	}
	return with, without
}

// send sends datagrams from h1 to h2 and waits until they have arrived.
func (n *network) send(port uint16, count int) {
	n.t.Helper()
	for _, c := range n.captures {
		c.skip()
	}
	err := n.inside("h1", func() error {
		for range count {
			conn, err := net.Dial("udp", fmt.Sprint("10.0.2.1:", port))
			if err != nil {
				return err
			}
			_, err = conn.Write([]byte("hello hello"))
			conn.Close()
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		n.t.Fatal(err)
	}
	nstest.WaitFor(n.t, "the datagrams", func() bool {
		a, b := n.bearing("L2", port)
		c, d := n.bearing("L3", port)
		with, without := n.bearing("B", port)
		return with+without == count && a+b+c+d == count
	})
}

// TestDriver: the driver makes BMv2 hold what is wanted, step by step, and packets show it: INT on the links
// inside, none at hosts; nothing after it was taken off. A switch that was killed gets all again.
func TestDriver(t *testing.T) {
	live(t)
	n := startLab(t, nil)
	n.capture()
	conns := make(map[int]control.Conn)
	for s := 1; s <= 4; s++ {
		conns[s] = n.connect(s)
		n.apply(s, conns[s], stateOf(s))
	}
	n.send(4711, 10)
	n.wants("L2+L3", 4711, 0, 10)

	web := control.Entry{Intent: "web", Slice: control.Slice{Src: []string{"10.0.1.0/24"}, Proto: "udp", Dport: []string{"4096-8191"}}, Mode: control.MD, Instructions: 0xfc00}
	for _, s := range []int{1, 4} {
		n.apply(s, conns[s], stateOf(s, web))
	}
	n.send(4711, 10)
	n.wants("L2+L3", 4711, 10, 0)
	n.wants("B", 4711, 0, 10)
	n.send(80, 5)
	n.wants("L2+L3", 80, 0, 5)
	counts, err := conns[1].Counters(t.Context())
	if err != nil || counts["source"] != 10 || counts["not_watched"] == 0 {
		t.Errorf("counters of s1: %v, %v: want 10 packets that got INT, and some that are not watched", counts, err)
	}

	held, err := n.client("s1").readAll(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	keep(t, "bmv2-held.txtpb", held)

	n.restart(1)
	if ok, err := conns[1].Holds(t.Context()); ok || err == nil {
		t.Errorf("a switch that was killed holds its entries: %v, %v", ok, err)
	}
	_ = conns[1].Close()
	conns[1] = n.connect(1)
	n.apply(1, conns[1], stateOf(1, web))

	for s := 1; s <= 4; s++ {
		if err := conns[s].Clear(t.Context()); err != nil {
			t.Fatalf("s%d: %v", s, err)
		}
	}
	keep(t, "bmv2-refused.txtpb", n.client("s3").refusals(t, 3))
	if lines, err := conns[2].Plan(t.Context(), control.State{}); err != nil || len(lines) > 0 {
		t.Errorf("after it was cleared s2 still has something to change: %v, %v", lines, err)
	}
}

// wants compares how many datagrams bear INT on links.
func (n *network) wants(where string, port uint16, with, without int) {
	n.t.Helper()
	a, b := 0, 0
	for link := range strings.SplitSeq(where, "+") {
		x, y := n.bearing(link, port)
		a, b = a+x, b+y
	}
	if a != with || b != without {
		n.t.Errorf("%s, port %d: %d datagrams with INT, %d without, want %d and %d", where, port, a, b, with, without)
	}
}

// apply makes a switch hold a state, and asks it whether it does.
func (n *network) apply(s int, c control.Conn, want control.State) {
	n.t.Helper()
	lines, err := c.Plan(n.t.Context(), want)
	if err != nil || len(lines) == 0 {
		n.t.Fatalf("s%d: the plan has %d lines, %v", s, len(lines), err)
	}
	if err := c.Apply(n.t.Context(), want); err != nil {
		n.t.Fatalf("s%d: %v\n%s", s, err, strings.Join(lines, "\n"))
	}
	if lines, err := c.Plan(n.t.Context(), want); err != nil || len(lines) > 0 {
		n.t.Fatalf("s%d: %v, still to be done:\n%s", s, err, strings.Join(lines, "\n"))
	}
	if ok, err := c.Holds(n.t.Context()); !ok || err != nil {
		n.t.Fatalf("s%d does not hold what it got: %v", s, err)
	}
}

// restart kills a switch and starts it as it was, without a program.
func (n *network) restart(s int) {
	n.t.Helper()
	pid, argv := n.process(fmt.Sprint("s", s))
	if err := unix.Kill(pid, unix.SIGKILL); err != nil {
		n.t.Fatal(err)
	}
	nstest.WaitFor(n.t, "the switch's end", func() bool { return unix.Kill(pid, 0) != nil || isZombie(pid) })
	cmd := n.lab.Command(n.t.Context(), fmt.Sprint("s", s), argv...)
	if err := cmd.Start(); err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
}

func isZombie(pid int) bool {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return strings.Contains(string(b), ") Z ")
}

// process is the switch that runs in a machine.
func (n *network) process(machine string) (pid int, argv []string) {
	n.t.Helper()
	want, err := os.Stat(n.lab.NetNSPath(machine))
	if err != nil {
		n.t.Fatal(err)
	}
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		b, _ := os.ReadFile(dir + "/cmdline")
		words := strings.Split(strings.TrimRight(string(b), "\x00"), "\x00")
		if !slices.ContainsFunc(words, func(w string) bool { return strings.HasSuffix(w, "simple_switch_grpc") }) {
			continue
		}
		if is, err := os.Stat(dir + "/ns/net"); err != nil || !os.SameFile(is, want) {
			continue
		}
		pid, _ = strconv.Atoi(filepath.Base(dir))
		return pid, words
	}
	n.t.Fatalf("%s has no switch", machine)
	return 0, nil
}
