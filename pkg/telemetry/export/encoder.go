// SPDX-License-Identifier: Apache-2.0

package export

import (
	"errors"
	"fmt"
	"slices"

	"github.com/vnetradar/radar/pkg/intwire"
	"github.com/vnetradar/radar/pkg/record"
)

// Version is that of the reports, and of INT in what they quote.
type Version uint8

// The versions.
const (
	TR20 Version = iota // with INT 2.1
	TR10                // with INT 1.0
)

// Marks that are used if nothing else is said. No port is assigned; 5000 and 0x17 are what
// others use.
const (
	DefaultPort = 5000
	DefaultDSCP = 0x17
)

// hwID is the hw_id of all reports (TR 1.0, 2.0): a virtual node has no parts that count by
// themselves.
const hwID = 0

// Counts are what became of packets. Reports, Drops and what has no report (from InFlight on)
// count ways of copies, all others packets.
type Counts struct {
	Packets  uint64 `json:"packets"`  // that were to be reported
	Reported uint64 `json:"reported"` // of which there was a report
	Reports  uint64 `json:"reports"`
	Drops    uint64 `json:"drop_reports"` // of these: with the D bit

	InFlight uint64 `json:"in_flight"` // no report: not ended
	Expired  uint64 `json:"expired"`   // no report: nobody saw them end
	Ignored  uint64 `json:"ignored"`   // no report: came to nobody who wanted them
	NoHeader uint64 `json:"no_header"` // no report: nothing of the header is known
	NoHops   uint64 `json:"no_hops"`   // no report: no node is known
	Failed   uint64 `json:"failed"`    // no report: a value did not fit

	Truncated      uint64 `json:"truncated"`      // a part of their way may be missing
	Branched       uint64 `json:"branched"`       // with copies: a report for each
	Trains         uint64 `json:"trains"`         // reports that stand for several packets
	TrainPackets   uint64 `json:"train_packets"`  // which are so many
	Translated     uint64 `json:"translated"`     // reports that quote what NAT made of the packet
	NoStack        uint64 `json:"no_stack"`       // ways by a report for each node: the packet cannot carry a stack
	Split          uint64 `json:"split"`          // ways too long for one stack
	UnknownNodes   uint64 `json:"unknown_nodes"`  // hops and drops at nodes that are not known
	UnknownReasons uint64 `json:"unknown_reason"` // drops whose reason has no number
}

// Encoder makes reports. It is for one goroutine.
type Encoder struct {
	Version Version
	PerHop  bool // INT-XD: one report for each node, no stack
	Mark    Mark
	Numbers *Numbers
	Counts  Counts

	next map[uint32]uint32 // sequence numbers, by node id
	emit func([]byte)
	hops []intwire.Hop // of a way, the source first
	top  []intwire.Hop // of a stack, the newest first
	buf  []byte        // a report
	in   []byte        // INT
	body []byte        // a quoted packet
}

// NewEncoder makes an encoder; a zero mark is the version's default. INT 1.0 has no mark by
// port.
func NewEncoder(version Version, mark Mark, n *Numbers) (*Encoder, error) {
	if mark == (Mark{}) {
		mark = Mark{Port: DefaultPort}
		if version == TR10 {
			mark = Mark{DSCP: DefaultDSCP}
		}
	}
	switch {
	case mark.Port != 0 && version == TR10:
		return nil, errors.New("INT 1.0 is not marked by a port: use a DSCP")
	case mark.DSCP > 63:
		return nil, fmt.Errorf("DSCP %d: use 1 to 63", mark.DSCP)
	}
	return &Encoder{Version: version, Mark: mark, Numbers: n, next: make(map[uint32]uint32)}, nil
}

// Encode calls emit for each report about the packet, the payload of one UDP datagram, valid
// during the call only. Reports of one packet follow each other, source first. Their sequence
// numbers count by node and are the same for every destination (TR 2.0, "Sequence Number": per
// node id, hw_id and destination): who emits one, sends it to all.
func (e *Encoder) Encode(r *record.Record, emit func(report []byte)) {
	e.Counts.Packets++
	before := e.Counts.Reports
	e.emit = emit
	for _, b := range e.Counts.branches(r) {
		e.branch(r, b)
	}
	if e.Counts.Reports > before {
		e.Counts.Reported++
		if r.Truncated {
			e.Counts.Truncated++
		}
	}
}

