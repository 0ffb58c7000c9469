// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/bpfobj"
)

// A steady stream of packets whose IP ID and TTL are known, and what arrives outside.

const (
	probePort   = 4713
	probeEvery  = 200 * time.Microsecond
	probeTTL    = 40 // in no band, before routers and behind them
	probeIDStep = 40503
)

// probes sends packets with numbers from one port, routers on the way lower their TTL.
type probes struct {
	t      *testing.T
	frames *nstest.Frames
	to     net.HardwareAddr
	from   net.HardwareAddr
	src    netip.Addr
	dst    netip.Addr
	next   uint32
}

// openProbes opens the port of a node from which packets for dst go to the port of a router.
func (l *lab) openProbes(node, port, router, routerPort, src, dst string) *probes {
	l.t.Helper()
	p := &probes{t: l.t, src: netip.MustParseAddr(src), dst: netip.MustParseAddr(dst)}
	p.from, p.to = l.mac(node, port), l.mac(router, routerPort)
	err := l.specs(node)[0].Do(func() (err error) {
		p.frames, err = nstest.OpenFrames(port)
		return err
	})
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { p.frames.Close() })
	return p
}

func (l *lab) mac(node, port string) (mac net.HardwareAddr) {
	l.t.Helper()
	err := l.specs(node)[0].Do(func() error {
		itf, err := net.InterfaceByName(port)
		if err == nil {
			mac = itf.HardwareAddr
		}
		return err
	})
	if err != nil {
		l.t.Fatal(err)
	}
	return mac
}

// probeID is the IP ID of the packet with that number.
func probeID(n uint32) uint16 { return uint16(n*probeIDStep + 1) }

// send sends the next n packets at a steady rate.
func (p *probes) send(n int) {
	p.t.Helper()
	for range n {
		if err := p.frames.Send(p.frame(p.next)); err != nil && !errors.Is(err, unix.ENOBUFS) {
			p.t.Errorf("send: %v", err)
			return
		}
		p.next++
		time.Sleep(probeEvery)
	}
}

func (p *probes) frame(n uint32) []byte {
	const ip, udp, data = 14, 14 + 20, 14 + 28
	f := make([]byte, data+32)
	copy(f, p.to)
	copy(f[6:], p.from)
	binary.BigEndian.PutUint16(f[12:], unix.ETH_P_IP)
	f[ip] = 0x45
	binary.BigEndian.PutUint16(f[ip+2:], uint16(len(f)-ip))
	binary.BigEndian.PutUint16(f[ip+4:], probeID(n))
	f[ip+6] = 0x40 // DF: its ID means nothing, so that it may carry a GUID
	f[ip+8], f[ip+9] = probeTTL, unix.IPPROTO_UDP
	copy(f[ip+12:], p.src.AsSlice())
	copy(f[ip+16:], p.dst.AsSlice())
	var sum uint32
	for i := ip; i < udp; i += 2 {
		sum += uint32(binary.BigEndian.Uint16(f[i:]))
	}
	sum = sum&0xffff + sum>>16
	binary.BigEndian.PutUint16(f[ip+10:], ^uint16(sum+sum>>16))
	binary.BigEndian.PutUint16(f[udp:], probePort)
	binary.BigEndian.PutUint16(f[udp+2:], probePort)
	binary.BigEndian.PutUint16(f[udp+4:], uint16(len(f)-udp)) // without checksum
	binary.BigEndian.PutUint32(f[data:], n)
	return f
}

// outside captures the packets that come in by any interface of a namespace.
type outside struct {
	t    *testing.T
	fd   int
	done sync.WaitGroup

	mu    sync.Mutex
	seen  map[uint32]bool
	wrong []string
}

