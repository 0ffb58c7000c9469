// SPDX-License-Identifier: Apache-2.0

package backpack

import (
	"cmp"
	"slices"
	"time"

	"github.com/vnetradar/radar/pkg/host/clock"
	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
)

// ScanOptions select what a scan shows.
type ScanOptions struct {
	Last  int           // the newest of those that match; 0: all
	Since time.Duration // only packets that began this long ago or later; 0: all
	Select
	Now func() uint64 // CLOCK_MONOTONIC in ns; nil: the real clock
}

// ScanStats counts what a scan met.
type ScanStats struct {
	Slots  int    // slots in use: packets and segments of trains
	Torn   int    // slots that were overwritten while they were read
	Oldest uint64 // first stamp of the oldest packet, even if it does not match; 0: none
	// Forgot is set if the ring has come round: there were packets before Oldest.
	Forgot bool
}

// Scan returns the packets that the ring remembers, oldest first. Each takes about a
// kilobyte: for a large ring give Last, or use ScanFunc.
func Scan(src Source, dec *Decoder, o ScanOptions) ([]record.Record, ScanStats, error) {
	var recs []record.Record
	stats, err := ScanFunc(src, dec, o, func(r *record.Record) error {
		recs = append(recs, *r)
		return nil
	})
	return recs, stats, err
}

// ScanFunc calls fn for each packet that the ring remembers, oldest first. It stops
// at fn's error and returns it. fn may keep the record.
func ScanFunc(src Source, dec *Decoder, o ScanOptions, fn func(*record.Record) error) (ScanStats, error) {
	return scan(src, dec, o, func(p *packet.Packet) error {
		r := dec.Record(p)
		return fn(&r)
	})
}

// ScanPackets is ScanFunc for packets as numbers. A Packet is valid during the call
// only.
func ScanPackets(src Source, dec *Decoder, o ScanOptions, fn func(*packet.Packet)) ScanStats {
	stats, _ := scan(src, dec, o, func(p *packet.Packet) error { // which does not fail
		fn(p)
		return nil
	})
	return stats
}

func scan(src Source, dec *Decoder, o ScanOptions, emit func(*packet.Packet) error) (ScanStats, error) {
	s := newScanner(src, dec, &o)
	candidates, older := s.sorted(o), 0
	switch {
	case o.Last == 0 || o.Last >= s.stats.Slots: // there are no more than that
	case o.Last <= maxKept:
		found := s.kept(candidates, o.Last)
		for i := range found {
			if err := emit(&found[i]); err != nil {
				return s.stats, err
			}
		}
		return s.stats, nil
	default:
		candidates, older = s.newest(candidates, o.Last)
		s.stats.Torn = 0 // they are counted as they are shown
	}
	s.emit = func(p *packet.Packet) error {
		if older > 0 {
			older--
			return nil
		}
		return emit(p)
	}
	for _, c := range candidates {
		if err := s.show(c.pos); err != nil {
			return s.stats, err
		}
	}
	return s.stats, nil
}

// scanner is the state of one scan.
type scanner struct {
	ring   *Ring
	dec    *Decoder
	now    uint64
	choice selector
	emit   func(*packet.Packet) error
	stats  ScanStats

	head, member slot
	story        story
}

func newScanner(src Source, dec *Decoder, o *ScanOptions) *scanner {
	if o.Now == nil {
		o.Now = clock.Monotonic
	}
	s := &scanner{ring: src.Ring(), dec: dec, now: o.Now(), choice: newSelector(o.Select, dec)}
	s.stats.Forgot = src.Cursor() > src.Start()+s.ring.slots
	return s
}

// candidate is a slot that may be shown.
type candidate struct {
	t0, pos uint64
}

// sorted returns the candidates that o asks for, oldest first.
func (s *scanner) sorted(o ScanOptions) []candidate {
	since := uint64(0)
	if o.Since > 0 && s.now > uint64(o.Since) {
		since = s.now - uint64(o.Since)
	}
	list := s.candidates(since)
	slices.SortFunc(list, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.t0, b.t0), cmp.Compare(a.pos, b.pos))
	})
	return list
}

