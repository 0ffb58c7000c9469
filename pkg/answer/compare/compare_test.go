// SPDX-License-Identifier: Apache-2.0

package compare

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/vnetradar/radar/pkg/record"
)

// traffic makes runs whose queue, losses and paths are known.
type traffic struct {
	rng      *rand.Rand
	n        int
	delay    float64 // ns, on the link
	loss     float64 // share
	burst    int     // packets lost at once
	path     func(flow int) string
	aside    func(i int) string // by number of the packet; nil or "": by path
	flows    int
	interval int64
	port     int // of the first flow's client
	busy     int // packets from one time that the machine is busy to the next, 0: never
}

func base(seed uint64) traffic {
	return traffic{
		rng: rand.New(rand.NewPCG(seed, 1)), n: 4000, delay: 5e6, flows: 40, burst: 1, interval: 1e6, port: 40000,
		path: func(flow int) string { return [2]string{"r2", "r3"}[flow%2] },
	}
}

func (w traffic) run(name string) *Run {
	r, queue, losing, stall := NewRun(name), 0.0, 0, staller{rng: w.rng, every: w.busy}
	port := func(n int) *int { return &n }
	ns := func(v float64) *int64 { n := int64(v); return &n }
	for i := range w.n {
		queue = 0.97*queue + 300e3*w.rng.ExpFloat64() // waits depend on each other for 30 packets
		delay := w.delay + stall.next(float64(w.interval))
		flow := w.rng.IntN(w.flows)
		by := w.path(flow)
		if w.aside != nil && w.aside(i) != "" {
			by = w.aside(i)
		}
		p := record.Record{
			State: record.Delivered, TNs: int64(i) * w.interval, Segs: 1, Len: 500, Proto: "udp", Src: "a", Dst: "b",
			Sport: port(w.port + flow), Dport: port(53), LatencyNs: ns(delay + queue),
			Hops: []record.Hop{
				{Node: "h1", Port: "e0", QueueNs: ns(queue)},
				{Node: by, InPort: "e0", Port: "e1", NodeNs: ns(1000), LinkNs: ns(delay)},
				{Node: "h2", InPort: "e0", LinkNs: ns(1000)},
			},
		}
		if losing == 0 && w.rng.Float64() < w.loss/float64(w.burst) {
			losing = w.burst
		}
		if losing > 0 {
			losing--
			p.State, p.LatencyNs, p.Hops = record.Lost, nil, p.Hops[:1]
			p.Loss = &record.Loss{Node: "h1", Port: "e0", At: record.AtQueue, Reason: "QDISC_DROP"}
		}
		r.Add(&p)
	}
	return r
}

// staller makes the delays of a machine that takes processors away: now and then it is busy for a tenth of the time, and
// then one packet of ten finds no processor for 10 ms. Those behind it wait as well.
type staller struct {
	rng   *rand.Rand
	every int
	busy  bool
	left  float64 // ns until there is a processor
}

func (s *staller) next(interval float64) float64 {
	if s.every == 0 {
		return 0
	}
	s.left = max(0, s.left-interval)
	length := float64(s.every)
	if s.busy {
		length /= 10
		if s.rng.Float64() < 0.1 {
			s.left = max(s.left, 10e6*s.rng.ExpFloat64())
		}
	}
	if s.rng.Float64() < 1/length {
		s.busy = !s.busy
	}
	return s.left
}

// kinds are those of the changes of a report, the most important first.
func kinds(r *Report) (list []string) {
	for _, c := range r.Changes {
		list = append(list, c.Kind+" "+c.What)
	}
	return list
}

// Equal runs do not differ, whatever chance does with their queues, their bursts of losses, and which flows come.
func TestEqual(t *testing.T) {
	every, alarms := Options{Alpha: 0.01}, 0 // whatever differs counts
	for seed := range uint64(20) {
		a, b := base(2*seed), base(2*seed+1)
		a.loss, b.loss, a.burst, b.burst = 0.02, 0.02, 30, 30
		one, other := a.run("a"), b.run("b")
		if r := Compare(one, other, DefaultOptions); r.Different || r.Comparisons < 8 {
			t.Errorf("seed %d: %d comparisons, %+v", seed, r.Comparisons, r.Changes)
		}
		if Compare(one, other, every).Different {
			alarms++
		}
	}
	if alarms > 1 { // one in a hundred is right
		t.Errorf("%d of 20 equal runs differ where every difference counts", alarms)
	}
}

