// SPDX-License-Identifier: Apache-2.0

package export

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/vnetradar/radar/pkg/answer"
	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/host/clock"
	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/telemetry/export"
	"github.com/vnetradar/radar/pkg/vnet/backpack"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

func run(k *kit.Kit, cmd *cobra.Command, f *options, args []string) error {
	s, err := f.Selection(cmd.Flags(), args, k.Now())
	if err != nil {
		return err
	}
	if err := f.check(cmd, s); err != nil {
		return err
	}
	chosen, err := f.chosenIDs()
	if err != nil {
		return err
	}
	if _, err := f.encoder(nil); err != nil { // flags are refused before anything is opened
		return err
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends us at once
	return k.ReadRing(s, func(ring *answer.Ring) error {
		numbers, err := export.NewNumbers(networkOf(ring.Domain), chosen)
		if err != nil {
			return fault.Usage.Errorf("--node-id %w", err)
		}
		x := &exporting{Kit: k, ctx: ctx, reader: ring, numbers: numbers, sample: uint64(f.sample), pacer: newPacer(f.rate)}
		if x.encoder, err = f.encoder(numbers); err != nil {
			return err
		}
		if x.senders, err = newSenders(ctx, f.collectors); err != nil {
			return err
		}
		defer closeSenders(x.senders)
		k.Note(ring.Lacks())
		if cmd.Flags().Changed("last") || cmd.Flags().Changed("since") {
			err = errors.Join(x.printStart(f), x.history(s))
		} else {
			follower, skipErr := x.newFollower(s)
			if skipErr != nil {
				return skipErr
			}
			err = errors.Join(x.printStart(f), x.follow(follower))
		}
		return errors.Join(err, x.printEnd())
	})
}

// networkOf is what reports number of a domain: its nodes, virtual machines and ports. Ports that
// are there come last: they have the last word on their name.
func networkOf(d *domain.Domain) export.Network {
	of := export.Network{Name: d.Name}
	for i := range d.Nodes {
		of.Nodes = append(of.Nodes, export.Node{Number: d.Nodes[i].ID, Name: d.Nodes[i].Name})
	}
	for i := range d.VMs {
		of.Nodes = append(of.Nodes, export.Node{Number: d.VMs[i].ID, Name: d.VMs[i].Name})
	}
	for _, removed := range []bool{true, false} {
		for i := range d.Ports {
			p := &d.Ports[i]
			if p.Removed != removed {
				continue
			}
			of.Ports = append(of.Ports, export.Port{Node: p.Node, Name: p.Name, Ifindex: p.Ifindex})
			if p.VM != 0 { // a tap is its machine's port, too
				of.Ports = append(of.Ports, export.Port{Node: p.VM, Name: p.Name, Ifindex: p.Ifindex})
			}
		}
	}
	return of
}

// exporting is an export at work.
type exporting struct {
	*kit.Kit
	ctx     context.Context
	reader  *answer.Ring
	numbers *export.Numbers
	encoder *export.Encoder
	senders []*sender
	sample  uint64
	pacer   pacer
	counts  counts
}

// counts are of packets that the encoder does not see, and of what it does not know.
type counts struct {
	NotSampled  uint64 `json:"not_sampled"` // not one of the 1 in N
	Own         uint64 `json:"own"`         // to the collectors, or their answers
	Interrupted uint64 `json:"interrupted"` // reports that waited for --rate at the end
	NotEnded    uint64 `json:"not_ended"`   // on their way at the end
	Unread      uint64 `json:"unread"`      // up to so many were overwritten before they were read
}

// history sends what the ring has.
func (x *exporting) history(s *answer.Selection) error {
	found := false
	stats, err := backpack.ScanFunc(x.reader.Maps, x.reader.Decoder, s.ScanEnded(), func(r *record.Record) error {
		found = true
		x.take(r)
		if x.ctx.Err() != nil {
			return context.Canceled
		}
		return nil
	})
	if err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("read the ring: %w", err)
	}
	x.counts.Unread = uint64(stats.Torn)
	if !found {
		x.Note(x.reader.WhyEmpty(s))
	}
	return nil
}

// newFollower makes a follower of all that is sent from now on.
func (x *exporting) newFollower(s *answer.Selection) (*backpack.Follower, error) {
	refresh := func() (*domain.Domain, error) {
		d, err := x.reader.Refresh()
		if err == nil {
			x.numbers.SetNetwork(networkOf(d))
		}
		return d, err
	}
	follower := backpack.NewFollower(x.reader.Maps, x.reader.Decoder, backpack.FollowOptions{Refresh: refresh, Moves: x.reader.UpdateMoves, Select: s.Ring()})
	if err := follower.SkipToNow(); err != nil {
		return nil, fmt.Errorf("read the ring: %w", err)
	}
	return follower, nil
}

// follow sends what ends, until Ctrl-C or the domain is gone.
func (x *exporting) follow(follower *backpack.Follower) error {
	for more := true; more; {
		// What has ended while we waited goes out, also after Ctrl-C.
		more = kit.Wait(x.ctx, kit.FollowEvery)
		err := follower.Poll(func(p *packet.Packet) {
			r := x.reader.Decoder.Record(p)
			x.take(&r)
		})
		stats := follower.Stats()
		x.counts.Unread, x.counts.NotEnded = stats.Unread+stats.Torn, stats.InFlight
		if err != nil {
			return fmt.Errorf("read the ring: %w", err)
		}
		before := x.reader.Domain
		if err := x.reader.Update(); errors.Is(err, domain.ErrNotAttached) {
			fmt.Fprintf(x.Stderr, "radar: domain %s was detached\n", x.Domain)
			return nil
		}
		if x.reader.Domain != before {
			x.numbers.SetNetwork(networkOf(x.reader.Domain))
		}
	}
	return nil
}

// take sends what there is to say about a packet.
func (x *exporting) take(r *record.Record) {
	switch {
	case x.isOwn(r):
		x.counts.Own++
	case !export.Sampled(r.ID, x.sample):
		x.counts.NotSampled++
	default:
		x.encoder.Encode(r, x.send)
	}
}

// isOwn says whether a packet is one of our reports, or a tunnel's with one inside.
func (x *exporting) isOwn(r *record.Record) bool {
	for depth := 0; ; depth++ {
		for _, s := range x.senders {
			if s.isOwn(r) {
				return true
			}
		}
		if r.Inner == "" || depth == mostInner {
			return false
		}
		inner, err := backpack.Find(x.reader.Maps, x.reader.Decoder, r.Inner, clock.Monotonic())
		if err != nil { // overwritten: it was no packet of a moment ago
			return false
		}
		r = &inner.Record
	}
}

// mostInner bounds tunnels in tunnels.
const mostInner = 4

// send sends a report to every collector, and never waits for any.
func (x *exporting) send(b []byte) {
	if !x.pacer.wait(x.ctx) {
		x.counts.Interrupted++
		return
	}
	for _, s := range x.senders {
		s.Send(b)
	}
}
