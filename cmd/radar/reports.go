// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/vnetradar/radar/pkg/agent"
	"github.com/vnetradar/radar/pkg/backpack"
	"github.com/vnetradar/radar/pkg/collect"
	"github.com/vnetradar/radar/pkg/domain"
	"github.com/vnetradar/radar/pkg/join"
	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
)

// sources are what a question is answered from: a domain's ring, reports that were
// collected for it, or both.
type sources struct {
	ring    *agent.Reader // nil: nothing is attached
	reports *collect.Info // nil: none are kept
}

// readSources opens what there is for read. Without anything the error is that of a
// domain that is not attached.
func (a *app) readSources(s *selection, read func(sources) error) error {
	reports, damaged := a.loadReports()
	attached := false
	err := a.readRing(s, reports, func(reader *agent.Reader) error {
		attached = true
		if damaged != nil {
			a.notef("warning: without the reports of switches: %v", damaged)
		}
		return read(sources{reader, reports})
	})
	if attached || !errors.Is(err, domain.ErrNotAttached) {
		return err
	}
	if damaged != nil {
		return damaged
	}
	if reports == nil {
		return err
	}
	for _, node := range s.filter.Nodes() {
		if !isReported(reports, node) {
			return usagef("--node %q: the nodes of reports are called int-ID, or as radar collect --node said", node)
		}
	}
	return read(sources{reports: reports})
}

// loadReports is collect.Load; nil if no reports are kept.
func (a *app) loadReports() (*collect.Info, error) {
	i, err := collect.Load(a.domain)
	if errors.Is(err, collect.ErrNone) {
		return nil, nil
	}
	return i, err
}

// eachReport calls fn for every packet of reports that is selected, oldest first; it is valid until fn returns.
// Of those that ring, if not nil, knows as radar's own packets, these are shown, with what the reports say.
// It returns the names of both.
func (a *app) eachReport(src sources, s *selection, fn func(*collect.Reported)) (*packet.Registry, error) {
	numbers, i := numbersBeside(src.ring), src.reports
	if i == nil {
		return numbers, nil
	}
	if i.First > 0 {
		a.notef("of %d datagrams with reports the newest %d are kept (radar collect --keep)", i.Next, i.Next-i.First)
	}
	if !i.All && i.Metrics.Unchanged > 0 {
		a.notef("%s without an event are no packets here (radar collect --all keeps them)", plural(int(i.Metrics.Unchanged), "report"))
	}
	if i.Gaps > 0 {
		a.notef("%s that sources have numbered did not come", plural(int(i.Gaps), "report"))
	}
	return numbers, i.Packets(a.domain, storiesOf(src.ring), numbers, func(p *collect.Reported) {
		if s.match(&p.Packet, numbers) {
			fn(p)
		}
	})
}

// numbersBeside gives nodes of reports numbers beside those of a domain; nil: there is none.
func numbersBeside(ring *agent.Reader) *packet.Registry {
	if ring == nil {
		return &packet.Registry{}
	}
	return &packet.Registry{Domain: ring.Decoder}
}

// addReports counts selected reports, beside the packets of names, and returns the names
// of both.
func (a *app) addReports(to *answer, src sources, s *selection, last int) (packet.Names, error) {
	window := newest{last: last}
	numbers, err := a.eachReport(src, s, func(p *collect.Reported) {
		switch {
		case p.IsOwn(): // which the ring's own count has
		case last > 0:
			window.add(p)
		default:
			to.Add(&p.Packet)
		}
	})
	if err != nil {
		return nil, err
	}
	for p := range window.all() {
		to.Add(&p.Packet)
	}
	if numbers.Over > 0 {
		a.notef("%d visits of nodes or ports of reports are without a name here: there were too many", numbers.Over)
	}
	if last > 0 && src.ring != nil {
		a.notef("--last %d: so many of radar's own packets, and of those that switches reported", last)
	}
	return a.namesOf(numbers), nil
}

// newest keeps the last so many of the packets that are added, all if last is 0.
type newest struct {
	last int
	list []*collect.Reported
	next int // the oldest, once there are so many
}

func (n *newest) add(p *collect.Reported) {
	if n.last == 0 || len(n.list) < n.last {
		n.list = append(n.list, new(collect.Reported))
		p.Copy(n.list[len(n.list)-1])
		return
	}
	p.Copy(n.list[n.next])
	n.next = (n.next + 1) % n.last
}

// all are those packets, the oldest first.
func (n *newest) all() iter.Seq[*collect.Reported] {
	return func(yield func(*collect.Reported) bool) {
		for i := range n.list {
			if !yield(n.list[(n.next+i)%len(n.list)]) {
				return
			}
		}
	}
}

