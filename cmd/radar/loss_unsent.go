// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/vnetradar/radar/pkg/agent"
	"github.com/vnetradar/radar/pkg/datapath"
	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
)

// unsentRow is packets that a node dropped for one reason before they were sent.
type unsentRow struct {
	node, reason, function string
	packets                uint64
	flows                  []unsentFlow
}

type unsentFlow struct {
	name    string
	packets uint64
}

// maxUnsentFlows is how many flows a note names.
const maxUnsentFlows = 3

// unsentRows are what nodes dropped before it was sent, as far as it is selected, most first.
func unsentRows(h *datapath.Handle, r *agent.Reader, s *selection) ([]unsentRow, error) {
	list, err := h.Unsent()
	if err != nil {
		return nil, err
	}
	var rows []unsentRow
	for i := range list {
		u := &list[i]
		p := unsentPacket(r, u)
		if !s.match(p, r.Decoder) {
			continue
		}
		reason, function := r.Decoder.Why(u.Where)
		of := unsentRow{node: r.Decoder.NodeName(p.Loss.Node), reason: reason, function: function}
		at := slices.IndexFunc(rows, func(row unsentRow) bool {
			return row.node == of.node && row.reason == of.reason && row.function == of.function
		})
		if at < 0 {
			at, rows = len(rows), append(rows, of)
		}
		rows[at].packets += u.Packets
		rows[at].flows = append(rows[at].flows, unsentFlow{record.ProtoName(u.Proto) + " to " + unsentEnd(u), u.Packets})
	}
	for i := range rows {
		slices.SortFunc(rows[i].flows, func(x, y unsentFlow) int {
			return cmp.Or(cmp.Compare(y.packets, x.packets), cmp.Compare(x.name, y.name))
		})
	}
	slices.SortFunc(rows, func(x, y unsentRow) int {
		return cmp.Or(cmp.Compare(y.packets, x.packets), cmp.Compare(x.node, y.node), cmp.Compare(x.reason, y.reason))
	})
	return rows, nil
}

func unsentEnd(u *datapath.Unsent) string {
	if u.Dport == 0 {
		return u.Dst.String()
	}
	port := int(u.Dport)
	return endpoint(u.Dst.String(), &port)
}

// unsentPacket is the newest of such packets, for filters to choose by. Its source port is not known.
func unsentPacket(r *agent.Reader, u *datapath.Unsent) *packet.Packet {
	node := r.Decoder.PortNode(u.Port)
	p := &packet.Packet{
		T0: u.LastNs, State: record.Lost, IPv6: u.Src.Is6(), Proto: u.Proto, Segs: 1,
		HasTuple: true, Tuple: packet.Tuple{Src: u.Src.As16(), Dst: u.Dst.As16(), DstPort: u.Dport},
		Hops: []packet.Hop{{Node: node, Out: u.Port}},
		Lost: true, Loss: packet.Drop{Node: node, Port: u.Port, At: record.AtNode},
	}
	if u.Dport == 0 {
		p.Cut = packet.CutAll
	}
	return p
}

// text is "h1 dropped 2 packets before they were sent: NEIGH_FAILED (no ARP answer), icmp to 10.0.1.9".
func (u *unsentRow) text() string {
	why, words := cmp.Or(u.reason, u.function+"()"), shortWhy(u.reason, u.function)
	if words != "" {
		why += " (" + words + ")"
	}
	var flows []string
	for i, f := range u.flows {
		if i == maxUnsentFlows {
			flows = append(flows, plural(len(u.flows)-i, "more flow"))
			break
		}
		name := f.name
		if len(u.flows) > 1 {
			name += " (" + strconv.FormatUint(f.packets, 10) + ")"
		}
		flows = append(flows, name)
	}
	were := "before they were sent"
	if u.packets == 1 {
		were = "before it was sent"
	}
	return fmt.Sprintf("%s dropped %s %s: %s, %s", u.node, plural(int(u.packets), "packet"), were, why, strings.Join(flows, ", "))
}

// noteUnsent says what nodes dropped before it was sent, since attach.
func (a *app) noteUnsent(r *agent.Reader, s *selection) {
	if r == nil {
		return
	}
	a.warn(a.withHandle(func(h *datapath.Handle) error {
		rows, err := unsentRows(h, r, s)
		if err != nil {
			return err
		}
		for i := range rows {
			// With -f once for each node and reason.
			a.noteOnce("unsent "+rows[i].node+" "+rows[i].reason+" "+rows[i].function, rows[i].text())
		}
		counters, err := h.Counters()
		if err != nil {
			return fmt.Errorf("read counters: %w", err)
		}
		for _, c := range counters {
			if c.Name == "unsent_full" && c.Value > 0 {
				a.notef("%d more packets were dropped by nodes before they were sent: of too many flows to be told apart", c.Value)
			}
		}
		return nil
	}))
}
