// SPDX-License-Identifier: Apache-2.0

package dut

import (
	"context"
	"errors"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"

	"github.com/vnetradar/radar/pkg/fault"
)

// The procedures of RFC 2544, by the sections that describe them.
const (
	TestThroughput = "throughput"   // 26.1
	TestLatency    = "latency"      // 26.2
	TestLoss       = "loss"         // 26.3
	TestBursts     = "back-to-back" // 26.4
)

// Tests are all of them, in the order in which they run.
func Tests() []string { return []string{TestThroughput, TestLatency, TestLoss, TestBursts} }

// RFC2544 measures a device as that RFC says, with trials as short as Options say.
type RFC2544 struct {
	Options
	Tests     []string
	MaxRate   Rate
	Precision float64 // of the throughput, a share of MaxRate
	Repeats   int     // of latency and of bursts; the RFC wants 20 and 50
	MaxBurst  int     // packets
}

// Limits of what a procedure found.
const (
	ByDevice  = "device"   // it lost packets beyond that
	ByMaxRate = "max-rate" // nothing was lost at the highest rate that was tried
	BySender  = "sender"   // nothing was lost at the highest rate that the sender reached
	ByBurst   = "max-burst"
)

// Throughput is the highest rate without a loss.
type Throughput struct {
	Size      int     `json:"size"`
	PPS       float64 `json:"pps"`
	Bits      float64 `json:"bits_per_second"`
	Limit     string  `json:"limited_by"`
	Trials    int     `json:"trials"`
	SenderPPS float64 `json:"sender_pps,omitempty"` // what the sender reached in the loop-back at the highest rate
}

// Latency is the delay at the throughput.
type Latency struct {
	Size     int      `json:"size"`
	PPS      float64  `json:"pps"`
	Packets  int      `json:"packets"`
	Lost     int      `json:"lost"`
	Repeats  int      `json:"repeats"`
	MeanNs   float64  `json:"mean_of_means_ns"`
	Delay    *Delay   `json:"delay,omitempty"`
	Loopback *Figures `json:"loopback,omitempty"`
}

// Loss is the share of packets that are lost at a rate.
type Loss struct {
	Size    int     `json:"size"`
	Percent float64 `json:"percent_of_max_rate"`
	Asked   float64 `json:"rate_pps"` // which that is
	PPS     float64 `json:"sent_pps"` // at which packets left
	Sent    int     `json:"sent"`
	Lost    int     `json:"lost"`
	Rate    float64 `json:"loss_percent"`
}

// KeptRate reports whether packets left about as fast as was asked for.
func (l *Loss) KeptRate() bool { return keptRate(l.PPS, l.Asked) }

// Burst is how many packets back to back the device takes without a loss.
type Burst struct {
	Size      int     `json:"size"`
	Packets   float64 `json:"packets"` // mean of the repeats
	Deviation float64 `json:"deviation"`
	PPS       float64 `json:"pps"` // within a burst, of the last one
	Repeats   int     `json:"repeats"`
	Limit     string  `json:"limited_by"`
}

// RFC2544Report has a table for each procedure.
type RFC2544Report struct {
	Setup
	DurationS  float64      `json:"trial_seconds"`
	MaxRate    string       `json:"max_rate"`
	Throughput []Throughput `json:"throughput,omitempty"`
	Latency    []Latency    `json:"latency,omitempty"`
	Loss       []Loss       `json:"frame_loss_rate,omitempty"`
	Bursts     []Burst      `json:"back_to_back,omitempty"`
}

// Steps of the frame loss rate, in per cent of the highest rate.
const lossStep = 10

func (p *RFC2544) check(a *Addresses, d *Device) error {
	switch {
	case p.Round:
		return fault.Usage.Errorf("‹rfc2544› measures one way: leave ‹round› out, or exchange ‹in› and ‹out› for the other way")
	case p.Loopback == LoopbackOnly:
		return fault.Usage.Errorf("‹rfc2544› needs a device: ‹loopback› only is a sweep")
	case !(p.Precision > 0 && p.Precision < 1):
		return fault.Usage.Errorf("‹precision› %v: use a share such as 0.01", p.Precision)
	case p.Repeats < 1:
		return fault.Usage.Errorf("‹repeats› %d: use 1 or more", p.Repeats)
	case p.MaxBurst < 1 || p.MaxBurst > MostPackets:
		return fault.Usage.Errorf("‹max-burst› %d: use 1 to %d", p.MaxBurst, MostPackets)
	}
	for _, test := range p.Tests {
		if !slices.Contains(Tests(), test) {
			return fault.Usage.Errorf("no procedure is called %q: use throughput, latency, loss, back-to-back", test)
		}
	}
	return p.settle(a.IPv6(), d.In, d.Out)
}

