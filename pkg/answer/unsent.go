// SPDX-License-Identifier: Apache-2.0

package answer

import (
	"cmp"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/aggregate"
	"github.com/vnetradar/radar/pkg/answer/note"
	"github.com/vnetradar/radar/pkg/answer/placenow"
	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/vnet/datapath"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// unsentNotes say what nodes dropped before it was sent, since attach, as far as it is selected.
func (r *Ring) unsentNotes(s *Selection, now *placenow.Links) (notes []Note) {
	err := withHandle(r.Domain.Name, func(h *datapath.Handle) error {
		list, err := h.Unsent()
		if err != nil {
			return err
		}
		for _, u := range r.unsent(list, s, now) {
			notes = append(notes, u)
		}
		counters, err := h.Counters()
		if err != nil {
			return fmt.Errorf("read counters: %w", err)
		}
		if n := valueOf(counters, "unsent_full"); n > 0 {
			notes = append(notes, note.UnsentFull{Packets: n})
		}
		return nil
	})
	return appendWarning(notes, err)
}

// unsent has one row for each node and reason, most packets first.
func (r *Ring) unsent(list []datapath.Unsent, s *Selection, now *placenow.Links) (rows []note.Unsent) {
	for i := range list {
		u := &list[i]
		p := r.unsentPacket(u)
		if isDiscovery(u) || !s.Match(p, r.Decoder) {
			continue
		}
		reason, function := r.Decoder.Why(u.Where)
		of := note.Unsent{Node: r.Decoder.NodeName(p.Loss.Node), Reason: reason, Function: function,
			SinceAttach: !s.Since.IsZero() || !s.Until.IsZero()}
		at := slices.IndexFunc(rows, func(row note.Unsent) bool {
			return row.Node == of.Node && row.Reason == of.Reason && row.Function == of.Function
		})
		if at < 0 {
			at, rows = len(rows), append(rows, of)
		}
		flow := note.UnsentFlow{Proto: record.ProtoName(u.Proto), Dst: u.Dst.String(), Packets: u.Packets}
		if u.Dport != 0 {
			port := int(u.Dport)
			flow.Dport = &port
		}
		rows[at].Packets += u.Packets
		addPort(&rows[at], now.OfUnsent(u.Port, u.Dst.String(), reason, function), r.Domain.PortByID(u.Port))
		if rows[at].Causes == nil {
			flow := aggregate.Flow{Proto: record.ProtoName(u.Proto), Src: u.Src.String(), Dst: u.Dst.String()}
			rows[at].Causes = now.Causes(&aggregate.LossPlace{Node: of.Node, Reason: reason, Function: function}, []aggregate.Flow{flow}, 0)
		}
		rows[at].Netfilter = now.Inside(&aggregate.LossPlace{Node: of.Node, Reason: reason, Function: function}).Netfilter
		rows[at].Flows = append(rows[at].Flows, flow)
	}
	for i := range rows {
		slices.SortFunc(rows[i].Flows, func(x, y note.UnsentFlow) int {
			return cmp.Or(cmp.Compare(y.Packets, x.Packets), cmp.Compare(x.String(), y.String()))
		})
	}
	slices.SortFunc(rows, func(x, y note.Unsent) int {
		return cmp.Or(cmp.Compare(y.Packets, x.Packets), cmp.Compare(x.Node, y.Node), cmp.Compare(x.Reason, y.Reason))
	})
	return rows
}

// isDiscovery reports whether these are between neighbours, as every node sends them that has a port: nobody
// misses them, and those that are sent are not measured.
func isDiscovery(u *datapath.Unsent) bool {
	switch u.Proto {
	case unix.IPPROTO_HOPOPTS, unix.IPPROTO_ICMPV6, unix.IPPROTO_IGMP:
		return u.Dst.IsLinkLocalMulticast()
	}
	return false
}

// addPort notes by which port the packets were to be sent.
func addPort(u *note.Unsent, states []placenow.PortState, port *domain.Port) {
	for _, p := range states {
		if !slices.Contains(u.NotUp, p) {
			u.NotUp = append(u.NotUp, p)
		}
	}
	if port != nil {
		u.Queue = cmp.Or(u.Queue, port.Queue)
	}
}

// unsentPacket is the newest of such packets, for filters to choose by. Its source port is not known.
func (r *Ring) unsentPacket(u *datapath.Unsent) *packet.Packet {
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
