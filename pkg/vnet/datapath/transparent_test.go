// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"os"
	"regexp"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/vnet/datapath/program"
	"github.com/vnetradar/radar/pkg/vnet/domain"
	"github.com/vnetradar/radar/pkg/vnet/topo"
)

// stream is UDP from one namespace to another while ports are attached and detached.
// The receiver looks at the TTL that every packet arrives with.
type stream struct {
	t          *testing.T
	send, recv *net.UDPConn
	stop       chan struct{}
	sending    sync.WaitGroup
	receiving  sync.WaitGroup

	timeout time.Duration // of the domain
	began   time.Time
	sent    int64
	got     atomic.Int64
	wrong   map[byte]int // TTLs that the sender did not send
	expired int          // packets with such a TTL that came after the timeout
}

// sentTTL is in no band: neither where packets leave nor on the way is it a GUID's.
const sentTTL = 40

// startStream sends from one namespace to an address of another.
func (l *lab) startStream(from, to, addr string) *stream {
	l.t.Helper()
	s := &stream{t: l.t, stop: make(chan struct{}), timeout: l.opts.Timeout, began: time.Now(), wrong: make(map[byte]int)}
	must := func(err error) {
		l.t.Helper()
		if err != nil {
			l.t.Fatal(err)
		}
	}
	specs := l.specs(from, to)
	peer := &net.UDPAddr{IP: net.ParseIP(addr), Port: 4711}
	must(specs[1].Do(func() (err error) {
		s.recv, err = net.ListenUDP("udp4", peer)
		return err
	}))
	must(specs[0].Do(func() (err error) {
		s.send, err = net.DialUDP("udp4", nil, peer)
		return err
	}))
	set := func(c *net.UDPConn, level, opt, value int) {
		l.t.Helper()
		raw, err := c.SyscallConn()
		must(err)
		must(raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), level, opt, value) }))
		must(err)
	}
	set(s.recv, unix.IPPROTO_IP, unix.IP_RECVTTL, 1)
	set(s.recv, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 64<<20) // room for what comes while the receiver waits for a CPU
	set(s.send, unix.IPPROTO_IP, unix.IP_TTL, sentTTL)
	set(s.send, unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO)
	s.sending.Go(s.sender)
	s.receiving.Go(s.receiver)
	return s
}

// sender sends one packet at least.
func (s *stream) sender() {
	var payload [32]byte
	for {
		s.sent++
		binary.BigEndian.PutUint64(payload[:], uint64(s.sent))
		binary.BigEndian.PutUint64(payload[8:], uint64(time.Since(s.began)))
		if _, err := s.send.Write(payload[:]); err != nil && !errors.Is(err, syscall.ECONNREFUSED) {
			s.t.Errorf("send: %v", err)
			return
		}
		select {
		case <-s.stop:
			return
		case <-time.After(50 * time.Microsecond):
		}
	}
}

func (s *stream) receiver() {
	var data, oob [128]byte
	for {
		_, n, _, _, err := s.recv.ReadMsgUDP(data[:], oob[:])
		if errors.Is(err, net.ErrClosed) || errors.Is(err, os.ErrDeadlineExceeded) {
			return
		}
		if err != nil {
			s.t.Errorf("receive: %v", err)
			return
		}
		s.got.Add(1)
		messages, err := unix.ParseSocketControlMessage(oob[:n])
		if err != nil || len(messages) != 1 {
			s.t.Errorf("control messages %v: %v", messages, err)
			return
		}
		ttl, age := messages[0].Data[0], time.Since(s.began)-time.Duration(binary.BigEndian.Uint64(data[8:]))
		switch {
		case ttl == sentTTL:
		case age >= s.timeout: // a CPU was away: what takes so long is not waited for
			s.expired++
		default:
			s.wrong[ttl]++
		}
	}
}

// end stops the stream. Every packet must have come as it was sent, and none be
// missing, but those that the kernel drops while a clsact qdisc comes or goes.
func (s *stream) end(hook string) {
	s.t.Helper()
	close(s.stop)
	s.sending.Wait()
	time.Sleep(200 * time.Millisecond) // also for more than was sent
	for end := time.Now().Add(patience); s.got.Load() < s.sent && hook != program.HookClsact && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
	_ = s.recv.SetReadDeadline(time.Now())
	s.receiving.Wait()
	s.send.Close()
	s.recv.Close()
	got := s.got.Load()
	if got == 0 || got != s.sent && hook != program.HookClsact {
		s.t.Errorf("sent %d packets, %d came", s.sent, got)
	}
	if len(s.wrong) > 0 {
		s.t.Errorf("of %d packets some came with a TTL that nobody sent: %v", got, s.wrong)
	}
	if s.expired > 0 {
		s.t.Logf("%d packets came only after %v, with another TTL", s.expired, s.timeout)
	}
}

// The bridge's namespace becomes a node while packets cross the bridge, and ceases to
// be one.
func TestBridgeNodeIsNamedInTraffic(t *testing.T) {
	need.Nightly(t) // TestBridgeNodeIsNamed without traffic, and TestBridgeAttachInTraffic, stay
	anyHook(t, func(t *testing.T, hook string) {
		l := newBridgeLab(t, hook)
		l.opts.Lease = 0
		l.attach("a")
		s := l.startStream("a", "u", "10.0.0.3")
		for range 3 {
			l.attach("sw")
			l.detach("sw")
		}
		s.end(hook)
	})
}