// Equal runs on a machine that is now and then busy do not differ: late packets come in bursts, which are few, however
// many packets each has. A tail that really is another one is told all the same.
func TestBusy(t *testing.T) {
	const pairs = 60
	alarms := 0
	for seed := range uint64(pairs) {
		a, b := base(2*seed), base(2*seed+1)
		for _, w := range []*traffic{&a, &b} {
			w.n, w.busy, w.interval, w.path = 1200, 300, 2e6, func(int) string { return "r2" }
		}
		if r := Compare(a.run("a"), b.run("b"), DefaultOptions); r.Different {
			t.Logf("seed %d: %+v", seed, r.Changes)
			alarms++
		}
	}
	if alarms > 2 { // with a chance of one in a hundred each, three are a matter of 2 %
		t.Errorf("%d of %d equal runs differ", alarms, pairs)
	}
	missed := 0
	for seed := range uint64(10) {
		a, b := base(2*seed), base(2*seed+1)
		a.n, b.n, b.busy = 8000, 8000, 50
		if !slices.ContainsFunc(Compare(a.run("a"), b.run("b"), DefaultOptions).Changes, func(c Change) bool { return c.Metric == "p99_ns" }) {
			missed++
		}
	}
	if missed > 2 {
		t.Errorf("bursts that one run alone has are not told in %d of 10", missed)
	}
}

func TestDifferences(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*traffic)
		want   string // how the most important begins
	}{
		{"delay", func(w *traffic) { w.delay += 5e6 }, "latency link h1/e0 > r"},
		{"loss", func(w *traffic) { w.loss = 0.02 }, "loss at h1/e0 (queue, QDISC_DROP)"},
		{"one path fewer", func(w *traffic) { w.path = func(int) string { return "r2" } }, "path udp a > b:53"},
		{"rate", func(w *traffic) { w.interval *= 2 }, "rate udp a > b:53"},
	} {
		b := base(2)
		c.change(&b)
		r := Compare(base(1).run("a"), b.run("b"), DefaultOptions)
		if !r.Different || !strings.HasPrefix(kinds(r)[0], c.want) {
			t.Errorf("%s: %+v, want %s first", c.name, kinds(r), c.want)
		}
	}
}

// A difference that is real and does not matter is none: it must lie beyond what counts.
func TestLeast(t *testing.T) {
	b := base(2)
	b.delay += 300e3
	o := DefaultOptions
	o.LeastTime = 1e6
	if r := Compare(base(1).run("a"), b.run("b"), o); r.Different {
		t.Errorf("300 us, of which 1 ms counts: %+v", r.Changes)
	}
	o.LeastTime, o.LeastPart = 100e3, 0.01
	if r := Compare(base(1).run("a"), b.run("b"), o); !r.Different {
		t.Error("300 us, of which 100 us count, are none")
	}
}

// Flows are matched whatever the client's port is; those that only one run has are told, if they are more than a
// few packets.
func TestFlows(t *testing.T) {
	add := func(r *Run, src string, sport, dport, n int) {
		for i := range n {
			r.Add(&record.Record{State: record.Delivered, TNs: int64(i), Segs: 1, Len: 100, Proto: "tcp", Src: src, Dst: "b", Sport: &sport, Dport: &dport})
		}
	}
	a, b := NewRun("a"), NewRun("b")
	add(a, "c", 50001, 80, 500)
	add(b, "c", 50002, 80, 500)
	add(a, "stray", 1, 2, 1)
	if r := Compare(a, b, DefaultOptions); r.Different {
		t.Errorf("another client port, and a stray packet: %+v", r.Changes)
	}
	add(b, "new", 50003, 443, 100)
	if r := Compare(a, b, DefaultOptions); fmt.Sprint(kinds(r)) != "[flow tcp new > b:443]" {
		t.Errorf("a new flow: %+v", kinds(r))
	}
}

// lossy is a run of n packets. What is lost, and where, is by number.
func lossy(n int, at func(i int) string) *Run {
	r := NewRun("")
	for i := range n {
		p := record.Record{State: record.Delivered, TNs: int64(i), Segs: 1, Len: 100, Proto: "udp", Src: "a", Dst: "b"}
		if node := at(i); node != "" {
			p.State, p.Loss = record.Lost, &record.Loss{Node: node, At: record.AtNode}
		}
		r.Add(&p)
	}
	return r
}

