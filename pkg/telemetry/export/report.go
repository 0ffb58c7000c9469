// SPDX-License-Identifier: Apache-2.0

package export

import (
	"github.com/vnetradar/radar/pkg/intwire"
	"github.com/vnetradar/radar/pkg/record"
)

// report is what a report says itself, beside what it quotes.
type report struct {
	node         uint32
	at           uint64 // when the packet came in, Unix ns; TR 1.0 must say
	values       intwire.Values
	dropped      bool
	intermediate bool
}

// ingressOf is the time of ingress, or what is nearest to it: of a packet that the node made,
// when it went out; else when it set out.
func ingressOf(v *intwire.Values, r *record.Record) uint64 {
	for _, f := range [...]intwire.Field{intwire.IngressTS, intwire.EgressTS} {
		if t, ok := v.Get(f); ok {
			return t
		}
	}
	return uint64(r.TNs)
}

// drop makes the report that of the node which dropped the packet. If no hop of the way is that
// node's, the port is all that is known of its own.
func (e *Encoder) drop(rep *report, r *record.Record, b branch) {
	l := b.loss
	rep.dropped = true
	if !b.lostAtLast(r) {
		id := e.Numbers.Node(l.Node, 0)
		if id == Unknown {
			e.Counts.UnknownNodes++
		}
		rep.node, rep.values = id, intwire.Values{}
		in, out := e.Numbers.Port(l.Node, 0, l.Port), uint32(0)
		if l.At == record.AtEgress || l.At == record.AtQueue {
			in, out = 0, in
		}
		e.ports(&rep.values, in, out)
		if rep.values.Has.Has(intwire.L1In) {
			without(&rep.values, intwire.L2In, intwire.L2Out)
		}
	}
	number, ok := DropReason(l.Reason, r.IPVersion)
	if !ok {
		e.Counts.UnknownReasons++
	}
	rep.values.Set(intwire.DropQueueID, 0) // queues of a port are not told apart
	rep.values.Set(intwire.DropReason, uint64(number))
}

// send emits a report with the packet e.body, which v saw.
func (e *Encoder) send(r *record.Record, v *view, rep *report) {
	var err error
	if e.Version == TR10 {
		e.buf, err = e.report10(rep, v)
	} else {
		e.buf, err = e.report20(rep, v)
	}
	if err != nil {
		e.Counts.Failed++
		return
	}
	e.next[rep.node]++
	e.Counts.Reports++
	if rep.dropped {
		e.Counts.Drops++
	}
	if r.Segs > 1 {
		e.Counts.Trains++
		e.Counts.TrainPackets += uint64(r.Segs)
	}
	if v.translated(r) {
		e.Counts.Translated++
	}
	e.emit(e.buf)
}

// report20 is a group of one report (TR 2.0). What is not known has its bit clear.
func (e *Encoder) report20(rep *report, v *view) ([]byte, error) {
	s := intwire.Single{
		RepType: 1, InType: intwire.InnerIPv4, D: rep.dropped, F: true, I: rep.intermediate,
		RepMdBits: intwire.Bitmap(intwire.TR20, rep.values.Has), Values: rep.values, Inner: e.body,
	}
	if !v.src.Is4() {
		s.InType = intwire.InnerIPv6
	}
	b, err := intwire.AppendGroup(e.buf[:0], &intwire.Group{HwID: hwID, Sequence: e.next[rep.node] & (1<<22 - 1), NodeID: rep.node})
	if err != nil {
		return b, err
	}
	return intwire.AppendSingle(b, &s)
}

// report10 is a report of TR 1.0.
func (e *Encoder) report10(rep *report, v *view) ([]byte, error) {
	t := intwire.Report{
		Layout: intwire.Report10, NProto: intwire.InnerIPv4 - intwire.InnerEthernet, D: rep.dropped, F: true, HwID: hwID,
		RepMdBits: uint8(intwire.Bitmap(intwire.TR10, rep.values.Has) >> 10), Values: rep.values,
		SwitchID: rep.node, Sequence: e.next[rep.node], IngressTS: uint32(rep.at), Inner: e.body,
	}
	if !v.src.Is4() {
		t.NProto = intwire.InnerIPv6 - intwire.InnerEthernet
	}
	return intwire.AppendReport10(e.buf[:0], &t)
}
