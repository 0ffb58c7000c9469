// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/pkg/bpfobj"
	"github.com/vnetradar/radar/pkg/vnet/datapath/program"
)

// newMoveLab is a chain a - r - b and a namespace outside, to which b's interface can move.
func newMoveLab(t *testing.T, hook string) (*lab, *probes, *outside) {
	l := newChain(t, hook)
	l.opts.Lease = 0
	l.Add("out")
	l.Run("r", "ip", "neigh", "add", "10.0.2.1", "lladdr", l.mac("b", "e0").String(), "dev", "e1", "nud", "permanent")
	l.Run("out", "sysctl", "-qw", "net.ipv4.conf.all.arp_ignore=1")
	p := l.openProbes("a", "e0", "r", "e0", "10.0.1.1", "10.0.2.1")
	return l, p, l.capture("out", 1)
}

// move moves an interface and sets it up.
func (l *lab) move(from, port, to string) {
	l.t.Helper()
	l.Run(from, "ip", "link", "set", port, "netns", l.Name(to))
	l.Up(to, port)
}

// rounds is how often a change is made and taken back: the first of all begins from what
// attaching left, the second from what the first left.
func rounds(t *testing.T, many int) int {
	t.Helper()
	if need.IsNightly(t) {
		return many
	}
	return 2
}

// An interface moves to a namespace that is not attached: what is sent to it has true bits
// from its first packet on, also before anybody has noticed; and when it comes back, and
// goes again.
func TestMovePeer(t *testing.T) {
	for _, carry := range []string{program.CarryAuto, program.CarryHeader} {
		t.Run(carry, func(t *testing.T) {
			if carry == program.CarryHeader {
				need.Nightly(t) // here TestMoveInterfaceComes would fail, too
			}
			anyHook(t, func(t *testing.T, hook string) {
				l, p, o := newMoveLab(t, hook)
				l.opts.Carry = carry
				l.attach(chain...)
				p.send(100)
				const n = 150
				times := rounds(t, 4)
				for range times {
					l.move("b", "e0", "out")
					p.sendUntil(o, n)
					l.refresh()
					p.sendUntil(o, n)
					l.move("out", "e0", "b")
					p.send(10)
					l.refresh()
					p.send(50)
				}
				o.want(times * 2 * n)
				l.detachAll()
			})
		})
	}
}

// The same of an interface that was never up while it was attached: nothing tells of its move.
func TestMoveFresh(t *testing.T) {
	anyHook(t, func(t *testing.T, hook string) {
		l, p, o := newMoveLab(t, hook)
		l.attach(chain...)
		for range 2 {
			l.move("b", "e0", "out")
			p.sendUntil(o, 50)
			l.refresh()
			l.Run("out", "ip", "link", "set", "e0", "netns", l.Name("b"))
			l.refresh() // it is attached again, and down
			l.move("b", "e0", "out")
			p.sendUntil(o, 50)
			l.move("out", "e0", "b")
			l.refresh()
			p.send(50)
		}
		o.want(2 * 100)
	})
}

// The other end of an attached node's interface leaves its bridge by leaving the namespace.
func TestMoveMember(t *testing.T) {
	anyHook(t, func(t *testing.T, hook string) {
		l := newBridgeLab(t, hook)
		l.opts.Lease = 0
		l.Add("out")
		p := l.openProbes("a", "e0", "u", "e0", "10.0.0.1", "10.0.0.3")
		o := l.capture("out", 0)
		l.attach("a", "b")
		p.send(100)
		times := rounds(t, 3)
		for range times {
			l.move("sw", "pa", "out")
			p.sendUntil(o, 100)
			l.refresh()
			p.sendUntil(o, 100)
			l.move("out", "pa", "sw")
			l.Run("sw", "ip", "link", "set", "pa", "master", "br0")
			l.refresh()
			p.send(50)
		}
		o.want(times * 200)
		l.detachAll()
	})
}

// An interface that moves away and back before anybody has noticed is attached as before.
func TestMoveThereAndBack(t *testing.T) {
	anyHook(t, func(t *testing.T, hook string) {
		l, p, o := newMoveLab(t, hook)
		l.attach(chain...)
		l.move("b", "e0", "out")
		p.sendUntil(o, 50)
		l.move("out", "e0", "b")
		h := l.open()
		if !h.Changed() {
			t.Error("nothing has changed")
		}
		if _, err := h.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		if h.Changed() {
			t.Error("something has changed since")
		}
		l.wantFlags("a/e0 "+internalPort, "b/e0 "+internalPort, "r/e0 "+internalPort, "r/e1 "+internalPort)
		o.want(50)
	})
}

