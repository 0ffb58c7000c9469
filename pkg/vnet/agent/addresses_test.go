// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"encoding/binary"
	"errors"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/vnet/backpack"
	"github.com/vnetradar/radar/pkg/vnet/datapath/program"
	"github.com/vnetradar/radar/pkg/vnet/domain"
	"github.com/vnetradar/radar/pkg/vnet/topo"
)

// An address that moves between n1 and n2, to which c sends.

const (
	movePort  = 4714
	moveStep  = 40503 // between IP IDs: each packet is known by its own
	moveEvery = 400 * time.Microsecond
)

var moveAddr = netip.MustParseAddr("10.99.0.1")

// mover sends numbered packets for the address to whichever node has it, and counts what
// programs there receive.
type mover struct {
	t      *testing.T
	net    *nstest.Net
	ways   [2]way
	target atomic.Int32
	sent   uint32

	mu  sync.Mutex
	got map[uint16]bool // by IP ID
}

// way is how packets get to one of the two nodes.
type way struct {
	frames *nstest.Frames
	head   []byte // of each frame
}

func newMover(t *testing.T, n *nstest.Net) *mover {
	t.Helper()
	m := &mover{t: t, net: n, got: make(map[uint16]bool)}
	m.ways[0] = m.open("e1", "n1", "10.0.1.1")
	m.ways[1] = m.open("e2", "n2", "10.0.2.1")
	for _, node := range []string{"n1", "n2"} {
		m.receive(node)
	}
	return m
}

// in runs f in the namespace of a node.
func (m *mover) in(node string, f func() error) {
	m.t.Helper()
	specs, err := topo.ParseSpecs([]string{m.net.Spec(node)})
	if err == nil {
		err = specs[0].Do(f)
	}
	if err != nil {
		m.t.Fatal(err)
	}
}

func (m *mover) open(port, node, src string) (w way) {
	m.t.Helper()
	mac := func(port string) (mac net.HardwareAddr, err error) {
		itf, err := net.InterfaceByName(port)
		if err == nil {
			mac = itf.HardwareAddr
		}
		return mac, err
	}
	m.in(node, func() error {
		to, err := mac("e0")
		w.head = append(w.head, to...)
		return err
	})
	m.in("c", func() (err error) {
		from, err := mac(port)
		w.head = append(w.head, from...)
		if err == nil {
			w.frames, err = nstest.OpenFrames(port)
		}
		return err
	})
	m.t.Cleanup(func() { w.frames.Close() })
	w.head = binary.BigEndian.AppendUint16(w.head, unix.ETH_P_IP)
	w.head = append(w.head, 0x45, 0, 0, 20+8+4, 0, 0, 0x40, 0, 64, unix.IPPROTO_UDP, 0, 0) // DF
	w.head = append(w.head, netip.MustParseAddr(src).AsSlice()...)
	w.head = append(w.head, moveAddr.AsSlice()...)
	w.head = binary.BigEndian.AppendUint16(w.head, movePort)
	w.head = binary.BigEndian.AppendUint16(w.head, movePort)
	w.head = append(w.head, 0, 8+4, 0, 0) // no checksum
	return w
}

// moveID is the IP ID of the packet with that number.
func moveID(n uint32) uint16 { return uint16(n*moveStep + 1) }

// send sends the next packet.
func (m *mover) send() {
	const ip, sum = 14, 14 + 10
	w := &m.ways[m.target.Load()]
	f := binary.BigEndian.AppendUint32(append([]byte(nil), w.head...), m.sent)
	binary.BigEndian.PutUint16(f[ip+4:], moveID(m.sent))
	var s uint32
	for i := ip; i < ip+20; i += 2 {
		s += uint32(binary.BigEndian.Uint16(f[i:]))
	}
	s = s&0xffff + s>>16
	binary.BigEndian.PutUint16(f[sum:], ^uint16(s+s>>16))
	if err := w.frames.Send(f); err != nil {
		m.t.Errorf("send: %v", err)
	}
	m.sent++
}

// receive counts what a program in the node receives, to the end of the test.
func (m *mover) receive(node string) {
	m.t.Helper()
	var c *net.UDPConn
	m.in(node, func() (err error) {
		c, err = net.ListenUDP("udp4", &net.UDPAddr{Port: movePort})
		return err
	})
	raw, err := c.SyscallConn()
	if err == nil {
		err = raw.Control(func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 16<<20) })
	}
	if err != nil {
		m.t.Fatal(err)
	}
	var wait sync.WaitGroup
	wait.Go(func() {
		var b [64]byte
		for {
			n, err := c.Read(b[:])
			if errors.Is(err, net.ErrClosed) || errors.Is(err, os.ErrDeadlineExceeded) {
				return
			}
			if err == nil && n == 4 {
				m.mu.Lock()
				m.got[moveID(binary.BigEndian.Uint32(b[:]))] = true
				m.mu.Unlock()
			}
		}
	})
	m.t.Cleanup(func() { c.Close(); wait.Wait() })
}

func (m *mover) received() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.got)
}

