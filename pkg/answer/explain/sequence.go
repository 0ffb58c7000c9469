// SPDX-License-Identifier: Apache-2.0

package explain

import "github.com/vnetradar/radar/pkg/packet"

// MostMoments is how many moments of one direction are kept.
const MostMoments = 20_000

// MomentKind is what happened at a moment.
type MomentKind string

// The kinds: data that the sender sent, for the first time or again, and an acknowledgement that came to it.
const (
	SentData MomentKind = "data"
	SentMore MomentKind = "retransmission"
	GotAck   MomentKind = "ack"
)

// Moment is one of a connection's, at its sender.
type Moment struct {
	Kind   MomentKind `json:"kind"`
	TNs    int64      `json:"t_ns"`
	Seq    int64      `json:"seq"`              // from the direction's first byte: the first byte, or the one that is acknowledged
	End    int64      `json:"end"`              // behind the last byte; of an acknowledgement the end of the window
	Lost   bool       `json:"lost,omitempty"`   // on the way, or after delivery
	ID     string     `json:"id"`               // of the packet
	Window *int64     `json:"window,omitempty"` // of an acknowledgement, bytes; 0: it is closed
	syn    bool
}

// Sequence is what happened at the sender, in order of time.
type Sequence struct {
	Moments []Moment
	More    uint64 // later ones, that there was no room for
	Scaled  bool   // the scale of windows is known
}

// trace are the moments of one direction; nil: nobody asks for them.
type trace struct {
	list []Moment
	more uint64
}

func (t *trace) add(m Moment) {
	if len(t.list) >= MostMoments {
		t.more++
		return
	}
	t.list = append(t.list, m)
}

// traceSent notes what was sent.
func (h *half) traceSent(p *sent) {
	if h.trace == nil || p.end == p.seq {
		return
	}
	m := Moment{Kind: SentData, TNs: p.at, Seq: p.seq - h.base, End: p.end - h.base, Lost: p.fate == lost || p.fate == dropped, ID: p.id}
	if p.resent {
		m.Kind = SentMore
	}
	h.trace.add(m)
}

// traceAck notes an acknowledgement that came.
func (h *half) traceAck(p *sent) {
	if h.trace == nil || p.flags&packet.TCPRst != 0 {
		return
	}
	window := int64(p.window)
	h.trace.add(Moment{Kind: GotAck, TNs: p.arrival, Seq: p.ack - h.base, Window: &window, ID: p.id, syn: p.flags&packet.TCPSyn != 0})
}

// sequence is what was noted, with windows in bytes.
func (h *half) sequence() *Sequence {
	if h.trace == nil {
		return nil
	}
	s := &Sequence{Moments: h.trace.list, More: h.trace.more, Scaled: h.window.handshake()}
	for i := range s.Moments {
		m := &s.Moments[i]
		if m.Kind != GotAck {
			continue
		}
		if !m.syn {
			*m.Window <<= h.window.shift()
		}
		m.End = m.Seq + *m.Window
	}
	return s
}
