// SPDX-License-Identifier: Apache-2.0

package answer

import (
	"cmp"
	"fmt"
	"net"
	"slices"
	"strconv"

	"github.com/vnetradar/radar/pkg/datapath"
	"github.com/vnetradar/radar/pkg/record"
)

// UnsentFlow is what a node dropped of one flow before it was sent.
type UnsentFlow struct {
	Proto   string
	Dst     string
	Dport   *int // nil: the protocol has none
	Packets uint64
}

// String is "udp to 10.0.1.9:53".
func (f *UnsentFlow) String() string {
	end := f.Dst
	if f.Dport != nil {
		end = net.JoinHostPort(f.Dst, strconv.Itoa(*f.Dport))
	}
	return f.Proto + " to " + end
}

// unsentNotes say what nodes dropped before it was sent, since attach, as far as it is selected.
func (r *Ring) unsentNotes(s *Selection) (notes []Note) {
	err := withHandle(r.Domain.Name, func(h *datapath.Handle) error {
		list, err := h.Unsent()
		if err != nil {
			return err
		}
		for _, u := range r.unsent(list, s) {
			notes = append(notes, u)
		}
		counters, err := h.Counters()
		if err != nil {
			return fmt.Errorf("read counters: %w", err)
		}
		if n := valueOf(counters, "unsent_full"); n > 0 {
			notes = append(notes, UnsentFull{n})
		}
		return nil
	})
	return appendWarning(notes, err)
}

// unsent has one row for each node and reason, most packets first.
func (r *Ring) unsent(list []datapath.Unsent, s *Selection) (rows []Unsent) {
	for i := range list {
		u := &list[i]
		rec := r.unsentRecord(u)
		if !s.Match(rec) {
			continue
		}
		l := rec.Loss
		at := slices.IndexFunc(rows, func(row Unsent) bool {
			return row.Node == l.Node && row.Reason == l.Reason && row.Function == l.Function
		})
		if at < 0 {
			at, rows = len(rows), append(rows, Unsent{Node: l.Node, Reason: l.Reason, Function: l.Function})
		}
		rows[at].Packets += u.Packets
		rows[at].Flows = append(rows[at].Flows, UnsentFlow{rec.Proto, rec.Dst, rec.Dport, u.Packets})
	}
	for i := range rows {
		slices.SortFunc(rows[i].Flows, func(x, y UnsentFlow) int {
			return cmp.Or(cmp.Compare(y.Packets, x.Packets), cmp.Compare(x.String(), y.String()))
		})
	}
	slices.SortFunc(rows, func(x, y Unsent) int {
		return cmp.Or(cmp.Compare(y.Packets, x.Packets), cmp.Compare(x.Node, y.Node), cmp.Compare(x.Reason, y.Reason))
	})
	return rows
}

// unsentRecord is the newest of such packets as a record, for filters to choose by.
func (r *Ring) unsentRecord(u *datapath.Unsent) *record.Record {
	node := r.Decoder.NodeName(r.Decoder.PortNode(u.Port))
	reason, function := r.Decoder.Why(u.Where)
	rec := &record.Record{
		V: record.Version, Source: record.EBPF, State: record.Lost, TNs: int64(u.LastNs) + r.Decoder.WallOffset(),
		IPVersion: 4, Src: u.Src.String(), Dst: u.Dst.String(), Proto: record.ProtoName(u.Proto), Segs: 1,
		Hops: []record.Hop{{Node: node, Port: r.Decoder.PortName(u.Port), Role: record.Source}},
		Loss: &record.Loss{Node: node, Port: r.Decoder.PortName(u.Port), At: record.AtNode, Reason: reason, Function: function},
	}
	if u.Src.Is6() {
		rec.IPVersion = 6
	}
	if u.Dport != 0 {
		port := int(u.Dport)
		rec.Dport = &port
	}
	return rec
}
