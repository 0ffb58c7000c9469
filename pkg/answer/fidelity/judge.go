// SPDX-License-Identifier: Apache-2.0

package fidelity

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/vnetradar/radar/pkg/answer/stats"
	"github.com/vnetradar/radar/pkg/words"
)

// Verdict on a declared value.
type Verdict string

// The verdicts. TooFew: the bounds of what was measured are wider than what counts as true.
const (
	True   Verdict = "true"
	Untrue Verdict = "untrue"
	TooFew Verdict = "too few packets"
)

// Property of a link.
type Property string

// The properties.
const (
	Delay     Property = "delay"
	Jitter    Property = "jitter"
	Loss      Property = "loss"
	Duplicate Property = "duplicates"
	Reorder   Property = "reordered"
	Rate      Property = "rate"
)

// Unit of a property's values.
func (p Property) Unit() string {
	switch p {
	case Delay, Jitter:
		return "ns"
	case Rate:
		return "bit/s"
	}
	return "share"
}

// Text is a value in words.
func (p Property) Text(v float64) string {
	switch p {
	case Delay, Jitter:
		return words.Duration(v)
	case Rate:
		return words.Rate(uint64(max(0, v)))
	}
	return fmt.Sprintf("%.3g %%", v*100)
}

// Row is one declared value, and what packets met.
type Row struct {
	Port     string          `json:"port"`
	Qdisc    string          `json:"qdisc"`
	Property Property        `json:"property"`
	Unit     string          `json:"unit"` // ns, bit/s or share
	Declared float64         `json:"declared"`
	Measured *float64        `json:"measured,omitempty"` // absent: nothing was
	Bounds   *stats.Interval `json:"bounds,omitempty"`
	Packets  int             `json:"packets"`          // that the value is of
	Judged   *float64        `json:"judged,omitempty"` // share of the port's packets that were kept, the first ones; absent: all
	Verdict  Verdict         `json:"verdict"`
	Causes   []string        `json:"causes,omitempty"` // of what is untrue, or why there is no verdict
}

// Options say what counts as true.
type Options struct {
	Part       float64 // of the declared value that it may be off
	LeastTime  float64 // ns that a time may be off in any case
	LeastShare float64 // that a share may be off in any case
	Confidence float64
}

// DefaultOptions are those of who asks for none.
var DefaultOptions = Options{Part: 0.05, LeastTime: 100e3, LeastShare: 0.002, Confidence: 0.99}

const (
	rounds    = 300
	thinned   = 1 << 13 // values of a series that is resampled
	leastRate = 100     // packets that left behind others
)

// judge makes rows of one port.
type judge struct {
	port    *Port
	of      *passages
	o       Options
	machine *Machine
	rng     *rand.Rand
	waited  []bool
	rows    []Row
}

// Judge holds all that was declared against what was measured.
func (m *Meter) Judge(machine Machine, o Options) []Row {
	rows := []Row{}
	for i := range m.ports {
		j := &judge{port: &m.ports[i], of: m.byPort[m.ports[i].Name], o: o, machine: &machine, rng: stats.Rand(uint64(i))}
		j.judge()
		rows = append(rows, j.rows...)
	}
	return rows
}

func (j *judge) judge() {
	n := j.port.Netem
	delay := 0.0
	if n != nil {
		delay = n.DelayNs
	}
	j.waited = j.of.behind(delay)
	if j.port.Rate > 0 {
		j.rate(j.port.Rate, delay)
	}
	if n == nil {
		return
	}
	if n.Rate > 0 {
		j.rate(n.Rate, delay)
	}
	j.times(n)
	if n.Rate == 0 && j.port.Rate == 0 {
		j.losses(n)
	}
	if n.Duplicate > 0 {
		j.share(Duplicate, n.Duplicate, len(j.of.list), func(_ int, p *passage) bool { return p.twice })
	}
	if n.Reorder > 0 && n.DelayNs > 2*n.JitterNs {
		j.share(Reorder, n.Reorder, len(j.of.list), func(_ int, p *passage) bool { return float64(p.wait) < n.DelayNs/2 })
	}
}

// times judges delay and jitter, by packets that did not wait behind others. What serializing one takes is no
// delay, and packets that are sent at once, out of their order, are none of those.
func (j *judge) times(n *Netem) {
	if n.DelayNs == 0 && n.JitterNs == 0 {
		return
	}
	rate := n.Rate
	if rate == 0 {
		rate = j.port.Rate
	}
	s := stats.Series{Most: thinned}
	for i := range j.of.list {
		p, wait := &j.of.list[i], float64(j.of.list[i].wait)
		if rate > 0 && j.waited[i] || n.Reorder > 0 && wait < n.DelayNs/2 {
			continue
		}
		if n.Rate > 0 {
			wait -= float64(p.bits) / n.Rate * 1e9
		}
		s.Add(wait)
	}
	mean, deviation := stats.Mean(s.Values), stats.Deviation(s.Values)
	const least = 30
	j.add(Delay, n.DelayNs, mean, len(s.Values), least, j.o.LeastTime, func() stats.Interval {
		return stats.BootstrapMean(s.Values, j.o.Confidence, rounds, j.rng)
	})
	scale := 1.0 // netem draws from a table, as normal is, or evenly: what is even deviates by jitter/sqrt(3)
	if isEven(s.Values) {
		scale = math.Sqrt(3)
	}
	if n.JitterNs == 0 {
		scale = 1
	}
	j.add(Jitter, n.JitterNs, deviation*scale, len(s.Values), least, j.o.LeastTime, func() stats.Interval {
		i := stats.BootstrapDeviation(s.Values, j.o.Confidence, rounds, j.rng)
		return stats.Interval{Low: i.Low * scale, High: i.High * scale}
	})
}

