// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/lab/test/oracle"
)

// A self probe is a UDP packet whose every byte follows from its two ports: the
// receiver needs no log of what was sent. All have DF set, random IDs and TTLs
// that radar could have written itself. A third of them begin with the same 8
// bytes of payload, a third have less than 8: content tells those apart badly.

const (
	selfPorts    = 64 // destination ports; with the source ports enough for no probe to come twice
	selfPortBase = 20000
	selfSports   = 60000
	selfSport0   = 2000
)

// inBands are TTLs in radar's default bands.
var inBands = []uint8{80, 150, 72, 96, 65, 200, 224, 129}

// The kinds of self probes.
const (
	ordinary  = iota
	sameStart // the payload begins as all others do
	tiny      // hardly any payload
	kinds
)

var kindNames = [kinds]string{"ordinary", "same start", "tiny"}

func kindOf(sport uint16) int { return int(sport % kinds) }

// selfProbe appends the packet of those ports to b: as it is sent, or with the
// TTL that it has after some routers.
func selfProbe(b []byte, src, dst [4]byte, sport, dport uint16, routers int) []byte {
	x := uint64(sport)<<16 | uint64(dport)
	next := func() uint64 { // splitmix64
		x += 0x9e3779b97f4a7c15
		z := x
		z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		return z ^ z>>31
	}
	r := next()
	size, same := [kinds]int{64, 300, 5}[kindOf(sport)], kindOf(sport) == sameStart
	b = append(b, 0x45, byte(r>>24), 0, 0, byte(r), byte(r>>8)|1, 0x40, 0, inBands[r>>16&7]-byte(routers), unix.IPPROTO_UDP, 0, 0)
	b = append(append(b, src[:]...), dst[:]...)
	b = binary.BigEndian.AppendUint16(b, sport)
	b = binary.BigEndian.AppendUint16(b, dport)
	b = binary.BigEndian.AppendUint16(b, uint16(size+8))
	b = append(b, 0, 0) // no UDP checksum
	for i := 0; i < size; i += 8 {
		v := next()
		if same && i == 0 {
			v = 0
		}
		b = append(b, binary.BigEndian.AppendUint64(nil, v)[:min(8, size-i)]...)
	}
	binary.BigEndian.PutUint16(b[2:], uint16(len(b)))
	binary.BigEndian.PutUint16(b[10:], ipChecksum(b[:20]))
	return b
}

func ipChecksum(header []byte) uint16 {
	var sum uint32
	for i := 0; i < len(header); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(header[i:]))
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}

// selfFlow is a flow of self probes at full rate and what came of it.
type selfFlow struct {
	sent, right, wrong atomic.Int64
	rightBy, wrongBy   [kinds]atomic.Int64           // see kindOf
	first              [kinds]atomic.Pointer[string] // wrong packets
	stop, pause        atomic.Bool
	gap                time.Duration
	sports             int // source ports
	onlyOrdinary       bool
	done               chan error
}

// heldUp is for how long a flow makes up when its sender had no CPU: a burst of all that is
// due after seconds would use up the ring.
const heldUp = 5 * time.Millisecond

// startSelfFlow sends until stopped, a packet every gap or, if that is 0, as fast as it
// goes, and checks every byte at a raw socket. Packets may get lost at that rate; wrong
// they must not be.
func (n *network) startSelfFlow(t *testing.T, from, to string, routers int, gap time.Duration) *selfFlow {
	t.Helper()
	return n.startSelfFlows(t, from, to, routers, gap, selfSports)
}

// startSelfFlows is startSelfFlow with less source ports: so many, times selfPorts, are the
// flows that radar sees.
func (n *network) startSelfFlows(t *testing.T, from, to string, routers int, gap time.Duration, sports int) *selfFlow {
	t.Helper()
	f := &selfFlow{gap: gap, sports: sports}
	n.start(t, f, from, to, routers)
	return f
}

