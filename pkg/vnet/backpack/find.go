// SPDX-License-Identifier: Apache-2.0

package backpack

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
)

// Errors of Find. ErrID: not an id. ErrForeign: the id is of another attach, of this
// domain or another. ErrNoPacket: no packet has it. ErrOverwritten: the slot has a later
// packet; Remembered says what the ring still has.
var (
	ErrID          = errors.New("not a packet's id")
	ErrForeign     = errors.New("measured by another attach")
	ErrNoPacket    = errors.New("no packet has this id")
	ErrOverwritten = errors.New("the ring does not remember it any more")
)

// ParseID splits an id as in records: the domain's epoch and the position.
func ParseID(id string) (epoch uint32, pos uint64, err error) {
	first, second, ok := strings.Cut(id, "-")
	e, err1 := strconv.ParseUint(first, 16, 32)
	pos, err2 := strconv.ParseUint(second, 16, 64)
	if !ok || len(first) != 8 || err1 != nil || err2 != nil {
		return 0, 0, fmt.Errorf("%q: %w", id, ErrID)
	}
	return uint32(e), pos, nil
}

// Found is what Find returns.
type Found struct {
	Record record.Record
	// Segment is the packet's place, from 1, in the train whose story this is; 0: the
	// story is the packet's own.
	Segment int
}

// Find returns the packet with that id, as things stand at now (CLOCK_MONOTONIC, ns). A segment of
// a train that has not been cut has only the story of its train, which has another id.
func Find(src Source, dec *Decoder, id string, now uint64) (*Found, error) {
	epoch, pos, err := ParseID(id)
	if err != nil {
		return nil, err
	}
	p, segment, err := FindAt(src, dec, Position{epoch, pos}, now)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", id, err)
	}
	return &Found{Record: dec.Record(p), Segment: segment}, nil
}

// findAt is Find for a position of the decoder's domain.
func findAt(src Source, dec *Decoder, pos, now uint64) (p *packet.Packet, segment int, err error) {
	ring := src.Ring()
	if pos == 0 || pos >= src.Cursor() {
		return nil, 0, ErrNoPacket
	}
	var own, head slot
	there, _, ok := ring.read(pos, &own)
	switch {
	case !ok && there > pos:
		return nil, 0, ErrOverwritten
	case !ok:
		at := ring.headOf(pos)
		if _, _, ok := ring.read(at, &head); !ok || !head.member(pos-at, &own) {
			// A CPU did not use it, or the programs took the packet back.
			return nil, 0, ErrNoPacket
		}
	}
	f := own.fields()
	found := &story{}
	if f.Seg == 0 {
		dec.decode(found, &own, nil, now)
	} else if _, _, ok := ring.read(pos-uint64(f.Seg), &head); !ok {
		dec.decode(found, nil, &own, now) // a later packet has the head's slot
	} else if head.fields().Cut&cutTrain == 0 {
		dec.decode(found, &head, nil, now)
		segment = int(f.Seg) + 1
	} else {
		dec.decode(found, &head, &own, now)
	}
	return &found.Packet, segment, nil
}

// Position is a packet's position in one attached domain, as ParseID returns it.
type Position struct {
	Epoch uint32
	Pos   uint64
}

// ID is the packet's id as in records: the domain's random epoch and the position. It is unique for
// ever.
func (p Position) ID() string { return string(p.appendID(make([]byte, 0, 25))) }

func (p Position) appendID(b []byte) []byte {
	const hex = "0123456789abcdef"
	for shift := 28; shift >= 0; shift -= 4 {
		b = append(b, hex[p.Epoch>>shift&0xf])
	}
	return strconv.AppendUint(append(b, '-'), p.Pos, 16)
}

// FindAt is Find by position. The Packet is the caller's. segment is as in Found.
func FindAt(src Source, dec *Decoder, at Position, now uint64) (p *packet.Packet, segment int, err error) {
	if at.Epoch != dec.epoch {
		return nil, 0, ErrForeign
	}
	return findAt(src, dec, at.Pos, now)
}

// Extent is how far back a ring remembers.
type Extent struct {
	Packets int       // segments of trains counted each
	Oldest  time.Time // begin of the oldest; zero: there is none
}

// Remembered looks at every slot.
func Remembered(src Source, dec *Decoder) Extent {
	ring, oldest := src.Ring(), uint64(math.MaxUint64)
	var e Extent
	var t trains
	for i := range ring.slots {
		g := ring.peek(i)
		switch {
		case t.member(i, g) != 0:
			e.Packets++
		case g.pos != 0:
			e.Packets++
			oldest = min(oldest, g.t0)
		}
	}
	if e.Packets > 0 {
		e.Oldest = time.Unix(0, int64(oldest)+dec.offset)
	}
	return e
}