// Bursts at one place do not hide that another one loses more, and do not make up a difference of few packets.
func TestLossPlaces(t *testing.T) {
	burst := func(i int) string { // five of a hundred, all at once
		if i%4000 < 200 {
			return "r1"
		}
		return ""
	}
	more := func(every int) func(i int) string {
		return func(i int) string {
			if i%every == every/2 && burst(i) == "" {
				return "r2"
			}
			return burst(i)
		}
	}
	r := Compare(lossy(40000, more(400)), lossy(40000, more(200)), DefaultOptions)
	if !slices.Contains(kinds(r), "loss at r2 (node)") || slices.Contains(kinds(r), "loss at r1 (node)") {
		t.Errorf("twice as many losses at r2: %+v", kinds(r))
	}
	once := func(i int) string {
		if i >= 100 && i < 120 {
			return "r1"
		}
		return ""
	}
	none := func(int) string { return "" }
	for _, n := range []int{30, 300} {
		some := once
		if n == 30 {
			some = func(i int) string { return once(i + 90) }
		}
		r = Compare(lossy(n, none), lossy(n, some), DefaultOptions)
		if r.Different || n == 30 && r.Untested < 2 {
			t.Errorf("one burst among %d packets: %d untested, %+v", n, r.Untested, r.Changes)
		}
	}
	third := func(i int) string {
		if i%3 == 0 {
			return "r1"
		}
		return ""
	}
	if r = Compare(lossy(300, none), lossy(300, third), DefaultOptions); !r.Different {
		t.Error("every third of 300 packets is lost, which is no difference")
	}
}

// A flow for which a run had no room has not disappeared, nor appeared.
func TestNoRoom(t *testing.T) {
	add := func(r *Run, flow int) {
		port := flow + 1
		r.Add(&record.Record{State: record.Delivered, Segs: 1000, Len: 100, Proto: "udp", Src: "a", Dst: "b", Sport: &port, Dport: &port})
	}
	a, b := NewRun("a"), NewRun("b")
	for i := range mostFlows + 1 {
		add(a, i)
		add(b, mostFlows-i)
	}
	if a.Over == 0 || b.Over == 0 {
		t.Fatalf("%d and %d packets over", a.Over, b.Over)
	}
	if r := Compare(a, b, DefaultOptions); r.Different || r.Untested < 2 {
		t.Errorf("the same flows in another order: %d untested, %+v", r.Untested, kinds(r))
	}
	if r := Compare(b, a, DefaultOptions); r.Different {
		t.Errorf("the same, the other way round: %+v", kinds(r))
	}
}

// A flow that takes another path has changed, unless flows between these two choose among paths anyway, or the
// client's port, which nodes choose by, is another one.
func TestMoved(t *testing.T) {
	w, o := base(1), base(2)
	w.flows, o.flows = 1, 1
	w.path, o.path = func(int) string { return "r2" }, func(int) string { return "r3" }
	if r := Compare(w.run("a"), o.run("b"), DefaultOptions); !r.Different || r.Changes[0].Kind != "path" {
		t.Errorf("one flow, another path: %+v", kinds(r))
	}
	o = base(2)
	o.flows, o.port, o.path = 1, 50000, func(int) string { return "r3" }
	if r := Compare(w.run("a"), o.run("b"), DefaultOptions); slices.ContainsFunc(r.Changes, func(c Change) bool { return c.Kind == "path" }) {
		t.Errorf("one flow, another path, and another client port: %+v", kinds(r))
	}
	w, o = base(1), base(2)
	w.flows, o.flows, o.port = 2, 2, 50000
	o.path = func(int) string { return "r3" }
	if r := Compare(w.run("a"), o.run("b"), DefaultOptions); len(r.Changes) > 0 && r.Changes[0].Kind == "path" {
		t.Errorf("two flows that choose: %+v", kinds(r))
	}
}

// A path that a quarter of the packets takes is told, whichever these are; where a hash explains it, flows decide.
func TestPathShares(t *testing.T) {
	all := func(int) string { return "r2" }
	only := func(name string) func(int) string { return func(int) string { return name } }
	quarter := func(i int) string { return map[bool]string{true: "r3"}[i%4 == 0] }
	for _, c := range []struct {
		name   string
		change func(a, b *traffic)
		metric string // "": no difference
	}{
		{"every fourth packet of one flow", func(_, b *traffic) { b.flows, b.port, b.aside = 1, 50000, quarter }, "new_path"},
		{"the last quarter of one flow", func(_, b *traffic) {
			b.flows, b.aside = 1, func(i int) string { return map[bool]string{true: "r3"}[i >= 3000] }
		}, "new_path"},
		{"one of four flows, with the ports of before", func(a, b *traffic) {
			a.flows, b.flows, b.path = 4, 4, func(flow int) string { return map[bool]string{true: "r3", false: "r2"}[flow == 0] }
		}, "new_path"},
		{"the other way round", func(a, _ *traffic) { a.flows, a.aside = 1, quarter }, "path_gone"},
		{"one of four flows, with other ports", func(a, b *traffic) {
			a.flows, b.flows, b.port = 4, 4, 50000
			b.path = func(flow int) string { return map[bool]string{true: "r3", false: "r2"}[flow == 0] }
		}, ""},
		{"as many in both", func(a, b *traffic) { a.flows, b.flows, a.aside, b.aside = 1, 1, quarter, quarter }, ""},
		{"three stray packets", func(_, b *traffic) {
			b.flows, b.aside = 1, func(i int) string { return map[bool]string{true: "r3"}[i < 3] }
		}, ""},
		{"a third path", func(_, b *traffic) {
			b.flows, b.aside = 1, func(i int) string { return map[bool]string{true: "r4"}[i%4 == 0] }
		}, "new_path"},
		{"another share", func(a, b *traffic) {
			a.flows, b.flows, a.aside = 1, 1, quarter
			b.aside = func(i int) string { return map[bool]string{true: "r3"}[i%3 == 0] }
		}, "share"},
	} {
		a, b := base(1), base(2)
		a.flows, a.path, b.path = 1, all, all
		c.change(&a, &b)
		var got *Change
		for _, one := range Compare(a.run("a"), b.run("b"), DefaultOptions).Changes {
			if one.Kind == "path" {
				got = &one
			}
		}
		switch {
		case got == nil && c.metric == "", got != nil && got.Metric == c.metric && (got.P == nil) == (c.name == "the last quarter of one flow"):
		default:
			t.Errorf("%s: %+v, want %q", c.name, got, c.metric)
		}
	}
	b := base(2)
	b.flows, b.path = 1, only("r3")
	a := base(1)
	a.flows, a.path = 1, all
	a.n, b.n = 3, 3
	if r := Compare(a.run("a"), b.run("b"), DefaultOptions); len(r.Changes) == 0 || r.Changes[0].P != nil || r.Changes[0].Metric != "path" {
		t.Errorf("another path, which needs no test: %+v", r.Changes)
	}
}

