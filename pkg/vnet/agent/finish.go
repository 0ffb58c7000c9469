// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"time"

	"github.com/vnetradar/radar/pkg/aggregate"
	"github.com/vnetradar/radar/pkg/vnet/datapath"
)

// Summary is what a domain measured in its life.
type Summary struct {
	Domain   string              `json:"domain"`
	Attached time.Time           `json:"attached"`
	Duration time.Duration       `json:"duration_ns"`
	Totals   Totals              `json:"totals"`
	Counters []datapath.Counter  `json:"-"`
	Losses   []aggregate.LossRow `json:"losses"`
	Nodes    int                 `json:"nodes"`
	Ports    int                 `json:"ports"`
	Warnings []string            `json:"warnings,omitempty"`
}

// FinishOptions tune Finish.
type FinishOptions struct {
	NoDrain  bool
	Progress func(inFlight int) // may be nil
}

// settleTime is how long a loss inside a node may still be withdrawn by the
// packet's reappearance, and a little more.
const settleTime = 2200 * time.Millisecond

// Finish ends the domain: it stops the sources, waits for the packets under way
// while it goes on counting, and detaches. The end of ctx cuts the wait short,
// not the detaching. The Summary is valid as far as it could be read even if an
// error is returned; the agent is closed then in any case.
func (a *Agent) Finish(ctx context.Context, o FinishOptions) (*Summary, error) {
	defer a.Close()
	// From here on nobody may ask this process to hand over; the lock stays.
	a.life.Unname()
	drainErr := a.drain(ctx, o)
	// While packets pass, a counter that is read early knows less than one read late.
	var summary *Summary
	count := func() { summary = a.Summary(); a.closeMaps() }
	result, err := datapath.Detach(context.WithoutCancel(ctx), datapath.DetachRequest{Domain: a.name, NoDrain: true, Silent: count})
	if summary == nil {
		count()
	}
	if result != nil {
		summary.Nodes, summary.Ports = result.Nodes, result.Ports
		summary.Warnings = append(summary.Warnings, result.Warnings...)
	}
	return summary, errors.Join(drainErr, err)
}

// drain stops the sources and counts until nothing is under way.
func (a *Agent) drain(ctx context.Context, o FinishOptions) error {
	a.handle.Lease().Stop()
	if o.NoDrain || ctx.Err() != nil {
		return nil
	}
	drained := make(chan error, 1)
	go func() {
		_, err := a.handle.Drain(ctx, o.Progress)
		drained <- err
	}()
	for {
		select {
		case err := <-drained:
			if ctx.Err() != nil {
				return nil // cut short by the user
			}
			if err == nil {
				err = a.settle(ctx)
			}
			return err
		case <-time.After(pollMost):
			if err := a.reader.Collector.Poll(); err != nil {
				<-drained
				return err
			}
		}
	}
}

// settle counts until every story is final, at most settleTime.
func (a *Agent) settle(ctx context.Context) error {
	for deadline := time.Now().Add(settleTime); time.Now().Before(deadline); {
		if err := a.reader.Collector.Poll(); err != nil {
			return err
		}
		if a.reader.Collector.Totals().InFlight == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pollMost / 4):
		}
	}
	return nil
}

// Summary is what has been measured so far.
func (a *Agent) Summary() *Summary {
	d := a.reader.Domain
	s := &Summary{Domain: a.name, Attached: d.Created, Duration: d.Age(),
		Nodes: len(d.Chosen()), Losses: []aggregate.LossRow{}}
	for _, p := range d.Ports {
		if !p.Removed {
			s.Ports++
		}
	}
	var err error
	if s.Counters, err = a.handle.Counters(); err != nil {
		s.Warnings = append(s.Warnings, err.Error())
	}
	if err := a.reader.Collector.Poll(); err != nil {
		s.Warnings = append(s.Warnings, err.Error())
	}
	s.Totals = NewTotals(s.Counters, a.reader.Collector.Totals())
	if rows := a.reader.Collector.Aggregates().Losses(a.reader.Decoder); rows != nil {
		s.Losses = rows
	}
	return s
}
