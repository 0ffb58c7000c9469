// SPDX-License-Identifier: Apache-2.0

package dut

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/vnetradar/radar/pkg/bpfobj"
	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/system"
)

// Config says how a rig is made.
type Config struct {
	In, Out *Port
	Addresses
	Round   bool   // packets come back, and are stamped on that way too
	Hook    string // loader.HookAuto, hook.ByTCX or hook.ByClsact
	Packets int    // of the largest trial
}

// MostPackets is how many packets a trial can have: 64 bytes each.
const MostPackets = 1 << 20

// Rig is two ports with the programs of a run, and a sender. Its methods are for one goroutine.
type Rig struct {
	cfg    Config
	run    uint32
	trial  uint32
	progs  *programs
	sender *sender
	enough func() bool // ends a trial early; nil: nothing does
	Hook   string      // by which its programs are attached
}

// Open attaches the programs to the ports, which stay the caller's. What has to be asked for
// otherwise is fault.Usage. Close takes them off, and so does the end of the process, but for filters at
// clsact, which the next Open removes.
func Open(cfg Config) (*Rig, error) {
	if cfg.Round && cfg.In.is(cfg.Out) {
		return nil, fault.Usage.Errorf("‹round› needs two ports: what comes back to %s would be sent back once more", cfg.In.Name)
	}
	if cfg.Packets < 1 || cfg.Packets > MostPackets {
		return nil, fault.Usage.Errorf("a trial of %d packets: at most %d can be stamped: use a lower rate, or a shorter time", cfg.Packets, MostPackets)
	}
	by, err := system.ChooseHook(cfg.Hook)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(cfg.In.removeLeft(), cfg.Out.removeLeft()); err != nil {
		return nil, fmt.Errorf("remove what a killed «dut» has left: %w", err)
	}
	r := &Rig{cfg: cfg, run: rand.Uint32(), Hook: by}
	if r.progs, err = load(r.run, cfg.Packets); err != nil {
		return nil, err
	}
	if err := r.progs.attach(cfg.In, cfg.Out, cfg.Round, by); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	if r.sender, err = newSender(cfg.In, cfg.IPv6()); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// Close takes the programs off.
func (r *Rig) Close() error {
	var errs []error
	if r.sender != nil {
		errs = append(errs, r.sender.close())
	}
	return errors.Join(append(errs, r.progs.close())...)
}

// Trial is one stream of packets.
type Trial struct {
	Size     int           // of frames, with their FCS
	PPS      float64       // 0: as fast as the sender can
	Packets  int           // at most
	Duration time.Duration // at most
	Wait     time.Duration // for packets under way: since the last one came
}

// settleTime is how long copies of packets are waited for that have all come.
const settleTime = 5 * time.Millisecond

// Run sends the packets of a trial and waits for them. If ctx ends, it sends no more, and waits for
// those under way.
func (r *Rig) Run(ctx context.Context, t Trial) (*Outcome, error) {
	r.trial++
	f, err := newFrame(&r.cfg.Addresses, t.Size, r.run, r.trial)
	if err != nil {
		return nil, err
	}
	in, out := r.cfg.In.counters(), r.cfg.Out.counters()
	was, err := r.progs.begin(bpfobj.DutTrial{
		Trial: r.trial, Packets: uint32(t.Packets), Payload: uint32(payloadOf(t.Size, r.cfg.IPv6())),
	})
	if err != nil {
		return nil, err
	}
	interval := time.Duration(0)
	if t.PPS > 0 {
		interval = time.Duration(math.Round(float64(time.Second) / t.PPS))
	}
	tried, err := r.sender.run(ctx, f, &pace{t.Packets, interval, t.Duration, r.enough})
	if err != nil {
		return nil, err
	}
	tally, err := r.drain(&was, t.Wait)
	if err != nil {
		return nil, err
	}
	stamps, err := r.progs.read(tried)
	if err != nil {
		return nil, err
	}
	o := newOutcome(t, stamps, r.cfg.Round)
	o.Tried = tried
	o.Resized, o.Late = tally.Resized-was.Resized, tally.Late-was.Late+tally.Stray-was.Stray
	o.In, o.Out = r.cfg.In.counters().since(in), r.cfg.Out.counters().since(out)
	return o, nil
}

// drain waits until all packets have come, or none has come for a while.
func (r *Rig) drain(was *bpfobj.DutTally, wait time.Duration) (t bpfobj.DutTally, err error) {
	last := pointReceived
	if r.cfg.Round {
		last = pointBack
	}
	var came uint64
	for since := time.Now(); ; {
		if t, err = r.progs.tally(); err != nil {
			return t, err
		}
		now := uint64(0)
		for i := range t.First {
			now += t.First[i] + t.Again[i] - was.First[i] - was.Again[i]
		}
		all := t.First[last]-was.First[last] >= t.First[pointSent]-was.First[pointSent]
		if now != came {
			came, since = now, time.Now()
		}
		if quiet := time.Since(since); quiet >= wait || all && quiet >= min(settleTime, wait) {
			return t, nil
		}
		time.Sleep(time.Millisecond)
	}
}