// What user space writes does not take back what programs noted since it looked.
func TestMoveDuringRefresh(t *testing.T) {
	l, _, _ := newMoveLab(t, program.HookTCX)
	r := l.attach(chain...)
	h := l.open()
	c, topology, err := h.compare(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	l.move("b", "e0", "out")
	if _, err := h.apply(t.Context(), c, topology); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bpfobj.TcRdrPortFlag{
		"r/e1": bpfobj.TcRdrPortFlagRDR_PF_SOURCE_IN | bpfobj.TcRdrPortFlagRDR_PF_SOURCE_OUT,
		"b/e0": bpfobj.TcRdrPortFlagRDR_PF_BRIDGE,
	} {
		node, port, _ := strings.Cut(name, "/")
		var entry bpfobj.TcRdrPort
		if err := h.maps[bpfobj.TcMapPorts].Lookup(uint32(l.port(r.Domain, node, port).ID), &entry); err != nil {
			t.Fatal(err)
		}
		if entry.Flags != uint16(want) {
			t.Errorf("%s has flags %#x, want %#x", name, entry.Flags, want)
		}
	}
	if !h.Changed() {
		t.Error("the change is forgotten")
	}
}

// The same of an interface that comes.
func TestMoveComesDuringRefresh(t *testing.T) {
	l, _, _ := newHeaderLab(t, program.HookTCX)
	l.opts.Carry = program.CarryHeader
	l.attach(chain...)
	h := l.open()
	c, topology, err := h.compare(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	l.connect(false)
	if _, err := h.apply(t.Context(), c, topology); err != nil {
		t.Fatal(err)
	}
	guarded := internalPort + "|apart"
	l.wantFlags("a/e0 "+internalPort, "b/e0 "+internalPort, "r/e0 "+guarded, "r/e1 "+guarded)
	if !h.Changed() {
		t.Error("the change is forgotten")
	}
	// Not before it has programs.
	if c, topology, err = h.compare(t.Context()); err != nil {
		t.Fatal(err)
	}
	a := &applier{h: h, c: c, undo: new(undo), lenient: true}
	if err := a.lower(); err != nil {
		t.Fatal(err)
	}
	l.wantFlags("a/e0 "+internalPort, "b/e0 "+internalPort, "r/e0 "+guarded, "r/e1 "+guarded)
	if _, err := h.apply(t.Context(), c, topology); err != nil {
		t.Fatal(err)
	}
	l.wantFlags("a/e0 "+internalPort, "b/e0 "+internalPort, "r/e0 "+internalPort, "r/e1 "+internalPort, "r/x0 "+edgePort)
}

// An interface that cannot be attached leaves its node open: it sees true bits until it can.
func TestMoveCannotAttach(t *testing.T) {
	l, p, o := newHeaderLab(t, program.HookClsact)
	l.opts.Carry = program.CarryHeader
	l.attach(chain...)
	l.connect(false)
	l.Run("r", "tc", "qdisc", "add", "dev", "x0", "ingress") // in the place of clsact
	if c := l.refresh(); len(c.Warnings) != 1 {
		t.Errorf("changes %+v", c)
	}
	p.sendUntil(o, 50)
	l.refresh()
	p.sendUntil(o, 50)
	open := []string{"a/e0 " + internalPort, "b/e0 " + internalPort, "r/e0 " + internalPort + "|apart", "r/e1 " + internalPort + "|apart"}
	l.wantFlags(open...)
	l.Run("r", "tc", "qdisc", "del", "dev", "x0", "ingress")
	l.refresh()
	l.wantFlags("a/e0 "+internalPort, "b/e0 "+internalPort, "r/e0 "+internalPort, "r/e1 "+internalPort, "r/x0 "+edgePort)
	p.sendUntil(o, 50)
	if n := named(t, l.open())["node_changed"]; n != 1 {
		t.Errorf("%d changes were counted, want 1", n)
	}
	o.want(150)
}

// newHeaderLab is a chain in which r carries the header; packets for 10.9.0.1 leave by way
// of b until another route is there.
func newHeaderLab(t *testing.T, hook string) (*lab, *probes, *outside) {
	l := newChain(t, hook)
	l.opts.Lease = 0
	l.Add("out")
	l.Run("r", "ip", "neigh", "add", "10.0.2.1", "lladdr", l.mac("b", "e0").String(), "dev", "e1", "nud", "permanent")
	l.Run("r", "ip", "route", "add", "10.9.0.1", "via", "10.0.2.1")
	p := l.openProbes("a", "e0", "r", "e0", "10.0.1.1", "10.9.0.1")
	return l, p, l.capture("out", 1)
}

// connect gives r an interface that leads outside, and routes by it.
func (l *lab) connect(moved bool) {
	l.t.Helper()
	if moved {
		l.Run("out", "ip", "link", "add", "x0", "type", "veth", "peer", "name", "x1")
		l.Up("out", "x0")
		l.move("out", "x1", "r")
		l.Run("r", "ip", "link", "set", "x1", "down")
		l.Run("r", "ip", "link", "set", "x1", "name", "x0", "up")
	} else {
		l.Run("r", "ip", "link", "add", "x0", "type", "veth", "peer", "name", "x0", "netns", l.Name("out"))
		l.Up("out", "x0")
		l.Up("r", "x0")
	}
	l.Run("r", "ip", "neigh", "add", "10.7.0.1", "lladdr", l.mac("out", "x0").String(), "dev", "x0", "nud", "permanent")
	l.Run("r", "ip", "route", "replace", "10.9.0.1", "via", "10.7.0.1", "dev", "x0", "onlink")
}

func (l *lab) disconnect() {
	l.t.Helper()
	l.Run("r", "ip", "route", "replace", "10.9.0.1", "via", "10.0.2.1")
	l.Run("r", "ip", "link", "del", "x0")
}

// A node that carries the header gets an interface that leads outside: what leaves by it has
// true bits from the first packet on, also before it has programs.
func TestMoveInterfaceComes(t *testing.T) {
	for _, c := range []struct {
		name, carry    string
		moved, nightly bool
	}{
		{"all nodes, made", program.CarryHeader, false, false}, {"all nodes, moved", program.CarryHeader, true, true},
		{"one node, made", program.CarryAuto, false, true}, {"one node, moved", program.CarryAuto, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.nightly {
				need.Nightly(t)
			}
			anyHook(t, func(t *testing.T, hook string) {
				l, p, o := newHeaderLab(t, hook)
				l.opts.Carry = c.carry
				req := l.request(chain...)
				if c.carry == program.CarryAuto {
					req.CarryHeader = []string{"r"}
				}
				if _, err := Attach(t.Context(), req); err != nil {
					t.Fatal(err)
				}
				p.send(100)
				const n = 150
				times := rounds(t, 4)
				for range times {
					l.connect(c.moved)
					p.sendUntil(o, n)
					l.refresh()
					p.sendUntil(o, n)
					l.disconnect()
					p.send(10)
					l.refresh()
					p.send(50)
				}
				o.want(times * 2 * n)
				l.detachAll()
			})
		})
	}
}

// The same while packets go on and somebody notices all the time.
func TestMoveInTraffic(t *testing.T) {
	runAlone(t) // it sends without a pause until each change is done: beside others that takes minutes
	run := func(t *testing.T, l *lab, p *probes, change func()) {
		stop := make(chan struct{})
		var wait sync.WaitGroup
		wait.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					p.send(10)
				}
			}
		})
		h := l.open()
		wait.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if _, err := h.Refresh(t.Context()); err != nil {
					t.Errorf("refresh: %v", err)
					return
				}
			}
		})
		for range 2 * rounds(t, 4) {
			change()
		}
		close(stop)
		wait.Wait()
	}
	anyHook(t, func(t *testing.T, hook string) {
		t.Run("an interface moves", func(t *testing.T) {
			l, p, o := newMoveLab(t, hook)
			l.attach(chain...)
			run(t, l, p, func() {
				l.move("b", "e0", "out")
				time.Sleep(100 * time.Millisecond)
				l.move("out", "e0", "b")
				time.Sleep(50 * time.Millisecond)
			})
			o.want(100)
		})
		t.Run("an interface comes", func(t *testing.T) {
			l, p, o := newHeaderLab(t, hook)
			l.opts.Carry = program.CarryHeader
			l.attach(chain...)
			run(t, l, p, func() {
				l.connect(false)
				time.Sleep(100 * time.Millisecond)
				l.disconnect()
				time.Sleep(50 * time.Millisecond)
			})
			// Each change may meet a packet that is between the two programs of the node, one on
			// a CPU: it goes by the new interface as it is (docs/links.md).
			o.wantBut(8*runtime.NumCPU(), 100)
		})
	})
}