// isEven reports whether values are spread evenly rather than normally: by their kurtosis, which is 1.8 or 3.
func isEven(values []float64) bool {
	m, second, fourth := stats.Mean(values), 0.0, 0.0
	for _, v := range values {
		d := (v - m) * (v - m)
		second, fourth = second+d, fourth+d*d
	}
	return second == 0 || fourth*float64(len(values))/(second*second) < 2.4
}

// losses judges the share of skbs that the queue lost: the emulator draws once for a train.
func (j *judge) losses(n *Netem) {
	share := 0.0
	if j.of.lost.N > 0 {
		share = j.of.lost.K / j.of.lost.N
	}
	j.add(Loss, n.Loss, share, int(j.of.lost.N), 30, j.o.LeastShare, func() stats.Interval {
		if n.Bursts {
			return j.of.lost.Wilson(j.o.Confidence)
		}
		return stats.Wilson(j.of.lost.K, j.of.lost.N, j.o.Confidence)
	})
}

// share judges how many passages something holds of.
func (j *judge) share(what Property, declared float64, n int, holds func(i int, p *passage) bool) {
	measured := j.of.shareOf(holds)
	j.add(what, declared, measured, n, 30, j.o.LeastShare, func() stats.Interval {
		return stats.Wilson(measured*float64(n), float64(n), j.o.Confidence)
	})
}

// rate judges what left while others waited.
func (j *judge) rate(declared, delay float64) {
	bits, gaps := j.of.busy(delay)
	sumBits, sumGaps := 0.0, 0.0
	for i := range bits {
		sumBits, sumGaps = sumBits+bits[i], sumGaps+gaps[i]
	}
	measured := 0.0
	if sumGaps > 0 {
		measured = sumBits / sumGaps * 1e9
	}
	if len(bits) < leastRate && j.over(declared) {
		return
	}
	j.add(Rate, declared, measured, len(bits), leastRate, 0, func() stats.Interval {
		i := stats.BootstrapRatio(bits, gaps, j.o.Confidence, rounds, j.rng)
		return stats.Interval{Low: i.Low * 1e9, High: i.High * 1e9}
	})
}

// over makes a row of a rate that was not met, since hardly any packet waited, though more passed than it allows: its burst
// was not used up, or packets went another way. False: no more passed.
func (j *judge) over(declared float64) bool {
	list := j.of.list // as they came: behind has sorted them
	if len(list) < 2 {
		return false
	}
	level, most, all := 0.0, 0.0, 0.0
	for i := range list {
		if i > 0 {
			level = max(0, level-declared*float64(list[i].enqueued-list[i-1].enqueued)/1e9)
		}
		level += float64(list[i].bits)
		most, all = max(most, level), all+float64(list[i].bits)
	}
	took := float64(list[len(list)-1].left() - list[0].enqueued)
	if took <= 0 {
		return false
	}
	measured := all / took * 1e9
	if measured <= declared*(1+j.o.Part) {
		return false
	}
	row := Row{Port: j.port.Name, Qdisc: j.port.Kinds, Property: Rate, Unit: Rate.Unit(), Declared: declared, Packets: len(list),
		Judged: j.of.judged(), Verdict: Untrue, Measured: &measured, Bounds: &stats.Interval{Low: measured, High: measured}}
	passed := fmt.Sprintf("%s passed, and hardly any of %d packets waited", words.Bytes(all/8), len(list))
	switch burst := j.port.Burst * 8; {
	case most <= burst:
		row.Causes = []string{fmt.Sprintf("a burst of %s, which was not used up: %s", words.Bytes(j.port.Burst), passed)}
	case burst > 0:
		row.Causes = []string{fmt.Sprintf("more passed than the rate and its burst of %s allow: %s. Look for other disciplines and ways out", words.Bytes(j.port.Burst), passed)}
	default:
		row.Causes = []string{passed + ": look at the burst, and at other disciplines of the port"}
	}
	j.rows = append(j.rows, row)
	return true
}

// add makes a row: true if the bounds lie within what counts as true, untrue if they lie outside.
func (j *judge) add(what Property, declared, measured float64, n, least int, tolerance float64, bounds func() stats.Interval) {
	row := Row{Port: j.port.Name, Qdisc: j.port.Kinds, Property: what, Unit: what.Unit(), Declared: declared, Packets: n, Verdict: TooFew}
	defer func() { j.rows = append(j.rows, row) }()
	if what != Loss { // losses of all are counted
		row.Judged = j.of.judged()
	}
	if n < least {
		row.Causes = j.whyFew(what)
		return
	}
	i := bounds()
	row.Measured, row.Bounds = &measured, &i
	tolerance = max(tolerance, j.o.Part*declared)
	if what == Jitter { // a delay that varies by a share of itself
		tolerance = max(tolerance, j.o.Part*j.port.Netem.DelayNs)
	}
	switch low, high := declared-tolerance, declared+tolerance; {
	case i.Low >= low && i.High <= high:
		row.Verdict = True
	case i.High < low || i.Low > high:
		row.Verdict, row.Causes = Untrue, j.causes(what, declared, measured)
	}
}

// whyFew says why a value cannot be judged.
func (j *judge) whyFew(what Property) []string {
	switch {
	case j.port.Edge:
		return []string{"the port is an edge: what waits in its queue comes after the last stamp"}
	case what == Rate && len(j.of.list) > 0:
		return []string{fmt.Sprintf("of %d packets hardly any waited behind another: the rate was not reached", len(j.of.list))}
	}
	return nil
}
