// SPDX-License-Identifier: Apache-2.0

package payload

import "time"

// Part is what was captured of a packet at a port.
type Part struct {
	Node, Port string
	Out        bool   // it went out by the port, else it came in
	Data       []byte // from the transport header on
	Header     int    // bytes of transport header in Data; 0 where the protocol's is not known
	Length     int    // bytes from there on that the packet has; of a train its first segment
}

// entry is a Part that waits for its packet's record.
type entry struct {
	port           uint16
	out            bool
	header, length int
	data           []byte
}

// overhead is what an entry takes beside its data, about.
const overhead = 128

// waiting is a packet in the order in which payload came.
type waiting struct {
	pos uint64
	at  time.Time
}

// store keeps payload until the records of its packets are asked for: so much, and for so long.
type store struct {
	mostBytes int
	mostAge   time.Duration

	of        map[uint64][]entry
	order     []waiting // some of them may be taken already
	bytes     int
	unclaimed uint64 // entries that were dropped because of their age
	crowded   uint64 // because of mostBytes
}

func newStore(mostBytes int, mostAge time.Duration) *store {
	return &store{mostBytes: mostBytes, mostAge: mostAge, of: make(map[uint64][]entry)}
}

func (s *store) add(pos uint64, e entry, now time.Time) {
	if len(s.of[pos]) == 0 {
		s.order = append(s.order, waiting{pos, now})
	}
	s.of[pos] = append(s.of[pos], e)
	s.bytes += len(e.data) + overhead
	s.trim(now)
}

// trim drops what is too much, or too old: the oldest first.
func (s *store) trim(now time.Time) {
	n := 0
	for n < len(s.order) && (s.bytes > s.mostBytes || now.Sub(s.order[n].at) > s.mostAge || len(s.of[s.order[n].pos]) == 0) {
		dropped := uint64(len(s.take(s.order[n].pos)))
		if now.Sub(s.order[n].at) > s.mostAge {
			s.unclaimed += dropped
		} else {
			s.crowded += dropped
		}
		n++
	}
	s.order = s.order[n:]
	if len(s.order) <= 2*len(s.of)+1024 {
		return
	}
	var still []waiting // the rest was taken
	for _, w := range s.order {
		if len(s.of[w.pos]) > 0 {
			still = append(still, w)
		}
	}
	s.order = still
}

// take hands out what there is of a packet.
func (s *store) take(pos uint64) []entry {
	list := s.of[pos]
	delete(s.of, pos)
	for _, e := range list {
		s.bytes -= len(e.data) + overhead
	}
	return list
}

// left is how many entries nobody has claimed.
func (s *store) left() uint64 {
	n := s.unclaimed
	for _, list := range s.of {
		n += uint64(len(list))
	}
	return n
}
