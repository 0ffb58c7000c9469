// SPDX-License-Identifier: Apache-2.0

package explain

import "github.com/vnetradar/radar/pkg/record"

// Why is why data was sent again.
type Why string

// The reasons. All but the first two are spurious: the data had arrived, or would have.
const (
	WasLost    Why = "lost"          // on its way
	WasDropped Why = "dropped"       // after delivery, by the receiver's node
	Overtaken  Why = "reordered"     // later packets came first
	WasSlow    Why = "delayed"       // it came after it had been sent again
	AckLost    Why = "ack_lost"      // it came, and its acknowledgement was lost
	AckSlow    Why = "ack_delayed"   // the same, and its acknowledgement came too late
	NoAck      Why = "no_ack"        // it came, and the receiver had not acknowledged it yet
	BehindLoss Why = "behind_loss"   // it came, but not one before it: a timeout sends all of them again
	TooLate    Why = "just_acked"    // the acknowledgement came as it was sent again
	NotKnown   Why = "not_known"     // what became of it is not known
	NotThere   Why = "original_gone" // of what was sent first there is no record
)

// resend is data that was sent again.
type resend struct {
	at        int64
	id        string
	seq       int64 // from the first byte that was seen
	bytes     int
	segs      int
	why       Why
	originals []string
	lost      int // packets of the originals that were lost or dropped
	loss      *record.Loss
	part      partTime // that took most of the original's time
	after     int64    // ns since the original was sent
	took      int64    // ns that the original took; -1: not known
	ack       string   // the acknowledgement that was lost, or late
}

// resends are those of one direction.
type resends struct {
	counts map[Why]uint64 // packets
	list   []resend
	more   uint64 // that there was no room for
}

// maxResends is how many are listed. All are counted.
const maxResends = 2000

// sendAgain notes data of which a part was sent before.
func (h *half) sendAgain(p *sent) {
	var before []*sent
	for _, o := range h.out.put(p) {
		if o.at < p.at { // segments of a train have the same time
			before = append(before, o)
		}
	}
	if len(before) == 0 && p.seq >= h.una {
		if p.seq >= h.base {
			return
		}
	}
	if p.resent = true; p.fate == lost || p.fate == dropped {
		h.tries++
	}
	h.again += uint64(p.segs)
	h.againBytes += uint64(p.end - p.seq)
	r := resend{at: p.at, id: p.id, seq: p.seq - h.base, bytes: p.payload, segs: p.segs, took: -1}
	for _, o := range before {
		o.again = true
		if r.originals = append(r.originals, o.id); r.after == 0 {
			r.after = p.at - o.at
		}
	}
	h.whyAgain(&r, p, before)
	if h.resends.counts == nil {
		h.resends.counts = make(map[Why]uint64)
	}
	h.resends.counts[r.why] += uint64(p.segs)
	if len(h.resends.list) < maxResends {
		h.resends.list = append(h.resends.list, r)
	} else {
		h.resends.more++
	}
}

// whyAgain finds out why p was sent again.
func (h *half) whyAgain(r *resend, p *sent, before []*sent) {
	for _, o := range before {
		if o.fate != lost && o.fate != dropped {
			continue
		}
		if r.lost += o.segs; r.loss == nil {
			r.loss, r.why = o.loss, WasLost
			if o.fate == dropped {
				r.why = WasDropped
			}
		}
	}
	switch {
	case r.loss != nil:
		return
	case len(before) == 0 && p.end <= h.una:
		r.why = TooLate
		return
	case len(before) == 0:
		r.why = NotThere
		return
	}
	o := before[0]
	if o.fate != arrived || o.arrival < 0 {
		r.why = NotKnown
		return
	}
	r.took = o.arrival - o.at
	for _, t := range o.parts {
		if t.ns > r.part.ns {
			r.part = t
		}
	}
	h.whySpurious(r, p, o)
}

// whySpurious finds out why p was sent again although o has arrived, or was to arrive.
func (h *half) whySpurious(r *resend, p, o *sent) {
	switch {
	case o.overtaken, o.arrival > p.at && h.came > o.end:
		r.why = Overtaken
		return
	case o.arrival > p.at:
		r.why = WasSlow
		h.wasSlow(o.at, o.arrival, r.part)
		return
	}
	ack := h.acks.first(o.arrival, o.end)
	switch {
	case ack == nil && h.una < h.lostTo && h.una < o.seq:
		r.why = BehindLoss
	case ack == nil:
		r.why = NoAck
	case ack.fate == lost || ack.fate == dropped:
		r.why, r.loss, r.ack = AckLost, ack.loss, ack.id
		h.ackTo = max(h.ackTo, p.end)
		if since := max(ack.at, h.ackWaited); p.at > since {
			h.ackWait += p.at - since
		}
		h.ackWaited = p.at
	case ack.arrival > p.at:
		r.why, r.ack, r.took = AckSlow, ack.id, ack.arrival-ack.at
		r.part = partTime{}
		for _, t := range ack.parts {
			if t.ns > r.part.ns {
				r.part = t
			}
		}
		h.wasSlow(o.at, ack.arrival, r.part)
	default:
		r.why, r.ack = TooLate, ack.id
	}
}

// wasSlow notes for how long data, or its acknowledgement, was under way that was sent again meanwhile.
func (h *half) wasSlow(from, to int64, in partTime) {
	if from = max(from, h.slowUntil); to > from && to-from < longest {
		h.slow += to - from
		h.slowUntil = to
	}
	if in.ns > h.slowIn.ns {
		h.slowIn = in
	}
}

// ackLog has the newest acknowledgements that the receiver sent.
type ackLog struct {
	list [maxAcks]*sent
	n    int
}

// maxAcks is how many: as many as can be under way, or nearly.
const maxAcks = 1 << 12

func (l *ackLog) add(p *sent) {
	l.list[l.n%maxAcks] = p
	l.n++
}

// first is the first acknowledgement of all up to end that was sent at the time, or later; nil: none was.
func (l *ackLog) first(at, end int64) (found *sent) {
	for i := l.n - 1; i >= 0 && i >= l.n-maxAcks; i-- {
		p := l.list[i%maxAcks]
		if p.at < at {
			break
		}
		if p.ack >= end {
			found = p
		}
	}
	return found
}
