// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/lab/test/oracle"
	"github.com/vnetradar/radar/lab/test/radarbin"
	"github.com/vnetradar/radar/pkg/lab"
	"github.com/vnetradar/radar/pkg/record"
)

// function is a network h1 - function - h2 whose function shares no skb with the kernel,
// and loses a share of what h1 sends to h2.
type function struct {
	*network
	radar   *radar
	in, out side
	loss    record.Loss // where what it loses is placed
	// lost ends the function and says how many packets it lost, dropped how many the
	// kernel dropped in front of it: by their own counts.
	lost, dropped func(t *testing.T) int
	wake          func(t *testing.T) // lets it read what it has held back; nil: it does not
}

// side is where packets go into the function, or come out of it.
type side struct{ node, port string }

const (
	// functionTimeout is longer than a packet waits in a function while whatever else this machine
	// does shares its CPUs, and short: the test waits for it.
	functionTimeout = "10s"
	functionPackets = 2000
	functionGap     = 150 * time.Microsecond
	functionPort    = 9100
)

// TestFunctionLoss: a function that shares no skb, or no kernel, loses packets. Each is
// placed between the two ports around the function, and there are as many as the
// function's own counters say.
func TestFunctionLoss(t *testing.T) {
	sideBySide(t)
	for name, start := range map[string]func(*testing.T, int) *function{"machine": startMachine, "forwarder": startForwarder} {
		for _, percent := range []int{0, 1, 20} {
			t.Run(fmt.Sprintf("%s/%d", name, percent), func(t *testing.T) {
				if name != "forwarder" || percent != 20 {
					need.Nightly(t)
				}
				t.Parallel()
				f := start(t, percent)
				into, from := f.watch(t, f.in), f.watch(t, f.out)
				f.send(t)
				if f.wake != nil {
					f.wake(t)
				}
				carried(t, []string{f.lab.NetNSPath("h1"), f.lab.NetNSPath("h2"), f.lab.NetNSPath(f.in.node)})
				f.radar.settle(t)
				f.check(t, percent, into.seen(t), from.seen(t))
			})
		}
	}
}

// startMachine is lab vmrouter: a virtual machine on two taps, with netem in it.
func startMachine(t *testing.T, percent int) *function {
	t.Helper()
	n := startLab(t, "vmrouter", map[string]string{"LOSS": strconv.Itoa(percent)}, "10.0.1.1", "10.0.2.2")
	f := &function{
		network: n, in: side{"v", "tap0"}, out: side{"v", "tap1"},
		loss: record.Loss{Node: "r", Port: "tap0", At: record.AtNode, Reason: record.NotSeen},
	}
	f.radar = n.attach(t, n.nodes(), "--slots", "64K", "--timeout", functionTimeout, "--vm", "r=v/tap0,v/tap1,10.0.1.2,10.0.2.1")
	in, out := n.stats(t, f.in), n.stats(t, f.out)
	f.dropped = func(t *testing.T) int { return int(n.stats(t, f.in).TxDropped - in.TxDropped) }
	// User-mode Linux at times misses that a packet has come, and reads it with the next one. A tap
	// counts what has been read, in turn: with a frame of those after the packets, all have been.
	read := func() int { return int(n.stats(t, f.in).TxPackets - in.TxPackets) }
	f.wake = func(t *testing.T) {
		last := -1
		nstest.WaitFor(t, "the machine to read all packets", func() bool {
			now := read()
			if now == last { // else there may be no room yet
				n.sendNothing(t, f.in)
			}
			last = now
			time.Sleep(50 * time.Millisecond)
			return read() > functionPackets-f.dropped(t)
		})
	}
	f.lost = func(t *testing.T) int {
		return functionPackets - f.dropped(t) - int(n.stats(t, f.out).RxPackets-out.RxPackets)
	}
	return f
}

// sendNothing sends a frame that no protocol receives out of a port.
func (n *network) sendNothing(t *testing.T, at side) {
	t.Helper()
	frame := make([]byte, 60)
	binary.BigEndian.PutUint16(frame[12:], 0x88b5) // for local experiments (IEEE 802)
	err := n.within(at.node, func() error { return nstest.SendFrame(at.port, frame) })
	if err != nil && !errors.Is(err, unix.ENOBUFS) {
		t.Fatalf("send a frame out of %s/%s: %v", at.node, at.port, err)
	}
}

// startForwarder has radar's own forwarder between two packet sockets.
func startForwarder(t *testing.T, percent int) *function {
	t.Helper()
	n := startLab(t, "forwarded", nil, "10.0.0.1", "10.0.0.2")
	f := &function{
		network: n, in: side{"f", "eth0"}, out: side{"f", "eth1"},
		loss: record.Loss{Node: "f", Port: "eth0", At: record.AtNode, Reason: record.NotSeen},
	}
	f.radar = n.attach(t, n.nodes(), "--slots", "64K", "--timeout", functionTimeout)
	var counts, log bytes.Buffer
	cmd := n.forward(t, &counts, &log, "-o", "json", "--loss", fmt.Sprintf("%d%%", percent))
	f.lost = func(t *testing.T) int {
		cmd.Process.Signal(os.Interrupt)
		if err := cmd.Wait(); err != nil {
			t.Fatalf("radar lab forward: %v\n%s", err, log.String())
		}
		var c struct{ From, In, Out, Lost, Overrun json.RawMessage }
		if err := json.NewDecoder(&counts).Decode(&c); err != nil || string(c.From) != `"eth0"` || string(c.Overrun) != "0" {
			t.Fatalf("counts of radar lab forward: %v\n%+v", err, c)
		}
		lost, err := strconv.Atoi(string(c.Lost))
		if err != nil {
			t.Fatal(err)
		}
		return lost
	}
	f.dropped = func(*testing.T) int { return 0 }
	return f
}

