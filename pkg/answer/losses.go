// SPDX-License-Identifier: Apache-2.0

package answer

import (
	"context"
	"slices"

	"github.com/vnetradar/radar/pkg/aggregate"
	"github.com/vnetradar/radar/pkg/answer/ends"
	"github.com/vnetradar/radar/pkg/answer/note"
	"github.com/vnetradar/radar/pkg/answer/placenow"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// LossRow is a place and reason of losses, or of drops after delivery.
type LossRow struct {
	aggregate.LossRow
	AfterDelivery bool `json:"after_delivery,omitempty"`
	FreedByTCP    bool `json:"freed_by_tcp,omitempty"` // after delivery, and no fault
	placenow.Place
}

// LossFlowRow is the same of one flow.
type LossFlowRow struct {
	aggregate.LossFlowRow
	AfterDelivery bool `json:"after_delivery,omitempty"`
	FreedByTCP    bool `json:"freed_by_tcp,omitempty"`
	placenow.Place
}

// LossRows are rows of losses, or of drops after delivery.
func LossRows(rows []aggregate.LossRow, afterDelivery bool) []LossRow {
	list := make([]LossRow, len(rows))
	for i, r := range rows {
		list[i] = LossRow{r, afterDelivery, afterDelivery && r.FreedByTCP(), placenow.Place{}}
	}
	return list
}

// LossFlowRows are the same by flow.
func LossFlowRows(rows []aggregate.LossFlowRow, afterDelivery bool) []LossFlowRow {
	list := make([]LossFlowRow, len(rows))
	for i, r := range rows {
		list[i] = LossFlowRow{r, afterDelivery, afterDelivery && r.FreedByTCP(), placenow.Place{}}
	}
	return list
}

// LossRowsNow are rows of losses in a domain, with what its nodes say now of the places; nil: there is nobody to ask.
func LossRowsNow(ctx context.Context, d *domain.Domain, rows []aggregate.LossRow) []LossRow {
	list := LossRows(rows, false)
	if d == nil {
		return list
	}
	links := placenow.NewLinks(ctx, d)
	for i := range list {
		r := &list[i]
		r.Place = links.At(&r.LossPlace, dstsOf(r.TopFlows), placenow.Mean(r.Bytes, r.Packets))
	}
	return list
}

func dstsOf(flows []aggregate.LossFlow) (dsts []string) {
	for i := range flows {
		dsts = append(dsts, flows[i].There.Dst)
	}
	return dsts
}

// Losses are where packets were lost and why, or dropped after delivery.
func (c *Counts) Losses(afterDelivery bool) Rows[LossRow] {
	rows := c.lossRows(afterDelivery)
	list, said := LossRows(rows, afterDelivery), []placenow.PortState(nil)
	for i := range list {
		mean := placenow.Mean(list[i].Bytes, list[i].Packets)
		list[i].Place = c.placeNow(&list[i].LossPlace, dstsOf(list[i].TopFlows), mean, afterDelivery)
		sent, there := flowsOf(list[i].TopFlows)
		list[i].Causes = c.translationGone(&list[i].LossPlace, sent, c.links().Causes(&list[i].LossPlace, there, mean))
		said = append(said, list[i].NotUp...)
	}
	return Rows[LossRow]{list, append(c.lossesLack(), c.besideLosses(rows, said, afterDelivery)...)}
}

// flowsOf are the flows of such rows, as they were sent and as they were where they were lost.
func flowsOf(rows []aggregate.LossFlow) (sent, there []aggregate.Flow) {
	for i := range rows {
		sent, there = append(sent, rows[i].Flow), append(there, rows[i].There)
	}
	return sent, there
}

// stillUnderWay says how many packets may be lost, and nobody knows yet. Of an answer without packets WhyEmpty
// says it.
func (c *Counts) stillUnderWay() []Note {
	c.countUnderWay()
	if c.underWay == 0 || c.Totals().Packets == 0 || !c.matched {
		return nil
	}
	return []Note{note.StillUnderWay{Packets: c.underWay, Timeout: c.timeout}}
}

// countUnderWay counts what has not ended, where that was left for when it is asked for.
func (c *Counts) countUnderWay() {
	if c.late != nil {
		c.late()
		c.late = nil
	}
}

// placeNow is what is known now of a place where packets to these addresses were lost, of so many bytes on average.
func (c *Counts) placeNow(p *aggregate.LossPlace, dsts []string, bytes uint64, afterDelivery bool) placenow.Place {
	if afterDelivery { // no link has to do with it
		return c.links().Inside(p)
	}
	return c.links().At(p, dsts, bytes)
}

func (c *Counts) lossRows(afterDelivery bool) []aggregate.LossRow {
	if afterDelivery {
		return c.sums.LocalDrops(c.Names)
	}
	return c.sums.Losses(c.Names)
}

// besideLosses say what rows of losses do not: how much expired, what was dropped after delivery, what went
// round in circles, what was never sent, and which ports are not up but for those that the rows have said.
func (c *Counts) besideLosses(rows []aggregate.LossRow, said []placenow.PortState, afterDelivery bool) []Note {
	if afterDelivery {
		return c.nothingDropped(len(rows))
	}
	reported := slices.ContainsFunc(rows, func(row aggregate.LossRow) bool { return !row.Inferred() })
	return append(c.otherLosses(reported), c.besideBoth(said)...)
}

// besideBoth are the notes of besideLosses that rows by flow have, too.
func (c *Counts) besideBoth(said []placenow.PortState) []Note {
	notes := append(c.loops(), c.stillUnderWay()...)
	// Of an answer without packets WhyEmpty says it.
	if c.Totals().Packets == 0 || c.sources == nil {
		return notes
	}
	if unsent, isKnown := c.sources.unsentNotes(c.question.Selection, c.links()); isKnown {
		notes = append(notes, unsent...)
		notes = append(notes, c.replies(unsent)...)
		notes = append(notes, portsNotUp(c.links(), said)...)
		notes = append(notes, unusable(c.links())...)
		more, _ := c.kernelDrops()
		notes = append(notes, more...)
	}
	return notes
}

// nothingDropped says so where there is no row of what was dropped after delivery, and what nodes count that rows have
// not.
func (c *Counts) nothingDropped(rows int) (notes []Note) {
	n := c.Totals().Packets
	if n == 0 {
		return nil
	}
	more, agree := c.kernelDrops()
	if rows == 0 {
		notes = append(notes, note.NothingDropped{Packets: n, NodesAgree: agree})
	}
	return append(notes, more...)
}

// links are those of the sources, nil if there are none.
func (c *Counts) links() *placenow.Links {
	if c.now == nil && c.sources != nil {
		c.now = c.sources.links(c.ctx)
	}
	return c.now
}

// SilentNodes says which nodes did not answer.
func SilentNodes(l *placenow.Links) []Note {
	if silent := l.Silent(); silent.Any() {
		return []Note{note.NodesSilent{Silent: silent}}
	}
	return nil
}

// portsNotUp says which ports are not up, but for those that rows name.
func portsNotUp(l *placenow.Links, said []placenow.PortState) []Note {
	if l == nil {
		return nil
	}
	list := slices.DeleteFunc(l.AllNotUp(), func(p placenow.PortState) bool { return slices.Contains(said, p) })
	if len(list) == 0 {
		return nil
	}
	return []Note{note.PortsNotUp{Ports: list}}
}

// kernelDrops say what nodes count themselves of drops after delivery that no row has. agree reports whether all could
// be asked, and none counts more.
func (c *Counts) kernelDrops() (notes []Note, agree bool) {
	list, agree := c.links().Drops(c.sums.LocalDrops(c.Names), c.sums.LocalDropsByFlow(c.Names, nil))
	for _, d := range list {
		notes = append(notes, note.KernelDrops{Drops: d})
	}
	return notes, agree
}

// lossesLack says what rows of losses lack.
func (c *Counts) lossesLack() []Note {
	return append(tableFull(note.Places, c.Totals().OverLosses, aggregate.MaxLosses), c.sources.cannot(OfLosses)...)
}

// LossesByFlow are Losses with a row for each flow.
func (c *Counts) LossesByFlow(afterDelivery bool) Rows[LossFlowRow] {
	a := Rows[LossFlowRow]{Notes: c.lossesLack()}
	local := c.sums.LocalDropsByFlow(c.Names, c.keep)
	if afterDelivery {
		a.List = LossFlowRows(local, true)
		a.Notes = append(a.Notes, c.nothingDropped(len(a.List))...)
		return a
	}
	a.List = LossFlowRows(c.sums.LossesByFlow(c.Names, c.keep), false)
	var said []placenow.PortState
	for i := range a.List {
		row := &a.List[i]
		mean := placenow.Mean(row.Bytes, row.Packets)
		row.Place = c.placeNow(&row.LossPlace, []string{row.There.Dst}, mean, false)
		row.Causes = c.links().Causes(&row.LossPlace, []aggregate.Flow{row.There}, mean)
		said = append(said, a.List[i].NotUp...)
	}
	a.Notes = append(a.Notes, c.expired()...)
	var n note.NothingLost
	for _, f := range c.sums.Flows(c.Names, c.keep) {
		n.Packets += f.Packets
	}
	a.Notes = append(a.Notes, c.besideBoth(said)...)
	for _, row := range local {
		if row.FreedByTCP() {
			n.Freed += row.Packets
		} else {
			n.Drops += row.Packets
		}
	}
	if len(a.List) > 0 {
		a.Notes = append(a.Notes, alsoDropped(n.Drops)...)
		return a
	}
	if n.Packets > 0 {
		a.Notes = append(a.Notes, n)
	}
	return a
}

// otherLosses say how much expired, and what was dropped after delivery. If no loss was reported, they say
// also what TCP has freed.
func (c *Counts) otherLosses(lost bool) []Note {
	notes, total := c.expired(), c.Totals()
	drops, freed := ends.AfterDelivery(c.sums.LocalDrops(c.Names))
	if lost {
		return append(notes, alsoDropped(drops)...)
	}
	if total.Packets == 0 || total.Expired > 0 && drops+freed == 0 {
		return notes
	}
	return append(notes, note.NothingLost{Packets: total.Packets, Expired: total.Expired > 0, Drops: drops, Freed: freed})
}

func alsoDropped(n uint64) []Note {
	if n == 0 {
		return nil
	}
	return []Note{note.AlsoDropped{Packets: n}}
}

// loops names the circles that packets went round in until they were lost.
func (c *Counts) loops() (notes []Note) {
	if c.keep != nil {
		return nil // paths do not tell flows apart
	}
	loops, _ := ends.Loops(c.sums.Paths(c.Names))
	for _, l := range loops {
		notes = append(notes, note.RoutingLoop{Path: l.Path, Packets: l.Lost})
	}
	return notes
}

// expired says how many packets vanished without a drop that the kernel reports, and where they
// were seen last.
func (c *Counts) expired() (notes []Note) {
	if c.keep == nil {
		total := c.Totals()
		if total.Expired > 0 {
			seen, more := ends.LastSeen(c.sums.Paths(c.Names))
			notes = append(notes, note.Expired{Packets: total.Expired, LastSeen: seen, More: more})
		}
		if total.Moved > 0 {
			notes = append(notes, note.MovedAddress{Packets: total.Moved})
		}
		return notes
	}
	n := uint64(0) // of the flows that were asked for; paths do not tell them apart
	for _, f := range c.sums.Flows(c.Names, c.keep) {
		n += f.Expired
	}
	if n > 0 {
		notes = append(notes, note.Expired{Packets: n})
	}
	return notes
}