// candidates looks at the first line of every slot only, which is much less memory.
func (s *scanner) candidates(since uint64) []candidate {
	list := make([]candidate, 0, s.ring.slots)
	var t trains
	for i := range s.ring.slots {
		g := s.ring.peek(i)
		if t.member(i, g) != 0 {
			s.stats.Slots++ // its head has its story
			continue
		}
		if g.pos == 0 {
			continue
		}
		s.stats.Slots++
		if s.stats.Oldest == 0 || g.t0 < s.stats.Oldest {
			s.stats.Oldest = g.t0
		}
		if g.t0 < since || g.seg > 0 && !s.ring.orphan(g.pos, g.seg) {
			continue
		}
		list = append(list, candidate{g.t0, g.pos})
	}
	return list
}

// maxKept is how many packets are kept until they are shown: some ten MB.
const maxKept = 16384

// kept returns copies of the last n packets that match, oldest first: they still match when
// they are shown.
func (s *scanner) kept(candidates []candidate, n int) []packet.Packet {
	var found, train []packet.Packet // newest first
	s.emit = func(p *packet.Packet) error {
		c := *p
		c.Hops, c.Drops = slices.Clone(p.Hops), slices.Clone(p.Drops)
		train = append(train, c)
		return nil
	}
	for i := len(candidates) - 1; i >= 0 && len(found) < n; i-- {
		train = train[:0]
		_ = s.show(candidates[i].pos) // emit does not fail
		slices.Reverse(train)
		found = append(found, train...)
	}
	found = found[:min(n, len(found))]
	slices.Reverse(found)
	return found
}

// newest returns the candidates that have the last n matching packets, oldest first, and how
// many more matching packets they have, which are the oldest. n may be large, so packets are
// not kept but read again, and may have changed by then.
func (s *scanner) newest(candidates []candidate, n int) (found []candidate, older int) {
	packets := 0
	s.emit = func(*packet.Packet) error {
		packets++
		return nil
	}
	for i := len(candidates) - 1; i >= 0 && packets < n; i-- {
		before := packets
		_ = s.show(candidates[i].pos) // emit does not fail
		if packets > before {
			found = append(found, candidates[i])
		}
	}
	slices.Reverse(found)
	return found, max(packets-n, 0)
}

// show emits the packet at pos, or each segment of the train that begins there and
// has been cut.
func (s *scanner) show(pos uint64) error {
	if _, _, ok := s.ring.read(pos, &s.head); !ok {
		s.stats.Torn++
		return nil
	}
	f := s.head.fields()
	if f.Seg > 0 {
		if f.Nev == 0 { // it has no events of its own, and its train's story is gone
			return nil
		}
		s.dec.decode(&s.story, nil, &s.head, s.now)
		return s.hand()
	}
	if f.Cut&cutTrain == 0 && s.choice.refuses(&s.head, s.head.brief()) {
		return nil
	}
	s.dec.decode(&s.story, &s.head, nil, s.now)
	if err := s.hand(); err != nil || f.Cut&cutTrain == 0 {
		return err
	}
	for k := uint64(1); k < uint64(f.Segs); k++ {
		if _, _, ok := s.ring.read(pos+k, &s.member); !ok || uint64(s.member.fields().Seg) != k {
			s.stats.Torn++
			continue
		}
		s.dec.decode(&s.story, &s.head, &s.member, s.now)
		if err := s.hand(); err != nil {
			return err
		}
	}
	return nil
}

func (s *scanner) hand() error {
	if !s.choice.wants(&s.story.Packet) {
		return nil
	}
	return s.emit(&s.story.Packet)
}

// orphan reports whether a later packet has overwritten the head of segment seg at pos:
// then only the segment's own slot has its story.
func (r *Ring) orphan(pos uint64, seg uint8) bool {
	head := pos - uint64(seg)
	return r.position(r.Index(head)) > head
}
