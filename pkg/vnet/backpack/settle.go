// SPDX-License-Identifier: Apache-2.0

package backpack

import (
	"time"

	"github.com/vnetradar/radar/pkg/record"
)

// entry is a packet, or a train under its head, that is not final.
type entry struct {
	pos  uint64
	due  uint64 // CLOCK_MONOTONIC ns: look again from then on
	segs uint8  // of the train
	left uint8  // segments not handed out yet
}

// segments is a set of segments of one train.
type segments [4]uint64

func (s *segments) has(k uint8) bool { return s[k/64]&(1<<(k%64)) != 0 }
func (s *segments) add(k uint8)      { s[k/64] |= 1 << (k % 64) }

// take reads one position that no CPU holds for the first time. Positions below quiet
// are not counted as unread.
func (f *Follower) take(pos, quiet uint64) {
	if !f.once && !f.pressed(pos) {
		// A packet that is not due cannot be final: it is only kept, and looked at later.
		g := f.ring.peek(f.ring.Index(pos))
		if due := g.t0 + uint64(f.opts.Settle); g.pos == pos && g.seg == 0 && due > f.pollNow {
			segs := max(g.segs, 1)
			f.train = Range{pos, pos + uint64(segs)}
			f.pending = append(f.pending, entry{pos: pos, due: due, segs: segs, left: segs})
			return
		}
	}
	seen, torn, ok := f.ring.read(pos, &f.head)
	switch {
	case torn:
		f.stats.Torn++
	case !ok:
		// A newer position: this one may have been used. An older one, or none: it is an
		// unfilled member of a train, or was skipped. If the slot has been given away since,
		// it is not known.
		if pos >= quiet && !f.train.has(pos) && (seen > pos || pos < f.behind(f.cursor)) {
			f.stats.Unread++
		}
	default:
		h := f.head.fields()
		if h.Seg == 0 {
			f.train = Range{pos, pos + uint64(h.Segs)}
		}
		if h.Seg > 0 && !f.ring.orphan(pos, h.Seg) {
			return // its head has its story
		}
		if e, more := f.examine(entry{pos: pos}); more {
			f.pending = append(f.pending, e)
		}
	}
}

// repeat looks again at packets that were not final.
func (f *Follower) repeat() {
	const least = 1024 // entries whose memory is not worth giving back
	f.most = max(len(f.pending), f.most-f.most/8)
	if cap(f.pending) > max(4*f.most, least) {
		f.pending = append(make([]entry, 0, f.most), f.pending...) // a burst is over: give its memory back
	}
	keep := f.pending[:0]
	for _, e := range f.pending {
		if e.due > f.pollNow && !f.once && !f.pressed(e.pos) {
			keep = append(keep, e)
			continue
		}
		if _, torn, ok := f.ring.read(e.pos, &f.head); !ok {
			f.moves++
			if !f.ring.withdrawn(e.pos) {
				f.overwritten(e, torn)
			}
			continue
		}
		if e, more := f.examine(e); more {
			keep = append(keep, e)
		}
	}
	f.pending = append(keep, f.orphans...)
	f.orphans = nil // seldom any
}

// pressed reports whether the slot of pos may soon be reused: then an end that has not
// settled is better than none.
func (f *Follower) pressed(pos uint64) bool {
	return f.cursor > pos && f.cursor-pos > f.ring.slots/4*3
}

// examine hands out what is final of the packet copied to f.head. more reports whether
// something is left, which the returned entry is for.
func (f *Follower) examine(e entry) (_ entry, more bool) {
	h := f.head.fields()
	e.segs, e.left = 1, 1
	switch {
	case h.Seg > 0 && h.Nev == 0:
		// An orphan without events of its own: its story was the head's.
		f.stats.Unread++
		return e, false
	case h.Seg > 0:
		e.due, more = f.settle(nil, &f.head)
		return e, more
	case h.Cut&cutTrain == 0 && f.passOver():
		f.moves++
		return e, false
	case h.Segs <= 1:
		e.due, more = f.settle(&f.head, nil)
		return e, more
	}
	e.segs, e.left = h.Segs, h.Segs
	if h.Cut&cutTrain == 0 {
		e.due, more = f.settle(&f.head, nil)
		return e, more
	}
	return f.examineParts(e)
}

