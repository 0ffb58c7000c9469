// SPDX-License-Identifier: Apache-2.0

package assertion

// mostKept bounds what a trial by itself keeps of flows: packets that can still be overtaken, or ways of flows.
const mostKept = 1 << 18

// Room bounds what trials keep of flows together.
type Room struct{ free int }

// NewRoom has room for so many packets, or ways of flows.
func NewRoom(places int) *Room { return &Room{places} }

// share is what one trial has of a room.
type share struct {
	of   *Room
	kept int
	over uint64 // packets for which there was no room
}

// newShare is of a room of its own.
func newShare() *share { return &share{of: NewRoom(mostKept)} }

// fits takes a place for a packet of so many segments, or counts that there is none.
func (s *share) fits(segs int) bool {
	if s.of.free <= 0 {
		s.over += uint64(segs)
		return false
	}
	s.of.free--
	s.kept++
	return true
}

// give gives places back.
func (s *share) give(places int) {
	s.kept -= places
	s.of.free += places
}
