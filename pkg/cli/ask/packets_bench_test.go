// SPDX-License-Identifier: Apache-2.0

package ask

import (
	"io"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/answer"
	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/filter"
	"github.com/vnetradar/radar/pkg/vnet/backpack"
	rt "github.com/vnetradar/radar/pkg/vnet/backpack/ringtest"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// followedDomain is h1 - r1 - h2, as in cmd/bench.
func followedDomain(slots uint32) *domain.Domain {
	return &domain.Domain{
		Version: 1, Name: "default", Epoch: 0x5f3a9c01, Options: domain.Options{Slots: slots, Timeout: 10 * time.Second},
		Nodes: []domain.Node{{ID: 1, Name: "h1"}, {ID: 2, Name: "r1"}, {ID: 3, Name: "h2"}},
		Ports: []domain.Port{
			{ID: 0, Node: 1, Name: "eth0", Peer: 1},
			{ID: 1, Node: 2, Name: "eth0", Peer: 0}, {ID: 2, Node: 2, Name: "eth1", Peer: 3},
			{ID: 3, Node: 3, Name: "eth0", Peer: 2},
		},
	}
}

// followed is a ring to which packets come, and what prints them.
type followed struct {
	ring    *rt.Image
	now     uint64 // CLOCK_MONOTONIC, ns
	sent    int
	out     *kit.Kit
	from    *answer.Follower
	printer *kit.PacketPrinter
}

func newFollowed(tb testing.TB, spec filter.Spec, format kit.Format, out io.Writer) *followed {
	tb.Helper()
	const slots = 1 << 17
	f := &followed{ring: rt.New(slots, 256, 1, 1024), now: 1000e9}
	s, err := answer.Select(spec)
	if err != nil {
		tb.Fatal(err)
	}
	d := followedDomain(slots)
	f.from = answer.NewFollower(f.ring, backpack.NewDecoder(d, nil), backpack.FollowOptions{
		Select: s.Ring(), Now: func() uint64 { return f.now },
	}, !kit.ShowsNames(format))
	f.out = kit.New(nil, out, out)
	f.out.Location, f.out.Output = time.UTC, format
	f.out.ShowNames(d)
	f.printer = packetPrinter(f.out, packetQuery{Selection: s})
	return f
}

// send lets n packets go from h1 to h2, 10 us apart. One of a hundred has another port.
func (f *followed) send(n int) {
	for range n {
		f.now += 10_000
		p := rt.Packet{Proto: 17, Src: [4]byte{10, 0, 1, 1}, Dst: [4]byte{10, 0, 2, 2}, Sport: 40001, Dport: 4777, ID: uint16(f.sent), TTL: 64, Len: 46}
		if f.sent%100 == 0 {
			p.Dport = 4799
		}
		f.sent++
		pos, _ := f.ring.Send(0, p, rt.Egress, 0, f.now)
		at := f.now
		for _, e := range []struct {
			kind byte
			port uint16
		}{{rt.Ingress, 1}, {rt.Egress, 2}, {rt.Deliver, 3}} {
			at += 1_300
			f.ring.See(pos, e.kind, rt.First, e.port, at)
		}
	}
}

// show prints what has ended since it was called last.
func (f *followed) show(tb testing.TB) {
	tb.Helper()
	if _, err := showEnded(f.out, f.from, f.printer, 0, 0); err != nil {
		tb.Fatal(err)
	}
}

// BenchmarkFollow is the cost of one packet to "radar packets -f", which looks every 100 ms at a
// ring that takes 100,000 packets a second: from the slot to the line. cpu-ns is what all threads
// of the process take, with what it takes to collect garbage.
func BenchmarkFollow(b *testing.B) {
	for _, bc := range []struct {
		name   string
		spec   filter.Spec
		format kit.Format
	}{
		{"table", filter.Spec{}, kit.FormatTable},
		{"wide", filter.Spec{}, kit.FormatWide},
		{"json", filter.Spec{}, kit.FormatJSON},
		{"csv", filter.Spec{}, kit.FormatCSV},
		{"1-of-100-kept", filter.Spec{Dport: "4799"}, kit.FormatTable},
	} {
		b.Run(bc.name, func(b *testing.B) {
			const batch = 10_000
			f := newFollowed(b, bc.spec, bc.format, io.Discard)
			f.send(batch)
			f.show(b)
			b.ReportAllocs()
			b.ResetTimer()
			took := time.Duration(0)
			for left := b.N; left > 0; left -= batch {
				b.StopTimer()
				f.send(batch)
				b.StartTimer()
				before := cpuTime(b)
				f.show(b)
				took += cpuTime(b) - before
			}
			b.ReportMetric(float64(took)/float64(b.N), "cpu-ns/op")
		})
	}
}

// cpuTime is what this process took so far.
func cpuTime(tb testing.TB) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
