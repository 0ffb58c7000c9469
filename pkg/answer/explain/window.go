// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"math"

	"github.com/vnetradar/radar/pkg/aggregate"
	"github.com/vnetradar/radar/pkg/packet"
)

// state is what a sender waits for.
type state uint8

const (
	sending  state = iota // the network: it may send as fast as its congestion control lets it
	recovery              // a packet that was lost, or its acknowledgement
	full                  // the receiver's window, which is open and used up
	closed                // the receiver's window, which is closed
	idle                  // its application: nothing is in flight
	short                 // its application: all that there was is in flight
	states
)

// scales are how far a window can be shifted: 0 to 14 (RFC 7323, 2.3).
const scales = 15

// window is the one that the receiver offers, as the sender knows it. What it is in bytes depends on a scale that
// stands in the options of SYNs, which records lack. All scales are tried at once.
type window struct {
	known  bool
	raw    int64
	most   int64 // of raw, without SYNs'
	ack    int64 // that it begins at
	syn    bool  // raw is a SYN's: it is not scaled
	synRaw int64 // 0: no SYN was seen
	scale  int   // from a SYN's and the one after it; -1: not known
	tried  bool

	least int // the scale without which more was in flight than the window allows
	sizes aggregate.Distribution
	from  int64
	// times are how long the sender was in which state, by scale; with near a window counts as used up if there is
	// room for a third of it: a sender puts trains together.
	times, near [scales][states]int64
	closedFrom  int64
	// timesTo, nearTo are what times and near were when all data had been acknowledged, if over: what follows is no time of a transfer,
	// unless more data is sent.
	over            bool
	timesTo, nearTo [scales][states]int64
}

// end notes that all data has been acknowledged.
func (w *window) end() { w.over, w.timesTo, w.nearTo = true, w.times, w.near }

// update takes the window of a packet that has come to the sender.
func (w *window) update(p *sent, ack int64) {
	raw := int64(p.window)
	w.known, w.raw, w.ack, w.syn = true, raw, ack, p.flags&packet.TCPSyn != 0
	if w.syn {
		return
	}
	w.most = max(w.most, raw)
	w.sizes.Add(raw)
}

// note learns the scale from what the receiver's side sends: a SYN's window is not scaled, the next one is.
func (w *window) note(p *sent) {
	switch {
	case p.flags&packet.TCPSyn != 0:
		w.synRaw = int64(p.window)
	case p.flags&packet.TCPRst != 0 || p.window == 0 || w.tried:
	default:
		w.tried, w.scale = true, -1
		if w.synRaw > 0 {
			w.scale = max(0, min(scales-1, int(math.Round(math.Log2(float64(w.synRaw)/float64(p.window))))))
		}
	}
}

// beyond raises the least scale, if the sender has sent up to nxt.
func (w *window) beyond(nxt int64) {
	if !w.known || w.syn {
		return
	}
	for w.least < scales-1 && nxt-w.ack > w.raw<<w.least+1 && w.raw > 0 {
		w.least++
	}
}

// handshake reports whether the scale is that of the handshake, and fits what was sent.
func (w *window) handshake() bool { return w.tried && w.scale >= w.least }

// shift is the scale as far as it is known.
func (w *window) shift() int {
	if w.handshake() {
		return w.scale
	}
	return w.least
}

// spent are how long the sender was in which state.
func (w *window) spent() *[states]int64 {
	times, near := &w.times, &w.near
	if w.over {
		times, near = &w.timesTo, &w.nearTo
	}
	if s := w.shift(); w.handshake() {
		// Room for a third of the window is no room only where the window is also met exactly.
		if exact := &times[s]; exact[full]*5 >= near[s][full] {
			return &near[s]
		}
	}
	return &times[w.shift()]
}

// isFull reports whether the window has no room for another packet.
func (w *window) isFull(h *half) bool {
	return w.known && !w.syn && w.ack+w.raw<<w.shift()-h.nxt < int64(max(h.mss, 1))
}

// tick adds the time until now to the state that the sender was in.
func (h *half) tick(now int64) {
	w := &h.window
	from := w.from
	spent := now - from
	if h.first == 0 || spent <= 0 {
		return
	}
	w.from = now
	if spent >= longest {
		return
	}
	h.tickClosed(from)
	for s := range scales {
		w.times[s][h.state(s, 1)] += spent
		w.near[s][h.state(s, 3)] += spent
	}
}

// state is what the sender waits for, if windows are shifted by scale. A window counts as used up with room for less
// than a packet, or for less than one of parts of it.
func (h *half) state(scale int, parts int64) state {
	w := &h.window
	mss := int64(max(h.mss, 1))
	size, most := w.raw<<scale, w.most<<scale
	if w.syn {
		size, most = w.raw, w.raw
	}
	room := w.ack + size - h.nxt
	least := mss
	if parts > 1 {
		least = max(mss, min(size/parts, 1<<16))
	}
	switch {
	case w.known && size < max(min(mss, most/2), 1):
		return closed
	case h.recovers():
		return recovery
	case h.nxt > h.una && w.known && room < least:
		return full
	case h.nxt == h.una:
		return idle
	case h.tail:
		return short
	}
	return sending
}

// tickClosed measures for how long the window stays closed; from is since when it is as it is. A window below an eighth
// of its largest is as good as closed, whatever the scale is.
func (h *half) tickClosed(from int64) {
	w := &h.window
	isClosed := w.known && !w.syn && w.raw*8 < w.most && w.raw<<w.shift() < int64(max(h.mss, 1))
	switch {
	case isClosed && w.closedFrom == 0:
		w.closedFrom = from
	case !isClosed && w.closedFrom > 0:
		h.closes(from - w.closedFrom)
	}
}

// brief is how long a window is closed at most whose receiver reads at once, ns.
const brief = 2e6

// closes notes for how long the window was closed.
func (h *half) closes(ns int64) {
	h.closings.Add(ns)
	if h.window.closedFrom = 0; ns > brief {
		h.shut += ns
	}
}

// endClosing ends a time with a closed window at the last that is known.
func (h *half) endClosing() {
	if w := &h.window; w.closedFrom > 0 {
		h.closes(w.from - w.closedFrom)
	}
}