// start starts a flow whose gap and ports are set.
func (n *network) start(t *testing.T, f *selfFlow, from, to string, routers int) {
	t.Helper()
	f.done = make(chan error, 2)
	src, dst := n.addr(t, from).As4(), n.addr(t, to).As4()
	out, in := n.openRaw(t, from, unix.AF_INET, unix.IPPROTO_RAW), n.receiveRaw(t, to, unix.IPPROTO_UDP, 100*time.Millisecond)
	t.Cleanup(func() { f.stop.Store(true); unix.Close(out); unix.Close(in) })
	go func() { f.done <- f.check(in, src, dst, routers) }()
	go func() { f.done <- f.send(out, src, dst) }()
}

// sport is the source port of the i-th probe.
func (f *selfFlow) sport(i int) uint16 {
	if f.onlyOrdinary {
		return uint16(selfSport0 + kinds - selfSport0%kinds + kinds*(i%f.sports))
	}
	return uint16(selfSport0 + i%f.sports)
}

func (f *selfFlow) send(fd int, src, dst [4]byte) error {
	b := make([]byte, 0, 400)
	to := &unix.SockaddrInet4{Addr: dst}
	next := time.Now()
	for i := 0; !f.stop.Load(); i++ {
		for f.pause.Load() && !f.stop.Load() {
			time.Sleep(time.Millisecond)
		}
		waitUntil(next)
		next = next.Add(f.gap)
		if least := time.Now().Add(-heldUp); f.gap == 0 {
			next = time.Time{}
		} else if next.Before(least) {
			next = least
		}
		b = selfProbe(b[:0], src, dst, f.sport(i), uint16(selfPortBase+i/f.sports%selfPorts), 0)
		if err := unix.Sendto(fd, b, 0, to); err != nil {
			return fmt.Errorf("send self probe: %w", err)
		}
		f.sent.Add(1)
	}
	return nil
}

func (f *selfFlow) check(fd int, src, dst [4]byte, routers int) error {
	buf, want := make([]byte, 65536), make([]byte, 0, 400)
	for {
		n, _, err := unix.Recvfrom(fd, buf, 0)
		if err == unix.EAGAIN && f.stop.Load() {
			return nil
		}
		if err == unix.EAGAIN || err == unix.EINTR {
			continue
		}
		if err != nil {
			return fmt.Errorf("receive self probe: %w", err)
		}
		got := buf[:n]
		sport, dport := binary.BigEndian.Uint16(got[20:]), binary.BigEndian.Uint16(got[22:])
		want = selfProbe(want[:0], src, dst, sport, dport, routers)
		if bytes.Equal(got, want) {
			f.right.Add(1)
			f.rightBy[kindOf(sport)].Add(1)
			continue
		}
		f.wrong.Add(1)
		f.wrongBy[kindOf(sport)].Add(1)
		s := hexdump(got, want)
		f.first[kindOf(sport)].CompareAndSwap(nil, &s)
	}
}

// hexdump shows how two packets begin.
func hexdump(got, want []byte) string {
	return fmt.Sprintf("got  % x\nwant % x", got[:min(len(got), 40)], want[:min(len(want), 40)])
}

// rowsByKind says for each kind how many arrived, and how many not as they were sent.
func (f *selfFlow) rowsByKind() []*oracle.Row {
	var rows []*oracle.Row
	for k, name := range kindNames {
		right, wrong := int(f.rightBy[k].Load()), int(f.wrongBy[k].Load())
		row := &oracle.Row{Check: "bytes at the socket, " + name, Compared: right + wrong, Wrong: wrong}
		if first := f.first[k].Load(); first != nil {
			row.Findings = []string{*first}
		}
		rows = append(rows, row)
	}
	return rows
}

// firstWrong is a wrong packet, nil if there was none.
func (f *selfFlow) firstWrong() *string {
	for k := range f.first {
		if s := f.first[k].Load(); s != nil {
			return s
		}
	}
	return nil
}

// finish stops the flow and waits until everything in flight was checked.
func (f *selfFlow) finish(t *testing.T) {
	t.Helper()
	f.stop.Store(true)
	for range 2 {
		if err := <-f.done; err != nil {
			t.Error(err)
		}
	}
}