// Nodes on a bridge come and go while packets cross it.
func TestBridgeAttachInTraffic(t *testing.T) {
	anyHook(t, func(t *testing.T, hook string) {
		l := newBridgeLab(t, hook)
		l.opts.Lease = 0
		l.attach("a")
		s := l.startStream("a", "u", "10.0.0.3")
		for range 3 {
			l.attach("u")
			l.attach("b")
			l.detach("u")
			l.detach("b")
		}
		s.end(hook)
	})
}

// A change that fails when all has been attached and removed is taken back, and the
// domain was closed all the time.
func TestBridgeUndoInTraffic(t *testing.T) {
	need.Nightly(t) // TestBridgeAttachInTraffic stays
	anyHook(t, func(t *testing.T, hook string) {
		l := newBridgeLab(t, hook)
		l.opts.Lease = 0
		all := []string{"sw", "a", "b", "u"}
		l.attach("a")
		ids := regexp.MustCompile(` id \d+`)
		hooks := func() string { return ids.ReplaceAllString(l.tc(all...), "") }
		flags, description, tc := l.flags(), readDescription(t, l), hooks()
		s := l.startStream("a", "u", "10.0.0.3")
		for _, nodes := range [][]string{{"u"}, {"sw"}, {"sw", "u"}} {
			l.attachInVain(nodes...)
			time.Sleep(20 * time.Millisecond) // what is marked now must be restored
			if diff := cmp.Diff(flags, l.flags()); diff != "" {
				t.Errorf("%v: flags (-before +after):\n%s", nodes, diff)
			}
			if diff := cmp.Diff(description, readDescription(t, l)); diff != "" {
				t.Errorf("%v: description (-before +after):\n%s", nodes, diff)
			}
			if diff := cmp.Diff(tc, hooks()); diff != "" {
				t.Errorf("%v: tc (-before +after):\n%s", nodes, diff)
			}
			l.wantDevice("pu", "pu")
			l.wantDevice("br0", "br0")
		}
		s.end(hook)
		l.detachAll()
	})
}

// attachInVain attaches nodes and fails at the last moment.
func (l *lab) attachInVain(nodes ...string) {
	l.t.Helper()
	p, err := prepare(l.t.Context(), l.request(nodes...))
	if err != nil {
		l.t.Fatal(err)
	}
	var undo undo
	h, err := p.open(&undo)
	if err != nil {
		l.t.Fatal(err)
	}
	defer h.Close()
	late := errors.New("too late")
	a := &applier{h: h, c: p.change, undo: &undo, between: func() error { return late }}
	if err := a.run(l.t.Context()); !errors.Is(err, late) {
		l.t.Fatalf("attach: %v", err)
	}
	undo.run()
}

// A bridge with a member that cannot be closed stays open while that is tried again.
func TestBridgeStaysOpenInTraffic(t *testing.T) {
	need.Nightly(t) // TestBridgeStaysOpen stays
	l := newBridgeLab(t, program.HookClsact)
	l.opts.Lease = 0
	l.attach("a")
	l.Add("n")
	l.Veth("n", "e0", "sw", "pn")
	l.Address("n", "e0", "10.0.0.9/24")
	l.Run("sw", "tc", "qdisc", "add", "dev", "pn", "ingress")
	l.Run("sw", "ip", "link", "set", "pn", "master", "br0")
	l.refresh()
	s := l.startStream("u", "n", "10.0.0.9")
	for range 5 {
		if c := l.refresh(); len(c.Warnings) != 1 {
			t.Errorf("changes %+v, want a warning", c)
		}
	}
	s.end(program.HookTCX) // no qdisc comes or goes
}

// A bridge that floods everything hands a packet to members that lead outside first,
// and then to a port that the user has made an edge.
func TestBridgeEdgeIsFlooded(t *testing.T) {
	l := newBridgeLab(t, program.HookTCX)
	l.opts.Lease = 0
	l.Run("sw", "ip", "link", "set", "br0", "type", "bridge", "ageing_time", "0")
	req := l.request("a", "b")
	req.Roles = []topo.RoleOverride{{Node: "b", Port: "e0", Role: domain.Edge}}
	if _, err := Attach(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		s := l.startStream("a", "b", "10.0.0.2")
		time.Sleep(20 * time.Millisecond)
		s.end(program.HookTCX)
		l.refresh() // which does not know what the user said
	}
	l.wantBridgeFlags("a/e0 "+internalPort, "b/e0 out", "sw/br0 "+devicePort, "sw/pu "+memberPort)
}

// Two domains that are attached to one bridge at the same time: one of them is refused.
func TestBridgeOfTwoDomainsAtOnce(t *testing.T) {
	need.Nightly(t) // TestBridgeOfAnotherDomain stays
	l := newBridgeLab(t, program.HookTCX)
	other := *l
	other.domain += "x"
	nstest.Cleanup(t, func() {
		_, _ = Detach(context.Background(), DetachRequest{Domain: other.domain, NoDrain: true})
	})
	for range 3 {
		var wait sync.WaitGroup
		errs := make([]error, 2)
		for i, req := range []AttachRequest{l.request("a"), other.request("b")} {
			wait.Go(func() { _, errs[i] = Attach(t.Context(), req) })
		}
		wait.Wait()
		refused := 0
		for i, name := range []string{l.domain, other.domain} {
			if errors.Is(errs[i], fault.Usage) {
				refused++
				continue
			}
			if errs[i] != nil {
				t.Error(errs[i])
			}
			if _, err := Detach(t.Context(), DetachRequest{Domain: name, NoDrain: true}); err != nil {
				t.Error(err)
			}
		}
		if refused != 1 {
			t.Errorf("%d of 2 domains on a bridge were refused: %v", refused, errs)
		}
	}
}