// passOver reports whether the packet copied to f.head is not asked for, and will not be: it
// has arrived, and its end has settled.
func (f *Follower) passOver() bool {
	h := f.head.fields()
	if f.choice.Flow == nil || h.State&(stDone|stLost) != stDone {
		return false
	}
	log := f.head.brief()
	if !log.straight {
		return false // a copy may be in flight
	}
	settled := h.T0Ns+log.last+uint64(f.opts.Settle) <= f.pollNow || f.once || f.pressed(h.Pos)
	return settled && f.choice.refuses(&f.head, log)
}

// examineParts is examine for a train that was cut: each segment ends alone.
func (f *Follower) examineParts(e entry) (_ entry, more bool) {
	done := f.parts[e.pos]
	if done == nil {
		done = new(segments)
		f.parts[e.pos] = done
	}
	e.left, e.due = 0, ^uint64(0)
	for k := range e.segs {
		if done.has(k) {
			continue
		}
		var member *slot
		if k > 0 {
			member = &f.member
			if torn, ok := f.readMember(e.pos, k, member); !ok {
				f.gone(torn)
				done.add(k)
				continue
			}
		}
		due, open := f.settle(&f.head, member)
		if !open {
			done.add(k)
			continue
		}
		e.left++
		e.due = min(e.due, due)
	}
	if e.left == 0 {
		delete(f.parts, e.pos)
	}
	return e, e.left > 0
}

func (f *Follower) readMember(head uint64, k uint8, s *slot) (torn, ok bool) {
	_, torn, ok = f.ring.read(head+uint64(k), s)
	return torn, ok && s.fields().Seg == k
}

// overwritten ends an entry whose slot is gone. Other segments of its train may
// still be there, with what happened to them alone.
func (f *Follower) overwritten(e entry, torn bool) {
	done := f.parts[e.pos]
	if done == nil {
		done = new(segments)
	}
	delete(f.parts, e.pos)
	if !done.has(0) {
		f.gone(torn)
	}
	for k := uint8(1); k < e.segs; k++ {
		if done.has(k) {
			continue
		}
		if torn, ok := f.readMember(e.pos, k, &f.head); !ok {
			f.gone(torn)
		} else if rest, more := f.examine(entry{pos: e.pos + uint64(k)}); more {
			f.orphans = append(f.orphans, rest)
		}
	}
}

// gone counts a packet that can no longer be read.
func (f *Follower) gone(torn bool) {
	if torn {
		f.stats.Torn++
	} else {
		f.stats.Unread++
	}
}

// settle decodes a packet and hands it out if it is final; else it returns when to look
// again, CLOCK_MONOTONIC ns.
func (f *Follower) settle(head, member *slot) (due uint64, open bool) {
	f.decode(head, member)
	p := &f.story
	settle := uint64(f.opts.Settle)
	switch p.State {
	case record.InFlight:
		// The longer it takes, the less it matters to know at once.
		age := f.pollNow - min(p.T0, f.pollNow)
		again := f.pollNow + min(age/8, uint64(time.Second))
		expiry := p.T0 + f.dec.timeoutNs + settle
		return max(f.pollNow, min(again, expiry)), true
	case record.Expired:
		due = p.T0 + f.dec.timeoutNs + settle
	default:
		if p.held {
			settle = uint64(f.opts.Hold)
		}
		due = p.T0 + uint64(p.LastNs) + settle
		if f.once || f.pressed(p.Pos) {
			due = f.pollNow
		}
	}
	if due > f.pollNow {
		return due, true
	}
	if p.Missing && !f.asked && f.opts.Moves != nil {
		f.asked = true
		f.opts.Moves()
		return f.settle(head, member)
	}
	f.moves++
	if f.choice.wants(&p.Packet) {
		f.emit(&p.Packet)
	}
	return 0, false
}

// decode fills f.story, with a new description if it names ports that the old one
// lacks.
func (f *Follower) decode(head, member *slot) {
	f.dec.unlisted = false
	f.dec.decode(&f.story, head, member, f.pollNow)
	if !f.dec.unlisted || f.refreshed || f.opts.Refresh == nil {
		return
	}
	f.refreshed = true
	dom, err := f.opts.Refresh()
	if err != nil {
		f.err = err
		return
	}
	f.dec.SetDomain(dom)
	f.dec.decode(&f.story, head, member, f.pollNow)
}