// isReported says whether reports may name such a node.
func isReported(i *collect.Info, node string) bool {
	if i == nil {
		return false
	}
	if strings.HasPrefix(node, "int-") {
		return true
	}
	for _, name := range i.Names {
		if name == node {
			return true
		}
	}
	return false
}

// printReports prints selected packets of reports alone, the newest last of them.
func (a *app) printReports(i *collect.Info, q packetQuery) error {
	rows, _, err := a.selectedReports(sources{reports: i}, q)
	if err != nil {
		return err
	}
	if len(rows) == 0 {
		a.noteNoReports(i)
	}
	return a.printPackets(rows, q)
}

// printPackets prints records in the order that is asked for.
func (a *app) printPackets(rows []*record.Record, q packetQuery) error {
	if q.slowest >= 0 {
		rows = (&slowest{n: q.slowest, list: rows}).rows()
	}
	return a.packetPrinter(q).print(rows)
}

// noteNoReports says, where an answer is empty, what was collected.
func (a *app) noteNoReports(i *collect.Info) {
	a.notef("no packet matches; %s collected since %s", plural(int(i.Next-i.First), "report"), i.Since.In(a.location).Format(time.TimeOnly))
}

// selectedReports are records of reports alone, and what others say of radar's own packets.
func (a *app) selectedReports(s sources, q packetQuery) (rows []*record.Record, own said, err error) {
	window, own := newest{last: q.last}, make(said)
	_, err = a.eachReport(s, &q.selection, func(p *collect.Reported) {
		if !own.take(p) {
			window.add(p)
		}
	})
	for p := range window.all() {
		rows = append(rows, p.Record())
	}
	return rows, own, err
}

// printBoth prints what the ring and reports have, by time.
func (a *app) printBoth(s sources, q packetQuery) error {
	a.showNames(s.ring.Domain)
	rows, own, err := a.selectedReports(s, q)
	if err != nil {
		return fmt.Errorf("read reports: %w", err)
	}
	stats, err := backpack.ScanFunc(s.ring.Maps, s.ring.Decoder, q.scan(a.now()), func(r *record.Record) error {
		own.add(r)
		rows = append(rows, r)
		return nil
	})
	if err != nil {
		return fmt.Errorf("read the ring: %w", err)
	}
	slices.SortStableFunc(rows, func(x, y *record.Record) int { return cmp.Compare(x.TNs, y.TNs) })
	if q.last > 0 && len(rows) > q.last {
		rows = rows[len(rows)-q.last:]
	}
	if stats.Torn > 0 {
		a.notef("%d packets were overwritten while they were read", stats.Torn)
	}
	if len(rows) == 0 {
		a.noteEmpty(s.ring, &q.selection)
	}
	return a.printPackets(rows, q)
}

// said is what switches have reported of radar's own packets, by the packets' IDs.
type said map[string][]saidHop

// saidHop is what the switch at one hop has said.
type saidHop struct {
	hop  int
	node uint16
	what map[string]uint64
}

// take keeps what switches have said of p, and returns whether p is one of radar's own packets.
func (s said) take(p *collect.Reported) bool {
	if !p.IsOwn() {
		return false
	}
	id := backpack.Position(p.Own).ID()
	for i := range p.Hops {
		if what := p.INT(i); what != nil {
			s[id] = append(s[id], saidHop{i, p.Hops[i].Node, what})
		}
	}
	return true
}

// add adds to r what switches have said of it.
func (s said) add(r *record.Record) {
	for _, of := range s[r.ID] {
		if of.hop < len(r.Hops) && r.Hops[of.hop].NodeID == int(of.node) {
			r.Hops[of.hop].INT = of.what
		}
	}
}

// addSaid adds to packets of the ring what switches have said of them.
func (a *app) addSaid(ring *agent.Reader, records []*record.Record) error {
	reports, err := a.loadReports()
	if err != nil || reports == nil {
		return err
	}
	all := make(said)
	err = reports.Packets(a.domain, storiesOf(ring), nil, func(p *collect.Reported) { all.take(p) })
	for _, r := range records {
		all.add(r)
	}
	return err
}

// storiesOf are the stories of a domain that is read; nil: there is none.
func storiesOf(ring *agent.Reader) collect.Stories {
	if ring == nil {
		return nil
	}
	if s := join.Of(ring); s != nil {
		return s
	}
	return nil
}

// saidText is what a switch has said of its queue and itself: " {queue 0: 12}".
func saidText(h *record.Hop) string {
	var parts []string
	if depth, ok := h.INT["queue_occ"]; ok {
		parts = append(parts, fmt.Sprintf("queue %d: %d", h.INT["queue_id"], depth))
	}
	if latency, ok := h.INT["hop_latency"]; ok {
		parts = append(parts, fmt.Sprintf("latency %d", latency))
	}
	if len(parts) == 0 {
		return ""
	}
	return " {" + strings.Join(parts, ", ") + "}"
}
