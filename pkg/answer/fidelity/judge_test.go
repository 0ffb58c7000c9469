// SPDX-License-Identifier: Apache-2.0

package fidelity

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/vnetradar/radar/pkg/record"
)

// link makes packets that pass r1/e1, one a millisecond, and what the emulator there does to each.
func link(n int, do func(rng *rand.Rand, i int, r *record.Record) (wait int64)) []*record.Record {
	rng := rand.New(rand.NewPCG(4, 2))
	ns := func(v int64) *int64 { return &v }
	var list []*record.Record
	for i := range n {
		r := &record.Record{
			State: record.Delivered, TNs: int64(i) * 1e6, Segs: 1, Len: 986, Src: "a", Dst: "b", Proto: "udp",
			Hops: []record.Hop{{Node: "r1", Port: "e1", AtNs: ns(0)}, {Node: "h2", InPort: "e0", LinkNs: ns(1000)}},
		}
		if wait := do(rng, i, r); wait >= 0 && r.State == record.Delivered {
			r.Hops[0].QueueNs = ns(wait)
		}
		list = append(list, r)
	}
	return list
}

func lose(r *record.Record) {
	r.State, r.Hops = record.Lost, r.Hops[:1]
	r.Loss = &record.Loss{Node: "r1", Port: "e1", At: record.AtQueue, Reason: "QDISC_DROP"}
}

// verdictsOf are those on each property of one port.
func verdictsOf(t *testing.T, p Port, packets []*record.Record, machine Machine) map[Property]Row {
	t.Helper()
	p.Name, p.Node, p.Port, p.Header = "r1/e1", "r1", "e1", 14
	m := NewMeter([]Port{p})
	for _, r := range packets {
		m.Add(r)
	}
	rows := make(map[Property]Row)
	for _, r := range m.Judge(machine, DefaultOptions) {
		if r.Bounds != nil && !r.Bounds.Has(*r.Measured) {
			t.Errorf("%v lies outside of its bounds: %+v", *r.Measured, r)
		}
		rows[r.Property] = r
	}
	return rows
}

// What an emulator does as it declares is true, what it does otherwise is untrue, and of few packets neither is said.
func TestVerdicts(t *testing.T) {
	even := func(rng *rand.Rand, _ int, _ *record.Record) int64 { return 10e6 + rng.Int64N(4e6) - 2e6 }
	normal := func(rng *rand.Rand, _ int, _ *record.Record) int64 { return 10e6 + int64(2e6*rng.NormFloat64()) }
	losing := func(rng *rand.Rand, _ int, r *record.Record) int64 {
		if rng.Float64() < 0.02 {
			lose(r)
		}
		return 0
	}
	for _, c := range []struct {
		name   string
		netem  Netem
		n      int
		do     func(*rand.Rand, int, *record.Record) int64
		true   []Property
		untrue []Property
	}{
		{"even", Netem{DelayNs: 10e6, JitterNs: 2e6}, 4000, even, []Property{Delay, Jitter, Loss}, nil},
		{"normal", Netem{DelayNs: 10e6, JitterNs: 2e6}, 20000, normal, []Property{Delay, Jitter}, nil},
		{"another delay", Netem{DelayNs: 12e6, JitterNs: 2e6}, 4000, even, []Property{Jitter}, []Property{Delay}},
		{"another jitter", Netem{DelayNs: 10e6, JitterNs: 5e6}, 4000, even, []Property{Delay}, []Property{Jitter}},
		{"few", Netem{DelayNs: 10e6, JitterNs: 2e6}, 20, even, nil, nil},
		{"loss", Netem{Loss: 0.02}, 60000, losing, []Property{Loss}, nil},
		{"another loss", Netem{Loss: 0.01}, 10000, losing, nil, []Property{Loss}},
		{"losses of few", Netem{Loss: 0.02}, 300, losing, nil, nil},
		{"reordered", Netem{DelayNs: 10e6, Reorder: 0.25}, 50000, func(rng *rand.Rand, _ int, _ *record.Record) int64 {
			if rng.Float64() < 0.25 {
				return 0
			}
			return 10e6
		}, []Property{Delay, Reorder}, nil},
		{"duplicates", Netem{Duplicate: 0.5}, 20000, func(rng *rand.Rand, _ int, r *record.Record) int64 {
			if first := 0; rng.Float64() < 0.5 {
				r.Hops = append(r.Hops, record.Hop{Node: "h2", Prev: &first, Copy: true})
			}
			return 0
		}, []Property{Duplicate, Loss}, nil},
	} {
		rows := verdictsOf(t, Port{Netem: &c.netem}, link(c.n, c.do), Machine{})
		for what, r := range rows {
			want := TooFew
			switch {
			case slices.Contains(c.true, what):
				want = True
			case slices.Contains(c.untrue, what):
				want = Untrue
			case len(c.true)+len(c.untrue) > 0:
				continue
			}
			if r.Verdict != want || want == Untrue && len(r.Causes) == 0 {
				t.Errorf("%s: %s is %s, want %s: %+v", c.name, what, r.Verdict, want, r)
			}
		}
		if len(rows) < len(c.true)+len(c.untrue) {
			t.Errorf("%s: %+v", c.name, rows)
		}
	}
}

