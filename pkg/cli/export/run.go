// SPDX-License-Identifier: Apache-2.0

package export

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/vnetradar/radar/pkg/answer"
	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/fault"
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
	ctx, stop := untilSignal(cmd.Context())
	defer stop()
	return k.ReadRing(s, func(ring *answer.Ring) error {
		numbers, err := export.NewNumbers(networkOf(ring.Domain), chosen)
		if err != nil {
			return fault.Usage.Errorf("--node-id %w", err)
		}
		x := &exporting{feed: feed{Kit: k, ctx: ctx}, reader: ring, numbers: numbers, sample: uint64(f.sample), pacer: newPacer(f.rate)}
		if x.encoder, err = f.encoder(numbers); err != nil {
			return err
		}
		if x.senders, err = newSenders(ctx, f.collectors); err != nil {
			return err
		}
		defer closeSenders(x.senders)
		x.feed.isOwn, x.feed.take, x.feed.changed = x.isOwn, x.report, func(d *domain.Domain) { numbers.SetNetwork(networkOf(d)) }
		k.Note(ring.Lacks())
		if cmd.Flags().Changed("last") || cmd.Flags().Changed("since") {
			err = errors.Join(x.printStart(f), x.history(s))
		} else {
			follower, skipErr := x.newFollower(ring, s)
			if skipErr != nil {
				return skipErr
			}
			err = errors.Join(x.printStart(f), x.follow(ring, follower))
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
	feed
	reader  *answer.Ring
	numbers *export.Numbers
	encoder *export.Encoder
	senders []*sender
	sample  uint64
	pacer   pacer
	counts  counts
}

// counts are of packets and reports that the encoder does not see.
type counts struct {
	NotSampled  uint64 `json:"not_sampled"` // not one of the 1 in N
	Interrupted uint64 `json:"interrupted"` // reports that waited for --rate at the end
}

// history sends what the ring has.
func (x *exporting) history(s *answer.Selection) error {
	found := false
	stats, err := backpack.ScanFunc(x.reader.Maps, x.reader.Decoder, s.ScanEnded(), func(r *record.Record) error {
		found = true
		if isOwn(x.reader, r, x.isOwn) {
			x.Own++
		} else {
			x.report(r)
		}
		if x.ctx.Err() != nil {
			return context.Canceled
		}
		return nil
	})
	if err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("read the ring: %w", err)
	}
	x.Unread = uint64(stats.Torn)
	if !found {
		x.Note(x.reader.WhyEmpty(x.ctx, s))
	}
	return nil
}

// report sends what there is to say about a packet.
func (x *exporting) report(r *record.Record) {
	if !export.Sampled(r.ID, x.sample) {
		x.counts.NotSampled++
		return
	}
	x.encoder.Encode(r, x.send)
}

// isOwn says whether a packet is one of our reports, or about one.
func (x *exporting) isOwn(r *record.Record) bool {
	for _, s := range x.senders {
		if s.isOwn(r) {
			return true
		}
	}
	return false
}

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