// procedure is one run.
type procedure struct {
	*RFC2544
	rig    *Rig
	loop   *Loopback // nil: none was asked for
	report *RFC2544Report
}

// Run measures a device. When ctx ends, the report has what was measured until then, and the error
// is ctx's.
func (p *RFC2544) Run(ctx context.Context, d *Device) (*RFC2544Report, error) {
	a, err := Resolve(ctx, d.In, d.Out, d.Wish)
	if err != nil {
		return nil, err
	}
	if err := p.check(a, d); err != nil {
		return nil, err
	}
	cfg := Config{In: d.In, Out: d.Out, Addresses: *a, Hook: p.Hook, Packets: max(p.MaxBurst, warmUps)}
	for _, size := range p.Sizes {
		cfg.Packets = max(cfg.Packets, p.packets(size, p.MaxRate.PPS(size)))
	}
	if cfg.Packets > MostPackets {
		return nil, fault.Usage.Errorf("‹max-rate› %v for %v would be %d packets of one trial: at most %d can be stamped", p.MaxRate, p.Duration, cfg.Packets, MostPackets)
	}
	run := &procedure{RFC2544: p, report: &RFC2544Report{DurationS: p.Duration.Seconds(), MaxRate: p.MaxRate.String()}}
	if run.rig, err = Open(cfg); err != nil {
		return nil, err
	}
	run.report.Setup = newSetup(d, a, run.rig.Hook)
	err = run.measure(ctx, a, cfg)
	run.report.Complete = err == nil
	return run.report, errors.Join(err, run.rig.Close())
}

// measure runs the procedures. Whether anything arrives is seen before.
func (p *procedure) measure(ctx context.Context, a *Addresses, cfg Config) (err error) {
	if err := p.rig.warmUp(ctx, p.Sizes[0], p.Wait); err != nil {
		return err
	}
	if p.Loopback == LoopbackNone {
		return p.all(ctx)
	}
	if p.loop, err = OpenLoopback(*a, cfg, p.largest()); err != nil {
		return err
	}
	if err = p.loop.warmUp(ctx, p.Sizes[0], p.Wait); err == nil {
		err = p.all(ctx)
	}
	return errors.Join(err, p.loop.Close())
}

// packets is how many a trial has.
func (p *RFC2544) packets(size int, pps float64) int {
	return max(1, int(math.Ceil(pps*p.Duration.Seconds())))
}

// all runs the procedures that are asked for, size by size.
func (p *procedure) all(ctx context.Context) error {
	steps := map[string]func(context.Context, int) error{
		TestThroughput: p.throughput, TestLatency: p.latency, TestLoss: p.loss, TestBursts: p.bursts,
	}
	for _, test := range Tests() {
		if !slices.Contains(p.Tests, test) {
			continue
		}
		for _, size := range p.Sizes {
			p.progress("%s, %d bytes", test, size)
			if err := steps[test](ctx, size); err != nil {
				return err
			}
		}
	}
	return nil
}

// try runs a trial at a rate.
func (p *procedure) try(ctx context.Context, rig *Rig, size int, pps float64) (*Outcome, error) {
	o, err := rig.Run(ctx, Trial{Size: size, PPS: pps, Packets: p.packets(size, pps), Duration: 2 * p.Duration, Wait: p.Wait})
	if err == nil {
		err = ctx.Err() // what was cut short says nothing
	}
	return o, err
}

// lost says how many packets of a trial did not come, those included that the sender had no room
// for: a queue of the port itself was full.
func (o *Outcome) lost() int { return o.Streams[0].Lost() + o.Tried - o.Sent }