// A rate is what leaves while packets wait: 1,000 bytes with their Ethernet header each 0.8 ms are 10 Mbit/s.
func TestRate(t *testing.T) {
	left := int64(0)
	queue := func(rng *rand.Rand, i int, r *record.Record) int64 {
		r.TNs = int64(i) * 7e5
		left = max(left, r.TNs) + 8e5
		return left - r.TNs + rng.Int64N(4e4) // the timer is late now and then, and what comes next is not
	}
	packets := link(2000, queue)
	if r := verdictsOf(t, Port{Rate: 10e6}, packets, Machine{})[Rate]; r.Verdict != True || *r.Measured < 9.9e6 || *r.Measured > 10.1e6 {
		t.Errorf("%+v", r)
	}
	if r := verdictsOf(t, Port{Rate: 12e6}, packets, Machine{})[Rate]; r.Verdict != Untrue {
		t.Errorf("%+v", r)
	}
	rare := link(2000, func(_ *rand.Rand, i int, r *record.Record) int64 { return 0 })
	if r := verdictsOf(t, Port{Rate: 10e6}, rare, Machine{})[Rate]; r.Verdict != TooFew || !strings.Contains(r.Causes[0], "the rate was not reached") {
		t.Errorf("%+v", r)
	}
	if r := verdictsOf(t, Port{Netem: &Netem{Rate: 10e6}}, packets, Machine{})[Rate]; r.Verdict != True {
		t.Errorf("netem's own rate: %+v", r)
	}
}

// What made a value untrue is named.
func TestCauses(t *testing.T) {
	waiting := 0.4
	late := func(rng *rand.Rand, _ int, r *record.Record) int64 { return 11e6 + rng.Int64N(1e6) }
	for want, c := range map[string]struct {
		machine Machine
		do      func(*rand.Rand, int, *record.Record) int64
	}{
		"starved processors: in 40 % of the last minute":       {Machine{Waiting: &waiting}, late},
		"late timers: no packet left earlier than 1.00ms":      {Machine{}, late},
		"the hypervisor took 30 % of the processors' time":     {Machine{Steal: 0.3}, late},
		"the kernel put packets off 7 times":                   {Machine{OverNs: 1e9, Squeeze: 7}, late},
		"GSO trains: 100 % of the buffers are several packets": {Machine{}, func(rng *rand.Rand, i int, r *record.Record) int64 { r.Segs = 10; return late(rng, i, r) }},
		"a shared queue: 2 flows": {Machine{}, func(rng *rand.Rand, i int, r *record.Record) int64 {
			r.Src = [2]string{"a", "c"}[i%2]
			return 13e6 + rng.Int64N(1e6)
		}},
	} {
		r := verdictsOf(t, Port{Netem: &Netem{DelayNs: 10e6}}, link(500, c.do), c.machine)[Delay]
		if r.Verdict != Untrue || !strings.Contains(strings.Join(r.Causes, "; "), want) {
			t.Errorf("no %q in %+v", want, r)
		}
	}
}

