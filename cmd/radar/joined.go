// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"

	"github.com/vnetradar/radar/pkg/agent"
	"github.com/vnetradar/radar/pkg/collect"
	"github.com/vnetradar/radar/pkg/join"
	"github.com/vnetradar/radar/pkg/record"
)

// said is what switches have reported of radar's own packets, by the packets' IDs.
type said map[string][]saidHop

// saidHop is what the switch at one hop has said.
type saidHop struct {
	hop  int
	node string
	what map[string]uint64
}

// take keeps what switches have said of r, and returns whether r is one of radar's own packets.
func (s said) take(r *record.Record) bool {
	if r.Source != record.EBPF {
		return false
	}
	for i := range r.Hops {
		if h := &r.Hops[i]; h.INT != nil {
			s[r.ID] = append(s[r.ID], saidHop{i, h.Node, h.INT})
		}
	}
	return true
}

// add adds to r what switches have said of it.
func (s said) add(r *record.Record) {
	for _, of := range s[r.ID] {
		if of.hop < len(r.Hops) && r.Hops[of.hop].Node == of.node {
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
	err = reports.Records(a.domain, storiesOf(ring), func(r *record.Record) { all.take(r) })
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

// printJoins says what became of postcards of switches inside the domain.
func (a *app) printJoins(n *collect.Counts) {
	j := &n.Joins
	if j.Joined > 0 {
		fmt.Fprintf(a.stderr, "radar: %s joined to radar's own stories of %s\n", plural(int(j.Joined), "postcard"), plural(int(j.Packets), "packet"))
	}
	for _, of := range []struct {
		n   uint64
		why string
	}{
		{j.Foreign, "the number in the quote is another packet's, by flow, length or content"},
		{j.Stale, "the number in the quote is of another time"},
		{j.Unproven, "too little of the packet is quoted (28 bytes behind the IP header will do)"},
		{j.OffPath, "the packet did not pass that node: name switches as the domain's nodes (--node ID=NAME)"},
		{j.Ambiguous, "the packet passed that node more than once"},
		{j.Repeated, "the node had said it already"},
		{j.Forgotten, "the ring had newer packets (attach with more --slots)"},
	} {
		if of.n > 0 {
			fmt.Fprintf(a.stderr, "radar: %s not joined to a story: %s\n", plural(int(of.n), "postcard"), of.why)
		}
	}
	if n.Unordered > 0 {
		fmt.Fprintf(a.stderr, "radar: of %s the order of the nodes is not known: the TTLs in the quotes may be radar's (collect for that domain, on its machine)\n", plural(int(n.Unordered), "packet"))
	}
}