// throughput finds the highest rate without a loss, by halving what is left (RFC 2544, 26.1).
func (p *procedure) throughput(ctx context.Context, size int) error {
	row := Throughput{Size: size, Limit: ByMaxRate}
	most := p.MaxRate.PPS(size)
	if p.loop != nil {
		o, err := p.try(ctx, p.loop.Rig, size, most)
		if err != nil {
			return err
		}
		row.SenderPPS = o.SentPPS
	}
	low, high, next := 0.0, most, most
	for {
		o, err := p.try(ctx, p.rig, size, next)
		if err != nil {
			return err
		}
		row.Trials++
		if o.lost() == 0 {
			low = next
			// What left slower than was asked for shows no more than that.
			row.PPS = max(row.PPS, o.keptPPS(next))
		} else {
			high = next
			row.Limit = ByDevice
		}
		if high-low <= p.Precision*most {
			break
		}
		next = (low + high) / 2
	}
	if row.Limit == ByMaxRate && !keptRate(row.PPS, most) {
		row.Limit = BySender
	}
	row.Bits = row.PPS * float64(8*size)
	p.report.Throughput = append(p.report.Throughput, row)
	return nil
}

// keptPPS is the rate at which a trial's packets left, at most what was asked for; a single packet
// has no rate.
func (o *Outcome) keptPPS(asked float64) float64 {
	if o.SentPPS == 0 {
		return asked
	}
	return min(asked, o.SentPPS)
}

// throughputOf is the rate that was found for a size; without that procedure it is the highest.
func (p *procedure) throughputOf(size int) float64 {
	for _, row := range p.report.Throughput {
		if row.Size == size {
			return row.PPS
		}
	}
	return p.MaxRate.PPS(size)
}

// latency measures the delay at the throughput, several times (26.2).
func (p *procedure) latency(ctx context.Context, size int) error {
	row := Latency{Size: size, PPS: p.throughputOf(size)}
	if row.PPS == 0 {
		p.report.Latency = append(p.report.Latency, row)
		return nil
	}
	var delays []int64
	var means []float64
	for range p.Repeats {
		o, err := p.try(ctx, p.rig, size, row.PPS)
		if err != nil {
			return err
		}
		s := &o.Streams[0]
		row.Packets, row.Lost = row.Packets+s.Received, row.Lost+s.Lost()
		if d := summarise(s.Delays); d != nil {
			means = append(means, d.MeanNs)
		}
		delays = append(delays, s.Delays...)
		row.Repeats++
	}
	if row.Delay = summarise(delays); row.Delay != nil {
		row.MeanNs = stat.Mean(means, nil)
	}
	if p.loop != nil {
		o, err := p.try(ctx, p.loop.Rig, size, row.PPS)
		if err != nil {
			return err
		}
		row.Loopback = FiguresOf(summarise(o.Streams[0].Delays))
	}
	p.report.Latency = append(p.report.Latency, row)
	return nil
}

// loss lowers the rate step by step until nothing is lost at two of them (26.3).
func (p *procedure) loss(ctx context.Context, size int) error {
	clean := 0
	for percent := 100; percent > 0 && clean < 2; percent -= lossStep {
		asked := p.MaxRate.PPS(size) * float64(percent) / 100
		o, err := p.try(ctx, p.rig, size, asked)
		if err != nil {
			return err
		}
		row := Loss{Size: size, Percent: float64(percent), Asked: asked, PPS: o.SentPPS, Sent: o.Tried, Lost: o.lost()}
		if row.Sent > 0 {
			row.Rate = 100 * float64(row.Lost) / float64(row.Sent)
		}
		if clean++; row.Lost > 0 {
			clean = 0
		}
		p.report.Loss = append(p.report.Loss, row)
	}
	return nil
}

// bursts finds the longest burst that passes whole, several times (26.4).
func (p *procedure) bursts(ctx context.Context, size int) error {
	row := Burst{Size: size, Limit: ByBurst}
	var found []float64
	for range p.Repeats {
		low, high, next := 0, p.MaxBurst, p.MaxBurst
		for high > low {
			o, err := p.rig.Run(ctx, Trial{Size: size, Packets: next, Duration: 2 * p.Duration, Wait: p.Wait})
			if err == nil {
				err = ctx.Err()
			}
			if err != nil {
				return err
			}
			if o.lost() == 0 && o.Tried == next {
				low, row.PPS = next, o.SentPPS
			} else {
				high = next - 1
				row.Limit = ByDevice
			}
			next = (low + high + 1) / 2
		}
		found = append(found, float64(low))
		row.Repeats++
	}
	row.Packets = stat.Mean(found, nil)
	if len(found) > 1 {
		row.Deviation = stat.StdDev(found, nil)
	}
	p.report.Bursts = append(p.report.Bursts, row)
	return nil
}
