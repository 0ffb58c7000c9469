// SPDX-License-Identifier: Apache-2.0

package answer

import (
	"slices"
	"time"

	"github.com/vnetradar/radar/pkg/aggregate"
	"github.com/vnetradar/radar/pkg/answer/note"
	"github.com/vnetradar/radar/pkg/answer/placenow"
	"github.com/vnetradar/radar/pkg/answer/replies"
)

// haveAll reports whether all flows since attach were counted: of a part of them nobody knows which have an answer.
func (c *Counts) haveAll() bool {
	d := c.sources.Domain()
	return d != nil && c.question.sinceAttach(d.Created) && !c.gaps && c.Totals().OverFlows == 0
}

// replies say which requests got no answer, why, and which answers were lost on another path. What nodes dropped before it
// was sent is said already.
func (c *Counts) replies(unsent []Note) (notes []Note) {
	if !c.haveAll() {
		return nil
	}
	c.countUnderWay()
	seen := &replies.Seen{Flows: c.sums.Flows(c.Names, nil), Paths: c.sums.Paths(c.Names), UnderWay: c.unended.Has,
		Before: time.Now().Add(-aWhile).UnixNano()}
	delivered := replies.RequestsDelivered(seen.Flows)
	choice := &replies.Choice{Flows: c.askedFlows(), Explained: func(u *replies.Unanswered) bool {
		if saidUnsent(unsent, u) {
			return true
		}
		n, known := c.links().Answered(u.Node, u.Proto)
		return known && u.ICMPID != nil && n >= delivered[u.Node+u.Proto] // its answers were not measured
	}, Tell: func(u *replies.Unanswered) bool {
		row, is := c.unanswered(*u)
		if is {
			notes = append(notes, row)
		}
		return is
	}}
	_, elsewhere := replies.Find(seen, choice)
	for _, e := range elsewhere {
		notes = append(notes, note.AnswersElsewhere{Elsewhere: e})
	}
	for _, u := range replies.FindUntranslated(seen, choice) {
		notes = append(notes, note.NotTranslated{Untranslated: u})
	}
	return append(notes, c.errorsLimited()...)
}

// translationGone adds to rows of packets for which a node had no socket whether they answer a connection that it had
// translated.
func (c *Counts) translationGone(p *aggregate.LossPlace, flows []aggregate.Flow, causes []placenow.Cause) []placenow.Cause {
	if p.Reason != "NO_SOCKET" || len(flows) == 0 {
		return causes
	}
	if c.askers == nil { // a row of each node asks
		c.askers = replies.NewAskers(c.sums.Flows(c.Names, nil))
	}
	asker, ok := c.askers.Of(&flows[0])
	if !ok {
		return causes
	}
	return append(causes, placenow.Cause{Kind: placenow.NoTranslation, Node: p.Node, Address: asker})
}

// unanswered asks the node why it sent no answer. A watch, or a protocol in which not everything is answered, tells nothing
// by itself: only what the node says counts.
func (c *Counts) unanswered(u replies.Unanswered) (row note.Unanswered, is bool) {
	row.Unanswered = u
	row.Cause, _ = c.links().NoAnswer(&placenow.Request{Node: u.Node, From: u.From, To: u.To, Proto: u.Proto, Port: u.Port})
	d := c.sources.Domain()
	sure := u.Proto != "udp" && u.Dropped < u.Requests && (d == nil || d.Options.Watch == "")
	return row, row.Cause != nil || sure || u.OtherSource.IsValid()
}

// askedFlows are the names of the flows that are asked for; nil: all.
func (c *Counts) askedFlows() map[string]bool {
	if c.keep == nil {
		return nil
	}
	asked := make(map[string]bool)
	for _, f := range c.sums.Flows(c.Names, c.keep) {
		asked[f.Flow.String()] = true
	}
	return asked
}

// saidUnsent reports whether there is a note that the node itself dropped packets to who asked.
func saidUnsent(notes []Note, u *replies.Unanswered) bool {
	return slices.ContainsFunc(notes, func(n Note) bool {
		unsent, is := n.(note.Unsent)
		return is && unsent.Node == u.Node && slices.ContainsFunc(unsent.Flows, func(f note.UnsentFlow) bool { return f.Dst == u.From.String() })
	})
}

// errorsLimited says which nodes held back ICMP errors about packets whose TTL was used up there: a traceroute, or mtr,
// shows that as loss.
func (c *Counts) errorsLimited() (notes []Note) {
	type at struct {
		node string
		v6   bool
	}
	expired := make(map[at]uint64)
	var order []at
	for _, row := range c.lossRows(false) {
		if row.Reason != "IP_INHDR" || len(row.TopFlows) == 0 {
			continue
		}
		of := at{row.Node, row.TopFlows[0].IPVersion == 6}
		if expired[of] == 0 {
			order = append(order, of)
		}
		expired[of] += row.Packets
	}
	for _, of := range order {
		if limited, ok := c.links().ErrorsLimited(of.node, of.v6); ok {
			notes = append(notes, note.ErrorsLimited{Packets: expired[of], Limited: limited})
		}
	}
	return notes
}

// unusable says which addresses nodes have and do not use.
func unusable(l *placenow.Links) []Note {
	if list := l.Unusables(); len(list) > 0 {
		return []Note{note.AddressesUnusable{List: list}}
	}
	return nil
}

// noRouteOut says of which nodes programs sent packets to where these have no route: of such nothing is measured.
func noRouteOut(l *placenow.Links) (notes []Note) {
	for _, n := range l.NoRoutesOut() {
		notes = append(notes, note.NoRouteOut{NoRouteOut: n})
	}
	return notes
}
