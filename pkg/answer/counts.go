// SPDX-License-Identifier: Apache-2.0

package answer

import (
	"context"
	"slices"
	"time"

	"github.com/vnetradar/radar/pkg/aggregate"
	"github.com/vnetradar/radar/pkg/answer/ends"
	"github.com/vnetradar/radar/pkg/answer/note"
	"github.com/vnetradar/radar/pkg/answer/placenow"
	"github.com/vnetradar/radar/pkg/answer/replies"
	"github.com/vnetradar/radar/pkg/host/clock"
	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
)

// Question is what is asked of packets that are counted.
type Question struct {
	*Selection
	Now time.Time
	// ByFlow: rows are of flows. A selection that asks for nothing but flows then chooses among all since attach.
	ByFlow bool
	// BySecond: latencies are asked for second by second, which packets have, and what was counted since attach has not.
	BySecond bool
	// Meter sees each packet that is counted, with when it was sent (Unix, ns); nil: none does. It is valid during the
	// call only. As with BySecond, packets are read for it.
	Meter func(p *packet.Packet, unixNs int64)
}

// sinceAttach reports whether a domain's own counts, which begin when it was created, have what is asked.
func (q *Question) sinceAttach(created time.Time) bool {
	return !q.Since.After(created) && !q.BySecond && q.Meter == nil && q.Until.IsZero() && q.Last == 0 && (!q.filtered || q.flowsOnly && q.ByFlow)
}

// Counts are packets, counted: what the rows of every question are made of. Its methods return the rows of
// one question each, with what else there is to say. It is for one goroutine.
type Counts struct {
	// Names are those of nodes and ports in rows. Whoever shows rows may set others.
	Names packet.Names

	ctx      context.Context // of the question
	question Question
	offset   int64        // from stamps to Unix time, ns
	own      packet.Names // as the sources name nodes and ports
	sums     *aggregate.Aggregates
	timeline *aggregate.Timeline // the same packets by the second; nil: nobody asks for that
	sources  *Sources            // nil: there are none to ask further

	scope    packet.Scope    // of packets that are added; nil: of none yet
	member   *packet.Member  // whose packets are added, of several domains; nil: there is one
	timeout  time.Duration   // after which packets that are under way expire
	unended  replies.Pairs   // of packets that have not ended
	underWay int             // packets that have not ended, of those that were sent a while ago
	late     func()          // counts underWay, where that was left for when it is asked for; nil: it is counted
	now      *placenow.Links // nil: nobody has asked yet
	askers   replies.Askers  // the same
	gaps     bool            // packets that were measured since attach may not be counted

	keep    func(*packet.Packet) bool // flows of these are asked for; nil: all
	matched bool                      // by keep
}

// NewCounts returns Counts of packets that are counted already.
func NewCounts(sums *aggregate.Aggregates, names packet.Names) *Counts {
	return &Counts{Names: names, own: names, question: Question{Selection: &Selection{}}, sums: sums, matched: true, unended: make(replies.Pairs)}
}

// Ask counts the packets that are asked for. The notes are to be said also beside an error.
func (s *Sources) Ask(ctx context.Context, q *Question) (*Counts, []Note, error) {
	offset := s.wallOffset()
	c := NewCounts(aggregate.New(offset), nil)
	c.ctx, c.question, c.sources, c.offset = ctx, *q, s, offset
	if q.BySecond {
		c.timeline = aggregate.NewTimeline(offset)
	}
	notes := s.Lacks()
	more, err := s.Count(ctx, q, c)
	c.own = c.Names
	return c, append(notes, more...), err
}

// From says which scope the packets and sums have that are added from now on. Beside others of the same domain it is one
// that has the numbers of these, too.
func (c *Counts) From(scope packet.Scope) {
	c.scope, c.Names, c.member = scope, scope, nil
	if m, is := scope.(*packet.Member); is {
		c.member, c.Names = m, m.Scopes()
	}
}

// AddSum counts a flow's packets that were counted at one place and not measured, if their flow and the node are asked for: what
// became of them nobody knows, so they are in no state. That they are of the time that is asked for, the source sees to.
func (c *Counts) AddSum(s *aggregate.FlowSum) {
	to := *s
	if c.question.filtered {
		p := s.Key.Packet()
		p.Hops = []packet.Hop{{Node: s.Place.Node, In: packet.NoPort, Out: packet.NoPort}}
		if !c.question.keep(p, c.scope) {
			return
		}
		c.matched = true
	}
	if c.member == nil {
		c.sums.AddSum(&to)
		return
	}
	to.Place.Node, to.Place.Port = c.member.Node(s.Place.Node), c.member.Port(s.Place.Port)
	to.First, to.Last = c.member.Stamp(s.First), c.member.Stamp(s.Last)
	c.sums.AddSum(&to)
}

// Add counts a packet.
func (c *Counts) Add(p *packet.Packet) {
	if c.member != nil {
		p = c.member.Packet(p)
	}
	c.sums.Add(p)
	if c.timeline != nil {
		c.timeline.Add(p)
	}
	if c.question.Meter != nil {
		c.question.Meter(p, int64(p.T0)+c.offset)
	}
}

// aWhile is how long packets are under way without a fault.
const aWhile = 100 * time.Millisecond

// addUnderWay counts a packet of the ring that has not ended, if it is asked for and was sent a while ago.
func (c *Counts) addUnderWay(p *packet.Packet, asked bool) {
	if p.State == record.InFlight {
		c.unended.Add(p)
	}
	if asked && int64(clock.Monotonic()-p.T0) > int64(aWhile) {
		c.underWay += p.Segs
	}
}

// Sums are the packets, counted, with the names that the sources give nodes and ports.
func (c *Counts) Sums() (*aggregate.Aggregates, packet.Names) { return c.sums, c.own }

// ChoosesFlows reports whether rows are of some flows alone, chosen among all packets since attach: Totals, and the
// paths of Sums, are then of all flows.
func (c *Counts) ChoosesFlows() bool { return c.keep != nil }

// Totals are the sums over all packets.
func (c *Counts) Totals() aggregate.Totals { return c.sums.Totals() }

// Remarks are about the answer as a whole: how complete it is, and why it is empty. They are known when its
// rows have been made.
func (c *Counts) Remarks() (notes []Note) {
	if c.sources == nil {
		return nil
	}
	total := c.Totals()
	if n := total.Truncated; n > 0 && c.sources.isMeasured() {
		_, inLoops := ends.Loops(c.sums.Paths(c.Names)) // the rounds that are missing are like those that are there
		if n -= min(n, inLoops); n > 0 {
			notes = append(notes, note.Incomplete{Packets: n})
		}
	}
	if !c.matched || total.Packets+total.Unmeasured == 0 {
		notes = append(notes, c.sources.WhyEmpty(c.ctx, c.question.Selection)...)
	}
	return c.nodesSilent(notes)
}

// nodesSilent adds to notes which nodes did not answer, unless they say so.
func (c *Counts) nodesSilent(notes []Note) []Note {
	if !slices.ContainsFunc(notes, func(n Note) bool { return n.Kind() == note.NodesSilent{}.Kind() }) {
		notes = append(notes, SilentNodes(c.now)...)
	}
	return notes
}
