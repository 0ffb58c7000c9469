// SPDX-License-Identifier: Apache-2.0

package aggregate_test

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vnetradar/radar/pkg/aggregate"
	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
)

const (
	sec  = int64(1e9)
	base = int64(1_800_000_000) // at(0) in Unix seconds
)

// Three packets: one crosses into the next second on its way, one is a train later,
// one is lost in b's queue.
func TestThroughput(t *testing.T) {
	a := aggregate.New(0)
	p := sent(sec-300, 900) // leaves a in second 0, reaches c in second 1
	a.Add(p)
	p = sent(3*sec, 900)
	p.Segs, p.Len = 10, 15000
	a.Add(p)
	p = lostAt()
	p.T0 = at(3 * sec)
	a.Add(p)

	row := func(by aggregate.By, name string, packets, bytes, active, average, last, peak uint64, peakAt int64, seconds ...aggregate.Second) aggregate.ThroughputRow {
		return aggregate.ThroughputRow{By: by, Name: name, Packets: packets, Bytes: bytes, ActiveS: active,
			AverageBps: &average, LastBps: &last, PeakBps: &peak, PeakS: base + peakAt, Seconds: seconds}
	}
	one := func(at int64) aggregate.Second { return aggregate.Second{At: base + at, Packets: 1, Bytes: 100} }
	both := aggregate.Second{At: base + 3, Packets: 11, Bytes: 15100}
	train := aggregate.Second{At: base + 3, Packets: 10, Bytes: 15000}
	all := func(by aggregate.By) aggregate.ThroughputRow {
		return row(by, "all", 12, 15200, 2, 121600, 60400, 121600, 3, one(0), both)
	}
	for by, want := range map[aggregate.By][]aggregate.ThroughputRow{
		aggregate.ByLink: {
			all(aggregate.ByLink),
			// a's egress at 0.9999997 s, b's ingress 200 ns later, still in second 0.
			row(aggregate.ByLink, "a/e0 > b/e0", 12, 15200, 2, 121600, 60400, 121600, 3, one(0), both),
			row(aggregate.ByLink, "b/e1 > c/e0", 11, 15100, 2, 120800, 60000, 120800, 3, one(1), train),
		},
		aggregate.ByNode: {
			all(aggregate.ByNode),
			row(aggregate.ByNode, "a", 12, 15200, 2, 121600, 60400, 121600, 3, one(0), both),
			row(aggregate.ByNode, "b", 12, 15200, 2, 121600, 60400, 121600, 3, one(0), both),
			row(aggregate.ByNode, "c", 11, 15100, 2, 120800, 60000, 120800, 3, one(1), train),
		},
		aggregate.ByPort: {
			all(aggregate.ByPort),
			row(aggregate.ByPort, "a/e0 out", 12, 15200, 2, 121600, 60400, 121600, 3, one(0), both),
			row(aggregate.ByPort, "b/e0 in", 12, 15200, 2, 121600, 60400, 121600, 3, one(0), both),
			// The lost one went out, too: into the queue.
			row(aggregate.ByPort, "b/e1 out", 12, 15200, 2, 121600, 60400, 121600, 3, one(1), both),
			row(aggregate.ByPort, "c/e0 in", 11, 15100, 2, 120800, 60000, 120800, 3, one(1), train),
		},
		aggregate.ByPath: {
			all(aggregate.ByPath),
			row(aggregate.ByPath, "a > b > c", 11, 15100, 2, 120800, 60000, 120800, 3, one(0), train),
			row(aggregate.ByPath, "a > b", 1, 100, 1, 800, 400, 800, 3, one(3)),
		},
	} {
		// The last seconds are 2 and 3.
		if diff := cmp.Diff(want, a.Throughput(by, letters{}, base+2, base+4)); diff != "" {
			t.Errorf("by %s (-want +got):\n%s", by, diff)
		}
	}
	if rows := aggregate.New(0).Throughput(aggregate.ByLink, letters{}, 0, 10); len(rows) != 0 {
		t.Errorf("nothing passed, but %+v", rows)
	}
}