// capture begins to capture; hops is how many routers have lowered the TTL.
func (l *lab) capture(node string, hops int) *outside {
	l.t.Helper()
	o := &outside{t: l.t, seen: make(map[uint32]bool)}
	err := l.specs(node)[0].Do(func() (err error) {
		const all = unix.ETH_P_ALL
		o.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, int(uint16(all<<8|all>>8)))
		return err
	})
	if err == nil {
		err = unix.SetsockoptInt(o.fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 64<<20)
	}
	if err == nil {
		err = unix.SetsockoptTimeval(o.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 50_000})
	}
	if err != nil {
		l.t.Fatal(err)
	}
	stop := make(chan struct{})
	o.done.Go(func() {
		for {
			var b [256]byte
			n, from, err := unix.Recvfrom(o.fd, b[:], 0)
			switch {
			case err == nil:
				if a, ok := from.(*unix.SockaddrLinklayer); ok && a.Pkttype != unix.PACKET_OUTGOING {
					o.look(b[:n], hops)
				}
			case errors.Is(err, unix.EAGAIN):
				select {
				case <-stop:
					return
				default:
				}
			case !errors.Is(err, unix.EINTR) && !errors.Is(err, unix.ENETDOWN):
				o.t.Errorf("capture: %v", err)
				return
			}
		}
	})
	l.t.Cleanup(func() {
		close(stop)
		o.done.Wait()
		unix.Close(o.fd)
	})
	return o
}

func (o *outside) look(b []byte, hops int) {
	if len(b) < 32 || b[0] != 0x45 || b[9] != unix.IPPROTO_UDP || binary.BigEndian.Uint16(b[22:]) != probePort {
		return
	}
	n := binary.BigEndian.Uint32(b[28:])
	id, ttl := binary.BigEndian.Uint16(b[4:]), int(b[8])
	o.mu.Lock()
	defer o.mu.Unlock()
	o.seen[n] = true
	if id != probeID(n) || ttl != probeTTL-hops {
		o.wrong = append(o.wrong, fmt.Sprintf("packet %d: ID %#04x, TTL %d", n, id, ttl))
	}
}

// count is how many have come.
func (o *outside) count() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.seen)
}

// sendUntil sends until n more have come outside: the kernel drops some while a link comes up.
func (p *probes) sendUntil(o *outside, n int) {
	p.t.Helper()
	want := o.count() + n
	nstest.WaitFor(p.t, fmt.Sprintf("%d packets more outside", n), func() bool {
		p.send(10)
		return o.count() >= want
	})
}

// want wants at least that many packets outside, all of them as they were sent.
func (o *outside) want(least int) {
	o.t.Helper()
	o.wantBut(0, least)
}

// wantBut allows for some that are wrong.
func (o *outside) wantBut(most, least int) {
	o.t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	o.t.Logf("%d packets came outside, %d of them wrong", len(o.seen), len(o.wrong))
	if len(o.seen) < least {
		o.t.Errorf("%d packets came outside, want %d at least", len(o.seen), least)
	}
	if n := len(o.wrong); n > most {
		o.t.Errorf("%d of %d packets are wrong outside: %q ...", n, len(o.seen), o.wrong[:min(n, 3)])
	}
}

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
	for _, carry := range []string{CarryAuto, CarryHeader} {
		t.Run(carry, func(t *testing.T) {
			if carry == CarryHeader {
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
	l, _, _ := newMoveLab(t, HookTCX)
	r := l.attach(chain...)
	h := l.open()
	c, topology, err := h.compare()
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
	l, _, _ := newHeaderLab(t, HookTCX)
	l.opts.Carry = CarryHeader
	l.attach(chain...)
	h := l.open()
	c, topology, err := h.compare()
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
	if c, topology, err = h.compare(); err != nil {
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
	l, p, o := newHeaderLab(t, HookClsact)
	l.opts.Carry = CarryHeader
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
		{"all nodes, made", CarryHeader, false, false}, {"all nodes, moved", CarryHeader, true, true},
		{"one node, made", CarryAuto, false, true}, {"one node, moved", CarryAuto, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.nightly {
				need.Nightly(t)
			}
			anyHook(t, func(t *testing.T, hook string) {
				l, p, o := newHeaderLab(t, hook)
				l.opts.Carry = c.carry
				req := l.request(chain...)
				if c.carry == CarryAuto {
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
			l.opts.Carry = CarryHeader
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
