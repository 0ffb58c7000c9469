// SPDX-License-Identifier: Apache-2.0

package dut

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/host/kernel"
)

// When the loop-back is run.
const (
	LoopbackFirst = "first" // before the device
	LoopbackOnly  = "only"  // without a device
	LoopbackNone  = "none"
)

// Loopbacks are all of them.
func Loopbacks() []string { return []string{LoopbackFirst, LoopbackOnly, LoopbackNone} }

// Options are what sweeps and the procedures of RFC 2544 have in common.
type Options struct {
	Sizes    []int
	Duration time.Duration // of a trial, at most
	Wait     time.Duration // for packets under way
	Hook     string
	Loopback string
	Round    bool
	// Progress says what is measured now; nil: nobody listens.
	Progress func(format string, args ...any)
}

func (o *Options) progress(format string, args ...any) {
	if o.Progress != nil {
		o.Progress(format, args...)
	}
}

// Sweep is a trial for each size and rate.
type Sweep struct {
	Options
	Rates    []Rate
	Packets  int // of a trial, at most
	Subtract bool
	IPv6     bool // of the loop-back, if that is all there is
}

// settle refuses what makes no sense, with fault.Usage, and chooses sizes where none are given.
func (o *Options) settle(ipv6 bool, ports ...*Port) error {
	if o.Duration <= 0 {
		return fault.Usage.Errorf("‹duration› %v: use more than 0", o.Duration)
	}
	if o.Wait < 0 {
		return fault.Usage.Errorf("‹wait› %v: use 0 or more", o.Wait)
	}
	if len(o.Sizes) == 0 {
		o.Sizes = defaultSizes(ipv6, ports...)
	}
	for _, size := range o.Sizes {
		if err := checkSize(size, ipv6, ports...); err != nil {
			return err
		}
	}
	return nil
}

// DefaultSizes are those of RFC 2544 for Ethernet.
func DefaultSizes() []int { return []int{64, 128, 256, 512, 1024, 1280, 1518} }

// defaultSizes are those that the ports and the IP version let pass.
func defaultSizes(ipv6 bool, ports ...*Port) (sizes []int) {
	for _, size := range DefaultSizes() {
		if size = max(size, LeastSize(ipv6)); checkSize(size, ipv6, ports...) == nil {
			sizes = append(sizes, size)
		}
	}
	if len(sizes) == 0 {
		sizes = []int{LeastSize(ipv6)} // checkSize says what is wrong
	}
	return sizes
}

// largest is the largest size.
func (o *Options) largest() (most int) {
	for _, size := range o.Sizes {
		most = max(most, size)
	}
	return most
}

// Device is where a device hangs, and how packets are to be addressed.
type Device struct {
	In, Out *Port
	Wish
}

// packets is how many a trial has.
func (s *Sweep) packets(size int, rate Rate) int {
	return max(1, min(s.Packets, int(math.Ceil(rate.PPS(size)*s.Duration.Seconds()))))
}

// trial is that of a size and a rate.
func (s *Sweep) trial(size int, rate Rate) Trial {
	return Trial{Size: size, PPS: rate.PPS(size), Packets: s.packets(size, rate), Duration: s.Duration, Wait: s.Wait}
}

// mostPackets is the number of the largest trial.
func (s *Sweep) mostPackets() int {
	most := warmUps
	for _, size := range s.Sizes {
		for _, rate := range s.Rates {
			most = max(most, s.packets(size, rate))
		}
	}
	return most
}

// loopTime bounds a trial of the loop-back that comes first.
const loopTime = time.Second / 2

// Run measures a device; d is nil if only the loop-back is run. When ctx ends, the report has what
// was measured until then, and the error is ctx's.
func (s *Sweep) Run(ctx context.Context, d *Device) (*Report, error) {
	switch {
	case len(s.Rates) == 0:
		return nil, fault.Usage.Errorf("no rate: use ‹rates› 1kpps")
	case s.Packets < 1 || s.Packets > MostPackets:
		return nil, fault.Usage.Errorf("‹count› %d: use 1 to %d", s.Packets, MostPackets)
	case s.Subtract && s.Loopback != LoopbackFirst:
		return nil, fault.Usage.Errorf("‹subtract› needs the loop-back that comes first: use ‹loopback› first")
	}
	if d == nil {
		return s.loopback(ctx)
	}
	a, err := Resolve(ctx, d.In, d.Out, d.Wish)
	if err != nil {
		return nil, err
	}
	if err := s.settle(a.IPv6(), d.In, d.Out); err != nil {
		return nil, err
	}
	rig, err := Open(Config{In: d.In, Out: d.Out, Addresses: *a, Round: s.Round, Hook: s.Hook, Packets: s.mostPackets()})
	if err != nil {
		return nil, err
	}
	r := &Report{Setup: newSetup(d, a, rig.Hook)}
	err = s.measure(ctx, rig, a, r)
	r.join(s.Subtract)
	r.Fits = fit(r.Rows)
	r.Complete = err == nil
	return r, errors.Join(err, rig.Close())
}

// measure fills in rows. Whether anything arrives is seen before the loop-back is run.
func (s *Sweep) measure(ctx context.Context, rig *Rig, a *Addresses, r *Report) (err error) {
	if err := rig.warmUp(ctx, s.Sizes[0], s.Wait); err != nil {
		return err
	}
	if s.Loopback != LoopbackNone {
		short := *s
		short.Duration, short.Round = min(s.Duration, loopTime), false
		if r.Loopback, err = short.loop(ctx, a); err != nil {
			return err
		}
	}
	r.Rows, err = s.rows(ctx, rig, "")
	return err
}