// The average is over the time in which something passed: what the first and the last
// second have beyond the packets is none of it, nor is a second without any. Less than
// a second counts as one.
func TestAverage(t *testing.T) {
	for name, c := range map[string]struct {
		from, n, every int64 // ns
		more           []int64
		seconds        float64
	}{
		"one second":        {sec / 2, 11, sec / 10, nil, 1},
		"three seconds":     {sec / 2, 31, sec / 10, nil, 3},
		"a pause":           {sec / 2, 31, sec / 10, []int64{60*sec + sec/4}, 3.75},
		"within one second": {sec / 4, 3, sec / 10, nil, 1},
		"over a border":     {sec * 9 / 10, 3, sec / 10, nil, 1},
		"one packet":        {sec / 2, 1, 0, nil, 1},
	} {
		a := aggregate.New(0)
		for i := c.n - 1; i >= 0; i-- { // records come in any order
			p := sent(c.from+i*c.every, 900)
			a.Add(p)
		}
		for _, at := range c.more {
			a.Add(sent(at, 900))
		}
		a, err := a.Copy() // a snapshot keeps it
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range a.Throughput(aggregate.ByLink, letters{}, 0, 0) {
			if want := uint64(math.Round(float64(r.Bytes) * 8 / c.seconds)); *r.AverageBps < want-1 || *r.AverageBps > want+1 {
				t.Errorf("%s: %s: average %d bit/s, want %d", name, r.Name, *r.AverageBps, want)
			}
			if *r.PeakBps < *r.AverageBps {
				t.Errorf("%s: %s: peak %d bit/s is less than the average %d", name, r.Name, *r.PeakBps, *r.AverageBps)
			}
		}
	}
}

// A link that ends at a bridge's member, which packets only leave by, counts them when
// they come out there, not when they set out.
func TestThroughputOnLink(t *testing.T) {
	a := aggregate.New(0)
	p := sent(sec-300, 900)
	c := &p.Hops[2]
	c.In, c.InNs, c.Out, c.OutNs, c.OnLink = packet.NoPort, packet.NoTime, 31, c.InNs, true
	p.State = record.Left
	a.Add(p)
	for _, r := range a.Throughput(aggregate.ByLink, letters{}, 0, 0) {
		if r.Name == "b/e1 > c/e1" && r.PeakS == base+1 {
			return
		}
	}
	t.Errorf("throughput %+v, want one packet on b/e1 > c/e1 in second %d", a.Throughput(aggregate.ByLink, letters{}, 0, 0), base+1)
}

// Records come out of order; what is older than all that is remembered counts in the
// sum only, and the peak is not forgotten.
func TestSecondsAreBounded(t *testing.T) {
	a := aggregate.New(0)
	add := func(second int64, size uint32) {
		p := sent(second*sec, 900)
		p.Len = size
		a.Add(p)
	}
	add(0, 5000)
	for i := int64(aggregate.Seconds); i > 0; i-- { // backwards
		add(i, 100)
	}
	add(0, 700) // forgotten
	add(aggregate.Seconds+5, 100)
	r := a.Throughput(aggregate.ByLink, letters{}, base+aggregate.Seconds, base+aggregate.Seconds+10)[1]
	if r.Packets != aggregate.Seconds+3 || r.Bytes != 5700+100*(aggregate.Seconds+1) || *r.PeakBps != 40000 || r.PeakS != base {
		t.Errorf("%d packets, %d bytes, peak %d bit/s at %d", r.Packets, r.Bytes, *r.PeakBps, r.PeakS)
	}
	if len(r.Seconds) != aggregate.Seconds || r.Seconds[0].At < base+1 || *r.LastBps != 160 {
		t.Errorf("%d seconds from %+v on, last %d bit/s", len(r.Seconds), r.Seconds[0], *r.LastBps)
	}
	for i := range r.Seconds[1:] {
		if r.Seconds[i].At >= r.Seconds[i+1].At {
			t.Fatalf("seconds %+v, %+v", r.Seconds[i], r.Seconds[i+1])
		}
	}
}

// Only so many seconds are remembered in all; sums go on.
func TestSecondsOfAllAreBounded(t *testing.T) {
	a := aggregate.New(0)
	n := 0
	for i := range uint16(700) { // six meters each, beside those of all
		for k := range int64(aggregate.Seconds) {
			p := sent(k*sec, 900)
			p.Hops[0].Out, p.Hops[1].In, p.Hops[1].Out, p.Hops[2].In = 1000+10*i, 1001+10*i, 1002+10*i, 1003+10*i
			a.Add(p)
			n++
		}
	}
	seconds, packets := 0, uint64(0)
	for _, by := range []aggregate.By{aggregate.ByLink, aggregate.ByPort} {
		for _, r := range a.Throughput(by, letters{}, 0, 0)[1:] {
			seconds += len(r.Seconds)
			packets += r.Packets
		}
	}
	if seconds > aggregate.MaxSeconds || seconds < aggregate.MaxSeconds*8/10 || packets != uint64(6*n) {
		t.Errorf("%d seconds remembered, at most %d; %d packets, want %d", seconds, aggregate.MaxSeconds, packets, 6*n)
	}
}
