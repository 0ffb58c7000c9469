// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"context"
	"errors"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/vnetradar/radar/pkg/answer"
	"github.com/vnetradar/radar/pkg/answer/note"
	"github.com/vnetradar/radar/pkg/answer/story"
	"github.com/vnetradar/radar/pkg/answer/wording"
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/vnet/backpack"
)

// Packet is one packet with its story.
type Packet struct {
	Record  Record   `json:"record"`
	Story   []string `json:"story" nullable:"false" doc:"in words, as the command line tells it"`
	Parts   []Part   `json:"parts" nullable:"false" doc:"of its time, in order"`
	Longest *Part    `json:"longest,omitempty" doc:"where most of its time went"`
	Segment int      `json:"segment,omitempty" doc:"its place in the train whose record this is"`
	Notes   []Note   `json:"notes" nullable:"false"`
}

// Part is a part of a packet's time.
type Part struct {
	Place   string `json:"place" enum:"link,node,queue"`
	Hop     int    `json:"hop" doc:"index in record.hops: the node, the queue's node, or the end of the link"`
	From    *int   `json:"from,omitempty" doc:"of a link: the hop where it begins"`
	BeginNs *int64 `json:"begin_ns,omitempty" doc:"since the packet was sent"`
	Ns      int64  `json:"ns"`
	Percent *int64 `json:"percent,omitempty" doc:"of the longest: its share of all"`
	Queue   bool   `json:"with_queue,omitempty" doc:"of a link: the wait in the queue before it is in it, for nobody saw its end"`
}

// registerPacket adds /packets/{id}.
func (a *API) registerPacket() {
	type packetAsked struct {
		OneDomain
		ID string `path:"id" maxLength:"64" doc:"as a record has it" example:"5f3a9c01-1a2b"`
	}
	huma.Register(a.huma, ofDomain("packet", "/packets/{id}", "One packet, with its story"), func(ctx context.Context, q *packetAsked) (*Output[Packet], error) {
		return once(ctx, a.answers, q.asked, func(ctx context.Context) (*Output[Packet], error) {
			var p Packet
			notes, err := a.open(q.Domain, &answer.Selection{}, func(s *answer.Sources) (notes []answer.Note, err error) {
				p, notes, err = a.packet(ctx, s, q.ID)
				return notes, err
			})
			if err != nil {
				return nil, err
			}
			p.Notes = a.said(notes)
			return output(p), nil
		})
	})
}

func noPacket(id, format string, args ...any) error {
	e := fieldError("path.id", id, format, args...).(*huma.ErrorModel)
	e.Status, e.Title, e.Detail = 404, "Not Found", "no such packet"
	return e
}

// packet finds a packet of a domain's own, else one of reports.
func (a *API) packet(ctx context.Context, s *answer.Sources, id string) (p Packet, notes []answer.Note, err error) {
	if of := s.Singles(); of != nil {
		found, err := of.Find(id)
		if err == nil {
			return a.found(ctx, s, of, found[0])
		}
		if !s.HasReports() {
			return p, nil, noPacket(id, "%v", err)
		}
	}
	reported := errors.New("found")
	_, err = s.Records(ctx, &answer.Selection{}, func(r *record.Record) error {
		if r.ID != id {
			return nil
		}
		p = Packet{Record: Record{r}, Story: []string{}, Parts: partsOf(r)}
		return reported
	})
	switch {
	case err == nil:
		return p, nil, noPacket(id, "no packet has this id")
	case !errors.Is(err, reported):
		return p, nil, err
	}
	return p, nil, nil
}

// found is a packet of the ring, or of a recording.
func (a *API) found(ctx context.Context, of *answer.Sources, singles answer.Singles, found *backpack.Found) (p Packet, notes []answer.Note, err error) {
	now := time.Now()
	if ring := of.Ring(); ring != nil {
		if damaged := ring.AddReported([]*record.Record{&found.Record}); damaged != nil {
			notes = append(notes, note.ReportsDamaged{Err: damaged})
		}
	} else if r := of.Recorded(); r != nil {
		now = r.Now()
	}
	stories, more, err := singles.Stories(ctx, []*backpack.Found{found}, now)
	notes = append(notes, more...)
	if err != nil {
		return p, notes, err
	}
	s := stories[0]
	t := &wording.Teller{Sentences: wording.Sentences{Location: time.Local, Now: now, Face: a.Face}, Shown: wording.NewNames(of.Domain())}
	p = Packet{Record: Record{s.Record}, Parts: partsOf(s.Record), Segment: s.Segment}
	p.Story, _ = t.Tell(s).Lines(nil, nil, nil)
	if l := s.Longest; l != nil {
		p.Longest = &Part{Place: string(l.Place), Hop: l.Hop, Ns: l.Ns, Percent: l.Percent, Queue: l.WithQueue}
		if l.Place == story.InLink {
			p.Longest.From = &l.From
		}
	}
	return p, notes, nil
}

// partsOf are the parts of a packet's time that are known.
func partsOf(r *record.Record) []Part {
	list := []Part{}
	for i := range r.Hops {
		h := &r.Hops[i]
		begin := func(before ...*int64) *int64 {
			if h.AtNs == nil {
				return nil
			}
			at := *h.AtNs
			for _, ns := range before {
				if ns != nil {
					at -= *ns
				}
			}
			return &at
		}
		if prev := r.PrevOf(i); h.LinkNs != nil && prev >= 0 {
			list = append(list, Part{Place: string(story.InLink), Hop: i, From: &prev, BeginNs: begin(h.NodeNs, h.LinkNs), Ns: *h.LinkNs, Queue: r.Hops[prev].QueueNs == nil})
		}
		if h.NodeNs != nil {
			list = append(list, Part{Place: string(story.InNode), Hop: i, BeginNs: begin(h.NodeNs), Ns: *h.NodeNs})
		}
		if h.QueueNs != nil {
			list = append(list, Part{Place: string(story.InQueue), Hop: i, BeginNs: begin(), Ns: *h.QueueNs})
		}
	}
	return list
}
