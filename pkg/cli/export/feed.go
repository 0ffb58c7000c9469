// SPDX-License-Identifier: Apache-2.0

package export

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
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
	"github.com/vnetradar/radar/pkg/system"
	"github.com/vnetradar/radar/pkg/vnet/backpack"
	"github.com/vnetradar/radar/pkg/vnet/domain"
	"github.com/vnetradar/radar/pkg/words"
)

// feedCounts are of packets that an exporter does not see.
type feedCounts struct {
	Own      uint64 `json:"own"`       // to the collectors, or their answers
	NotEnded uint64 `json:"not_ended"` // on their way at the end
	Unread   uint64 `json:"unread"`    // up to so many were overwritten before they were read
}

// feed gives an exporter the packets that have ended.
type feed struct {
	*kit.Kit
	ctx     context.Context
	isOwn   func(*record.Record) bool
	take    func(*record.Record)
	polled  func(unixNs int64)   // all that was sent until then, and has ended, was taken; nil: nobody asks
	changed func(*domain.Domain) // the domain is another one than before
	feedCounts
}

// untilSignal ends with Ctrl-C. A second one ends the process at once.
func untilSignal(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

// asksHistory says whether what there is is exported, not what comes.
func asksHistory(cmd *cobra.Command, recorded bool) bool {
	flags := cmd.Flags()
	return recorded || flags.Changed("last") || flags.Changed("since") || flags.Changed("until")
}

// refuseInFlight refuses to ask for what no exporter sends.
func refuseInFlight(s *answer.Selection) error {
	if s.Wants(record.InFlight) {
		return fault.Usage.Errorf("--state in_flight: packets are exported when they have ended")
	}
	return nil
}

// history takes what the domain has, or a recording. begin says that the work begins.
func (f *feed) history(s *answer.Selection, begin func(*domain.Domain) error) error {
	return f.ReadSources(s, func(all *answer.Sources) error {
		f.Note(all.Lacks())
		if err := begin(all.Domain()); err != nil {
			return err
		}
		recorded := all.Recorded() != nil
		notes, err := all.Records(f.ctx, s, func(r *record.Record) error {
			switch {
			case r.State == record.InFlight:
				f.NotEnded++
			case !recorded && f.isOwn(r):
				f.Own++
			default:
				f.take(r)
			}
			return f.ctx.Err()
		})
		f.Note(notes)
		if errors.Is(err, context.Canceled) {
			return nil
		}
		return err
	})
}

// live takes what ends from now on, until Ctrl-C or the domain is gone.
func (f *feed) live(s *answer.Selection, begin func(*domain.Domain) error) error {
	return f.ReadRing(s, func(ring *answer.Ring) error {
		f.Note(ring.Lacks())
		follower, err := f.newFollower(ring, s)
		if err == nil {
			err = begin(ring.Domain)
		}
		if err != nil {
			return err
		}
		return f.follow(ring, follower)
	})
}

// newFollower makes a follower of all that is sent from now on.
func (f *feed) newFollower(ring *answer.Ring, s *answer.Selection) (*backpack.Follower, error) {
	refresh := func() (*domain.Domain, error) {
		d, err := ring.Refresh()
		if err == nil {
			f.changed(d)
		}
		return d, err
	}
	follower := backpack.NewFollower(ring.Maps, ring.Decoder, backpack.FollowOptions{Refresh: refresh, Moves: ring.UpdateMoves, Select: s.Ring()})
	if err := follower.SkipToNow(); err != nil {
		return nil, fmt.Errorf("read the ring: %w", err)
	}
	return follower, nil
}

// follow takes what ends.
func (f *feed) follow(ring *answer.Ring, follower *backpack.Follower) error {
	for more := true; more; {
		// What has ended while we waited is taken, also after Ctrl-C.
		more = kit.Wait(f.ctx, kit.FollowEvery)
		now := int64(clock.Monotonic()) + ring.Decoder.WallOffset()
		err := follower.Poll(func(p *packet.Packet) {
			r := ring.Decoder.Record(p)
			if isOwn(ring, &r, f.isOwn) {
				f.Own++
				return
			}
			f.take(&r)
		})
		stats := follower.Stats()
		f.Unread, f.NotEnded = stats.Unread+stats.Torn, stats.InFlight
		if err != nil {
			return fmt.Errorf("read the ring: %w", err)
		}
		if f.polled != nil {
			f.polled(now)
		}
		before := ring.Domain
		if err := ring.Update(); errors.Is(err, system.ErrNotAttached) {
			fmt.Fprintf(f.Stderr, "radar: domain %s was detached\n", f.Domain)
			return nil
		}
		if ring.Domain != before {
			f.changed(ring.Domain)
		}
	}
	return nil
}

// isOwn says whether a packet is one of the export's own, or a tunnel's with one inside.
func isOwn(ring *answer.Ring, r *record.Record, own func(*record.Record) bool) bool {
	for depth := 0; ; depth++ {
		if own(r) {
			return true
		}
		if r.Inner == "" || depth == mostInner {
			return false
		}
		inner, err := backpack.Find(ring.Maps, ring.Decoder, r.Inner, clock.Monotonic())
		if err != nil { // overwritten: it was no packet of a moment ago
			return false
		}
		r = &inner.Record
	}
}

// mostInner bounds tunnels in tunnels.
const mostInner = 4

// isOwnTCP says whether a packet is of a connection to one of the addresses.
func isOwnTCP(r *record.Record, to []netip.AddrPort) bool {
	if r.Proto != "tcp" || r.Sport == nil || r.Dport == nil {
		return false
	}
	for _, a := range to {
		text, port := a.Addr().WithZone("").String(), int(a.Port())
		if r.Dst == text && *r.Dport == port || r.Src == text && *r.Sport == port {
			return true
		}
	}
	return false
}

// counted are counts that are said if there are any.
type counted []struct {
	count uint64
	noun  string // of what is counted; "": text says it
	text  string
}

func (list counted) lines() (lines []string) {
	for _, n := range list {
		if n.count > 0 {
			what := words.Decimal(n.count)
			if n.noun != "" {
				what = words.Plural(int(n.count), n.noun)
			}
			lines = append(lines, what+" "+n.text)
		}
	}
	return lines
}

// sayEnd says what became of an export: as JSON, or in lines.
func (f *feed) sayEnd(v interface{ lines() []string }) error {
	if f.Output == kit.FormatJSON {
		return errors.Join(kit.PrintJSON(f.Out, v), f.Out.Flush())
	}
	for _, line := range v.lines() {
		if _, err := fmt.Fprintf(f.Stderr, "radar: %s\n", line); err != nil {
			return err
		}
	}
	return nil
}

// said are the counts of a feed, in words.
func (c *feedCounts) said() counted {
	return counted{
		{c.Own, "packet", "not exported: to the collector, or its answers"},
		{c.NotEnded, "packet", "had not ended, or not for certain yet"},
		{c.Unread, "packet", "at most, overwritten before being read (attach with more --slots)"},
	}
}