// runAgent attaches nodes and runs an agent, as radar attach does, until the test ends.
func runAgent(t *testing.T, o program.Options, specs []topo.NodeSpec) string {
	t.Helper()
	name := attach(t, o, specs)
	a, err := Open(name, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ready, done := make(chan struct{}), make(chan error, 1)
	go func() {
		_, err := a.Run(ctx, func() { close(ready) })
		done <- err
	}()
	nstest.Cleanup(t, func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		a.Close()
	})
	select {
	case <-ready:
	case err := <-done:
		t.Fatalf("agent: %v", err)
	}
	return name
}

// An address moves 20 times between two attached nodes while packets are sent to it. No packet
// that a program received is told as lost, and none that was not received as delivered.
func TestAddressMoves(t *testing.T) {
	t.Parallel()
	n := nstest.New(t, "c", "n1", "n2")
	n.Veth("c", "e1", "n1", "e0")
	n.Veth("c", "e2", "n2", "e0")
	n.Address("c", "e1", "10.0.1.1/24")
	n.Address("c", "e2", "10.0.2.1/24")
	n.Address("n1", "e0", "10.0.1.2/24")
	n.Address("n2", "e0", "10.0.2.2/24")
	specs, err := topo.ParseSpecs([]string{n.Spec("c"), n.Spec("n1"), n.Spec("n2")})
	if err != nil {
		t.Fatal(err)
	}
	o := program.DefaultOptions()
	o.Slots, o.Timeout = 1<<15, 3*time.Second
	name := runAgent(t, o, specs)
	m := newMover(t, n)
	address := func(what string, node int32) {
		n.Run([]string{"n1", "n2"}[node], "ip", "addr", what, moveAddr.String()+"/32", "dev", "e0")
	}
	address("add", 0)

	stop := make(chan struct{})
	var sending sync.WaitGroup
	sending.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(moveEvery):
				m.send()
			}
		}
	})
	const moves = 20
	for k := range int32(moves) {
		from, to := k%2, (k+1)%2
		time.Sleep(60 * time.Millisecond)
		if k%4 < 2 { // a router that takes over while the other one still has it
			address("add", to)
			m.target.Store(to)
			address("del", from)
			continue
		}
		address("del", from) // packets come to a node that has it no more
		time.Sleep(3 * time.Millisecond)
		address("add", to)
		m.target.Store(to)
	}
	time.Sleep(60 * time.Millisecond)
	close(stop)
	sending.Wait()
	if m.sent > 1<<16 {
		t.Fatalf("%d packets have not as many IDs", m.sent)
	}

	r, err := OpenRing(name)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	recs := make(map[uint16]record.Record)
	scan := func() (open bool) {
		clear(recs)
		_, err := backpack.ScanFunc(r.Maps, r.Decoder, backpack.ScanOptions{}, func(rec *record.Record) error {
			if rec.Dport == nil || *rec.Dport != movePort {
				return nil
			}
			open = open || rec.State == record.InFlight
			recs[uint16(rec.IPID)] = *rec
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return open
	}
	nstest.WaitFor(t, "the end of all packets", func() bool {
		if err := r.Update(); err != nil {
			t.Fatal(err)
		}
		return !scan()
	})
	m.compare(recs)
	// Whoever still reads when the domain is detached knows what he knew.
	known := maps.Clone(recs)
	if err := os.Remove(domain.MovesFile(name)); err != nil {
		t.Fatal(err)
	}
	r.UpdateMoves()
	scan()
	for id, was := range known {
		if is := recs[id]; is.State != was.State || is.Moved != was.Moved {
			t.Errorf("packet %d was %s (moved: %v), and is %s (%v) when the agent's list is gone", id, was.State, was.Moved, is.State, is.Moved)
			break
		}
	}
	if moves, err := domain.LoadMoves(r.Domain); t.Failed() {
		t.Logf("the agent saw %+v, %v", moves, err)
	}
}

// compare holds what radar tells against what programs received, packet by packet.
func (m *mover) compare(recs map[uint16]record.Record) {
	m.t.Helper()
	missing, falseLosses, falseEnds, unknown, lost := 0, 0, 0, 0, 0
	var example record.Record
	received := m.received() // nothing comes any more
	m.mu.Lock()
	defer m.mu.Unlock()
	for k := range m.sent {
		id := moveID(k)
		rec, ok := recs[id]
		got := m.got[id]
		switch {
		case !ok:
			missing++
		case rec.Moved:
			unknown++
		case got && (rec.State != record.Delivered || rec.LocalDrop != nil):
			falseLosses++
			example = rec
		case !got && rec.State == record.Delivered && rec.LocalDrop == nil:
			falseEnds++
			example = rec
		case !got:
			lost++
		}
	}
	m.t.Logf("%d packets sent, %d received; radar: %d lost or dropped, %d of which it does not know", m.sent, received, lost, unknown)
	if missing+falseLosses+falseEnds > 0 {
		m.t.Errorf("%d packets without a record, %d received and told as lost, %d not received and told as delivered, such as\n%+v %+v %+v",
			missing, falseLosses, falseEnds, example, example.Loss, example.Hops)
	}
	if unknown >= received {
		m.t.Errorf("of %d packets received radar does not know %d", received, unknown)
	}
}