// A model's loss in the long run: of Gilbert's and Elliot's p / (p + r) if all are lost in the bad state.
func TestLossModel(t *testing.T) {
	for _, c := range []struct {
		kind  uint16
		words []float64
		want  float64
	}{
		{netemLossGE, []float64{0.05, 0.2, 0, 0}, 0.2},
		{netemLossGE, []float64{0.05, 0.15, 0.5, 0.1}, 0.25*0.5 + 0.75*0.1},
		{netemLossGI, []float64{0.05, 0.2, 0, 0, 0}, 0.2},
	} {
		b := []byte{byte(4 + 4*len(c.words)), 0, byte(c.kind), 0}
		for _, v := range c.words {
			n := uint32(v * 0xffffffff)
			b = append(b, byte(n), byte(n>>8), byte(n>>16), byte(n>>24))
		}
		if got := lossModel(b); got < c.want-1e-6 || got > c.want+1e-6 {
			t.Errorf("model %d of %v loses %v, want %v", c.kind, c.words, got, c.want)
		}
	}
}

// Of more packets than are kept, the share that is judged is told.
func TestJudgedShare(t *testing.T) {
	packets := link(1<<10, func(rng *rand.Rand, _ int, _ *record.Record) int64 { return 10e6 + rng.Int64N(1e5) })
	all := slices.Repeat(packets, mostPassages>>10)
	port := Port{Netem: &Netem{DelayNs: 10e6}}
	if r := verdictsOf(t, port, all, Machine{})[Delay]; r.Judged != nil {
		t.Errorf("all are kept: %+v", r)
	}
	rows := verdictsOf(t, port, append(all, all[:mostPassages/4]...), Machine{})
	if r := rows[Delay]; r.Judged == nil || *r.Judged != 0.8 {
		t.Errorf("a fifth is not kept: %+v", r)
	}
	if r := rows[Loss]; r.Judged != nil || r.Packets != mostPassages*5/4 {
		t.Errorf("losses of all are counted: %+v", r)
	}
}

// What htb's classes may send together is the least ceiling of those that all packets pass, and is known only if no
// leaf has a lower one.
func TestHTB(t *testing.T) {
	class := func(handle, parent uint32, ceil uint64) netlink.Class {
		return &netlink.HtbClass{ClassAttrs: netlink.ClassAttrs{Handle: handle, Parent: parent}, Ceil: ceil}
	}
	root := uint32(netlink.HANDLE_ROOT)
	for name, c := range map[string]struct {
		list   []netlink.Class
		rate   float64
		leaves int
	}{
		"none":                 {nil, 0, 0},
		"one":                  {[]netlink.Class{class(1, root, 100)}, 800, 1},
		"a slower leaf":        {[]netlink.Class{class(1, root, 100), class(2, 1, 20)}, 160, 1},
		"a slower one between": {[]netlink.Class{class(1, root, 100), class(2, 1, 20), class(3, 2, 50)}, 160, 1},
		"a slower top":         {[]netlink.Class{class(1, root, 10), class(2, 1, 20)}, 80, 1},
		"leaves that borrow":   {[]netlink.Class{class(1, root, 100), class(2, 1, 100), class(3, 1, 200)}, 800, 2},
		"one of two is slower": {[]netlink.Class{class(1, root, 100), class(2, 1, 100), class(3, 1, 20)}, 0, 2},
		"a slower one of all":  {[]netlink.Class{class(1, root, 100), class(2, 1, 20), class(3, 2, 100), class(4, 2, 100)}, 160, 2},
		"two tops":             {[]netlink.Class{class(1, root, 100), class(2, root, 100)}, 0, 2},
	} {
		if rate, leaves := htbRateOf(c.list); rate != c.rate || leaves != c.leaves {
			t.Errorf("%s: %v of %d leaves, want %v of %d", name, rate, leaves, c.rate, c.leaves)
		}
	}
}
