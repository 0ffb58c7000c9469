// SPDX-License-Identifier: Apache-2.0

package recording

import (
	"slices"

	"github.com/vnetradar/radar/pkg/store/segments"
)

const (
	mostSame  = 1 << 15 // packets with one first stamp that are in memory, with their hops and drops
	mostSpare = 64      // packets whose memory is used again
	fewSame   = 8       // a search among so many packets needs no map
)

// merge makes one of packets that are there twice: they have the same ID and the same first stamp.
type merge struct {
	fn          func(*segments.Packet) error
	same, spare []*segments.Packet // with one first stamp; memory to be used again
	size        int                // of same, as mostSame counts it
	byID        map[string]int     // where packets are in same, if they are many
}

func (m *merge) add(p *segments.Packet) error {
	if len(m.same) > 0 && (m.same[0].T0 != p.T0 || m.size >= mostSame) {
		if err := m.give(); err != nil {
			return err
		}
	}
	switch at := m.find(p.ID); {
	case at < 0:
		m.same = append(m.same, m.keep(p))
		m.size += 1 + len(p.Hops) + len(p.Drops)
	case m.same[at].INT == nil:
		m.same[at].INT = slices.Clone(p.INT)
	default:
		said := m.same[at].INT
		m.same[at] = Cloned(p)
		if m.same[at].INT == nil {
			m.same[at].INT = said
		}
	}
	return nil
}

// find is the place of a packet in same, -1 if it is not there.
func (m *merge) find(id string) int {
	if len(m.same) <= fewSame {
		return slices.IndexFunc(m.same, func(of *segments.Packet) bool { return of.ID == id })
	}
	if m.byID == nil {
		m.byID = make(map[string]int)
	}
	for i := len(m.byID); i < len(m.same); i++ {
		m.byID[m.same[i].ID] = i
	}
	if at, ok := m.byID[id]; ok {
		return at
	}
	return -1
}

func (m *merge) keep(p *segments.Packet) *segments.Packet {
	to := new(segments.Packet)
	if n := len(m.spare); n > 0 {
		to, m.spare = m.spare[n-1], m.spare[:n-1]
	}
	copyPacket(to, p)
	return to
}

// give gives the packets that are in memory.
func (m *merge) give() error {
	for _, p := range m.same {
		if err := m.fn(p); err != nil {
			return err
		}
	}
	m.spare = append(m.spare, m.same[:min(len(m.same), mostSpare-len(m.spare))]...)
	clear(m.same)
	m.same, m.size, m.byID = m.same[:0], 0, nil
	return nil
}