// branch reports one way.
func (e *Encoder) branch(r *record.Record, b branch) {
	last := len(b.hops) - 1
	v, ok := viewAt(r, b.hops, last)
	switch {
	case !ok:
		e.Counts.NoHeader++
		return
	case last < 0 && b.loss == nil:
		e.Counts.NoHops++
		return
	}
	c := e.carrier(r, &v)
	if c == noCarrier && !e.PerHop {
		e.Counts.NoStack++
	}
	if c == noCarrier || e.PerHop || last < 0 {
		e.perHop(r, b)
		return
	}
	e.stacked(r, b, c)
}

// layout is that of INT in what is quoted.
func (e *Encoder) layout() intwire.Format {
	if e.Version == TR10 {
		return intwire.INT10
	}
	return intwire.INT20
}

// mostStack is how many words of a stack the length of the shim can count, beside the INT header
// (INT 2.x: 3 words; 1.0: 2, and the shim itself).
const mostStack = 252

// stacked reports a way as its sink does, or the node that dropped the packet: all hops are in
// the stack (INT 2.1: a sink may put its own metadata there), the newest first. If that is too
// long, nodes on the way have reported what there was, and begun anew (intermediate reports).
func (e *Encoder) stacked(r *record.Record, b branch, c carrier) {
	e.hops = e.hops[:0]
	for _, i := range b.hops {
		e.hops = append(e.hops, intwire.Hop{Values: e.values(r, i, b.lossAt(r, i))})
	}
	level2(e.hops)
	bitmap := intwire.Bitmap(e.layout(), intwire.Of(intwire.NodeID)) // also if none is known: a hop has words
	for i := range e.hops {
		bitmap |= intwire.Bitmap(e.layout(), e.hops[i].Has)
	}
	most := mostStack / intwire.Words(e.layout(), bitmap, 0)
	if len(e.hops) > most {
		e.Counts.Split++
	}
	for from := 0; from < len(e.hops); from += most {
		to := min(from+most, len(e.hops))
		v, _ := viewAt(r, b.hops, to-1)
		in := intwire.INT{
			Shim:   c.shim(&v, e.layout()),
			Header: intwire.Header{Layout: e.layout(), Type: intwire.TypeMD, Bitmap: bitmap, RemainingHops: uint8(most - (to - from))},
		}
		e.top = append(e.top[:0], e.hops[from:to]...)
		slices.Reverse(e.top)
		in.Hops = e.top
		var err error
		if e.in, err = intwire.AppendINT(e.in[:0], &in); err != nil {
			e.Counts.Failed++
			return
		}
		h := &r.Hops[b.hops[to-1]]
		rep := report{node: e.Numbers.Node(h.Node, h.NodeID), at: ingressOf(&e.hops[to-1].Values, r), intermediate: to < len(e.hops)}
		if !rep.intermediate && b.loss != nil {
			e.drop(&rep, r, b)
		}
		e.body = e.appendQuote(e.body[:0], r, &v, c, e.in)
		e.send(r, &v, &rep)
	}
}

// perHop reports a way by a report of each node, with its metadata in the report (INT-XD).
func (e *Encoder) perHop(r *record.Record, b branch) {
	for n, i := range b.hops {
		loss := b.lossAt(r, i)
		h, v := &r.Hops[i], e.values(r, i, loss)
		rep := report{node: e.Numbers.Node(h.Node, h.NodeID), at: ingressOf(&v, r), values: v}
		if rep.values.Has.Has(intwire.L1In) {
			without(&rep.values, intwire.L2In, intwire.L2Out)
		}
		if loss != nil {
			e.drop(&rep, r, b)
		}
		e.card(r, b, n, &rep)
	}
	if n := len(b.hops); b.loss != nil && !b.lostAtLast(r) {
		rep := report{at: uint64(r.TNs)}
		e.drop(&rep, r, b)
		e.card(r, b, n, &rep)
	}
}

// card emits the report of the node at n of the way, without a stack.
func (e *Encoder) card(r *record.Record, b branch, n int, rep *report) {
	v, _ := viewAt(r, b.hops, n)
	e.body = e.appendQuote(e.body[:0], r, &v, noCarrier, nil)
	e.send(r, &v, rep)
}