// Packets that are spread over paths one by one, in bursts, are no difference between equal runs.
func TestEqualPaths(t *testing.T) {
	alarms := 0
	for seed := range uint64(20) {
		runs := [2]*Run{}
		for i := range runs {
			w := base(2*seed + uint64(i))
			rng, on := rand.New(rand.NewPCG(seed, uint64(i))), false
			w.flows, w.path = 1, func(int) string { return "r2" }
			w.aside = func(int) string {
				if rng.IntN(60) == 0 {
					on = !on
				}
				return map[bool]string{true: "r3"}[on]
			}
			runs[i] = w.run("")
		}
		r := Compare(runs[0], runs[1], Options{Alpha: 0.05})
		if slices.ContainsFunc(r.Changes, func(c Change) bool { return c.Kind == "path" }) {
			alarms++
		}
	}
	if alarms > 3 {
		t.Errorf("the path is another one in %d of 20 equal runs", alarms)
	}
}

// repeated are runs whose delay differs from run to run.
func repeated(seed uint64, n int, change func(*traffic)) (list []*Repetition) {
	rng := rand.New(rand.NewPCG(seed, 9))
	for i := range n {
		w := base(seed*100 + uint64(i))
		w.n, w.delay = 1000, w.delay+400e3*rng.NormFloat64()
		change(&w)
		list = append(list, w.run(fmt.Sprint(i)).Repetition())
	}
	return list
}

// Groups differ where they do so by more than runs of one do: two of their runs alone would.
func TestGroups(t *testing.T) {
	none := func(*traffic) {}
	o := DefaultOptions
	o.LeastPart = 0
	alarms, alone := 0, 0
	for seed := range uint64(20) {
		a, b := repeated(2*seed, 3, none), repeated(2*seed+1, 3, none)
		if r := CompareGroups(a, b, o); r.Different || r.Comparisons < 8 {
			alarms++
		}
		x, y := base(seed), base(seed+1000)
		y.delay += 400e3
		if Compare(x.run("x"), y.run("y"), o).Different {
			alone++
		}
	}
	if alarms > 1 || alone < 15 {
		t.Errorf("%d of 20 equal groups differ, %d of 20 pairs whose delay is another one by as much as it is between runs", alarms, alone)
	}
	for _, c := range []struct {
		name   string
		runs   int
		change func(*traffic)
		want   string
	}{
		{"delay", 4, func(w *traffic) { w.delay += 10e6 }, "latency link h1/e0 > r2/e0"},
		{"loss", 5, func(w *traffic) { w.loss = 0.05 }, "loss at h1/e0 (queue, QDISC_DROP)"},
		{"path", 3, func(w *traffic) {
			w.aside = func(i int) string { return map[bool]string{true: "r4"}[i%4 == 0] }
		}, "path udp a > b:53"},
	} {
		r := CompareGroups(repeated(1, c.runs, none), repeated(2, c.runs, c.change), DefaultOptions)
		if !slices.Contains(kinds(r), c.want) {
			t.Errorf("%s: %v, want %s", c.name, kinds(r), c.want)
		}
		if r.Before.Runs != c.runs || r.Before.Packets != uint64(1000*c.runs) {
			t.Errorf("%s: %+v", c.name, r.Before)
		}
	}
}