// forward has radar's own forwarder between eth0 and eth1 of node f, until the test ends at
// the latest, and returns when it listens.
func (n *network) forward(t *testing.T, stdout, stderr io.Writer, flags ...string) *exec.Cmd {
	t.Helper()
	cmd := n.lab.Command(n.ctx, "f", append([]string{radarbin.Path(t), "lab", "forward", "eth0", "eth1"}, flags...)...)
	cmd.Stdout, cmd.Stderr = stdout, stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	nstest.Cleanup(t, func() { cmd.Process.Kill(); cmd.Wait() })
	nstest.WaitFor(t, "the forwarder's packet sockets", func() bool {
		return strings.Count(n.run(t, "f", "cat", "/proc/net/packet"), "\n") >= 3
	})
	return cmd
}

// check holds records and losses against what was captured in front of the function and
// behind it, and against its own counters.
func (f *function) check(t *testing.T, percent int, into, from map[int]bool) {
	t.Helper()
	lost, dropped := f.lost(t), f.dropped(t)
	t.Logf("%d went in, %d came out; by its own counters %d are lost, %d were dropped in front of it", len(into), len(from), lost, dropped)
	if len(into) != functionPackets || len(into)-len(from)-dropped != lost {
		t.Errorf("captures do not agree with that")
	}
	if percent == 0 && lost > 0 || percent > 0 && lost < (functionPackets-dropped)*percent/400 {
		t.Errorf("%d lost of %d: want %d %%", lost, functionPackets, percent)
	}
	there := 0
	for _, l := range f.radar.losses(t) {
		if l.Node == f.loss.Node && l.Port == f.loss.Port && l.At == f.loss.At && l.Reason == f.loss.Reason {
			there += int(l.Packets)
		} else if l.Node != f.in.node || int(l.Packets) != dropped {
			t.Errorf("a loss that nobody knows of: %+v", l)
		}
	}
	if there != lost {
		t.Errorf("radar loss has %d packets in %s, its own counters %d: difference %d", there, f.loss.Node, lost, there-lost)
	}
	n := 0
	for _, r := range f.radar.records(t) {
		if r.Dport == nil || *r.Dport != functionPort {
			continue
		}
		n++
		f.checkRecord(t, &r, from[r.IPID])
	}
	if n != functionPackets {
		t.Errorf("%d records of %d packets", n, functionPackets)
	}
}

func (f *function) checkRecord(t *testing.T, r *record.Record, passed bool) {
	last := r.Hops[len(r.Hops)-1]
	switch {
	case passed && (r.State != record.Delivered || last.Node != "h2"):
		hops, _ := json.Marshal(r.Hops)
		t.Errorf("packet %d came out of the function: %s in %s: %s", r.IPID, r.State, last.Node, hops)
	case passed:
	case r.Loss == nil:
		t.Errorf("packet %d was lost in the function: %s, without a place", r.IPID, r.State)
	case r.State == record.Lost && r.Loss.Node == f.in.node && r.Loss.Port == f.in.port: // in front of it
	case r.State != record.Expired || *r.Loss != f.loss || last.Node != f.loss.Node || last.InPort != f.loss.Port:
		t.Errorf("packet %d was lost in the function: %s, %+v, last hop %+v", r.IPID, r.State, *r.Loss, last)
	}
}

// startLab starts a scenario with parameters, in which h1 and h2 have these addresses.
func startLab(t *testing.T, name string, params map[string]string, h1, h2 string) *network {
	t.Helper()
	needNetwork(t)
	s, err := openScenario(name)
	if err != nil {
		t.Fatal(err)
	}
	topology, err := s.Topology(params)
	if err != nil {
		t.Fatal(err)
	}
	n := &network{ctx: lifetime(t)}
	if n.lab, err = lab.Up(n.ctx, topology, lab.Options{Name: uniqueName()}); err != nil {
		t.Fatal(err)
	}
	nstest.Cleanup(t, func() {
		if err := n.lab.Down(); err != nil {
			t.Errorf("take the lab down: %v", err)
		}
	})
	n.topo = &oracle.Topology{Nodes: []oracle.Node{
		{Name: "h1", Addrs: []netip.Addr{netip.MustParseAddr(h1)}}, {Name: "h2", Addrs: []netip.Addr{netip.MustParseAddr(h2)}},
	}}
	return n
}

// stats are the counters of a port.
func (n *network) stats(t *testing.T, at side) *netlink.LinkStatistics {
	t.Helper()
	var stats *netlink.LinkStatistics
	err := n.within(at.node, func() error {
		l, err := netlink.LinkByName(at.port)
		if err == nil {
			stats = l.Attrs().Statistics
		}
		return err
	})
	if err != nil {
		t.Fatalf("counters of %s/%s: %v", at.node, at.port, err)
	}
	return stats
}