// newSetup says what a run was made with.
func newSetup(d *Device, a *Addresses, hook string) Setup {
	s := Setup{
		From: a.From.String(), To: a.To.String(), FromMAC: a.FromMAC.String(), ToMAC: a.ToMAC.String(),
		Hook: hook, Kernel: kernel.Release(),
	}
	if d != nil {
		s.In, s.Out = d.In.Name, d.Out.Name
	}
	return s
}

// loopback runs the loop-back alone.
func (s *Sweep) loopback(ctx context.Context) (*Report, error) {
	if err := s.settle(s.IPv6); err != nil {
		return nil, err
	}
	a := BenchmarkAddresses(s.IPv6)
	rows, err := s.loop(ctx, &a)
	r := &Report{Loopback: rows, Fits: fit(rows)}
	r.Setup = newSetup(nil, &a, s.Hook)
	r.Complete = err == nil
	return r, err
}

// loop measures a loop-back.
func (s *Sweep) loop(ctx context.Context, a *Addresses) ([]Row, error) {
	l, err := OpenLoopback(*a, Config{Round: s.Round, Hook: s.Hook, Packets: s.mostPackets()}, s.largest())
	if err != nil {
		return nil, err
	}
	err = l.warmUp(ctx, s.Sizes[0], s.Wait)
	var rows []Row
	if err == nil {
		rows, err = s.rows(ctx, l.Rig, "loop-back, ")
	}
	return rows, errors.Join(err, l.Close())
}

// rows runs all trials.
func (s *Sweep) rows(ctx context.Context, rig *Rig, what string) (rows []Row, err error) {
	for _, rate := range s.Rates {
		for _, size := range s.Sizes {
			s.progress("%s%d bytes, %v", what, size, rate)
			o, err := rig.Run(ctx, s.trial(size, rate))
			if err != nil {
				return rows, err
			}
			rows = append(rows, rowsOf(o, rate)...)
			if err := ctx.Err(); err != nil {
				return rows, err // that trial may be shorter than the others
			}
		}
	}
	return rows, nil
}

// join puts the loop-back's delay beside that of the same packets, and takes its median off if
// asked to. Both directions together have two links, so twice that.
func (r *Report) join(subtract bool) {
	type key struct {
		size int
		rate string
	}
	own := make(map[key]*Figures)
	for i := range r.Loopback {
		own[key{r.Loopback[i].Size, r.Loopback[i].Rate}] = FiguresOf(r.Loopback[i].Delay)
	}
	for i := range r.Rows {
		row := &r.Rows[i]
		row.Loopback = own[key{row.Size, row.Rate}]
		if !subtract || row.Loopback == nil || row.Delay == nil {
			continue
		}
		row.SubtractedNs = row.Loopback.P50Ns
		if row.Direction == Round {
			row.SubtractedNs *= 2
		}
		row.Delay = row.Delay.less(row.SubtractedNs)
	}
}

// Packets that are sent before the first trial, until some have come: neighbours are found, bridges
// learn, caches fill.
const (
	warmUps   = 60
	warmUpPPS = 20
	warmUpLet = 5 // come, which is enough
)

// warmUp fails if no packet arrives, and says what is known of where they went.
func (r *Rig) warmUp(ctx context.Context, size int, wait time.Duration) error {
	last := pointReceived
	if r.cfg.Round {
		last = pointBack
	}
	was, err := r.progs.tally()
	if err != nil {
		return err
	}
	r.enough = func() bool {
		now, err := r.progs.tally()
		return err != nil || now.First[last]-was.First[last] >= warmUpLet
	}
	o, err := r.Run(ctx, Trial{Size: size, PPS: warmUpPPS, Packets: warmUps, Duration: 2 * warmUps * time.Second / warmUpPPS, Wait: max(wait, warmUpWait)})
	r.enough = nil
	switch {
	case err != nil:
		return err
	case ctx.Err() != nil:
		return ctx.Err()
	case o.Streams[0].Received == 0:
		return r.nothingCame(o)
	case r.cfg.Round && o.Streams[1].Received == 0:
		return fmt.Errorf("%d test packets arrived at %s, and were sent back; none came back to %s: does the device know where %v is?",
			o.Streams[0].Received, r.cfg.Out.Name, r.cfg.In.Name, r.cfg.From.Addr())
	}
	return nil
}

// warmUpWait is for the first packets, which may wait for neighbours, at least.
const warmUpWait = time.Second

// nothingCame says what counters say.
func (r *Rig) nothingCame(o *Outcome) error {
	in, out := r.cfg.In.Name, r.cfg.Out.Name
	if o.Sent == 0 {
		return fmt.Errorf("no test packet left %s: its interface sends past TC, where they are stamped", in)
	}
	text := fmt.Sprintf("no test packet arrived at %s: %d left %s for %v (%v)", out, o.Sent, in, r.cfg.To.Addr(), r.cfg.ToMAC)
	switch {
	case o.In.OutDrops > 0:
		text += fmt.Sprintf("; %s has dropped %d", in, o.In.OutDrops)
	case o.Out.InDrops > 0:
		text += fmt.Sprintf("; %s has dropped %d packets that came in", out, o.Out.InDrops)
	case o.Out.In >= uint64(o.Sent):
		text += fmt.Sprintf("; %d other packets came in there: if these are they, the device has changed their payload, or put it into a tunnel", o.Out.In)
	default:
		text += fmt.Sprintf("; %s counts %d packets sent, %s %d received: they stayed in the device, or went elsewhere. Does it know where %v is? See ‹to› and ‹to-mac›",
			in, o.In.Out, out, o.Out.In, r.cfg.To.Addr())
	}
	return errors.New(text)
}
