// SPDX-License-Identifier: Apache-2.0

package segments

import (
	"encoding/json"
	"time"

	"github.com/vnetradar/radar/pkg/packet"
)

// Meta is what the segments of one recording have in common. It stands in each file, so that a file
// alone can be read.
type Meta struct {
	Radar       string          `json:"radar"`  // version
	Kernel      string          `json:"kernel"` // release
	Host        string          `json:"host"`
	Domain      string          `json:"domain"`
	Epoch       uint32          `json:"epoch"`       // first part of packets' IDs
	Slots       uint64          `json:"slots"`       // of the ring: a GUID is a position modulo these
	Layout      int             `json:"layout"`      // version of the maps
	WallOffset  int64           `json:"wall_offset"` // ns, from T0 to Unix time, when the recording began
	Created     time.Time       `json:"created"`     // the domain's
	Description json.RawMessage `json:"description,omitempty"`
}

// Packet is a packet as it is kept, and as it is read. Its numbers are of the Scope that it was
// added with; of one that is read, of Dir.Scope.
type Packet struct {
	packet.Packet

	// ID, GUID, Source, Inner and Host are as in record.Record. An ID or GUID that is empty when the
	// packet is added is made of Pos, Meta.Epoch and Meta.Slots.
	ID, GUID, Source string
	Host             string
	Inner            string
	INT              []Said // by hop; nil: no node said anything

	// What follows is set for packets that only reports have shown.

	// Nodes are what the nodes of the hops are called, where there are more of them than numbers;
	// nil: as the Scope says.
	Nodes []string
	// Links are the ns from the hop before, by hop, packet.NoTime where not known; nil: Packet.LinkNs
	// says them.
	Links []int64
	// LossHop is 1 and the index of the hop whose node said that it dropped the packet; 0: none did.
	LossHop int
}

// Said is what a node said of a packet by INT, in the order of names. nil: nothing.
type Said []Value

// Value is one of its values.
type Value struct {
	Name  string
	Value uint64
}

// Map is s as records have it.
func (s Said) Map() map[string]uint64 {
	if s == nil {
		return nil
	}
	m := make(map[string]uint64, len(s))
	for _, v := range s {
		m[v.Name] = v.Value
	}
	return m
}

// Options bound a recording. What is 0 has a default, or no bound where that is said.
type Options struct {
	MaxBytes  int64         // of a segment; default 64 MiB
	MaxAge    time.Duration // of a segment: it is finished so long after its first packet; default 10 s
	KeepBytes int64         // of the directory: the oldest segments are removed; 0: no bound
	KeepAge   time.Duration // the same by the age of a segment's last packet; 0: no bound
	Once      bool          // no packet is added twice: files say so, and readers need not look for such ones
}

// Event is something that happened beside packets.
type Event struct {
	Time   time.Time
	Kind   string
	Fields map[string]any // as encoding/json decodes them

	text string // the fields, as JSON
}

// JSON are the fields of an event that was read, as the file has them.
func (e *Event) JSON() string { return e.text }

// Stats are what became of what was added.
type Stats struct {
	Kept    uint64            `json:"kept"`     // packets in finished segments, and in those that are written now
	NotKept map[string]uint64 `json:"not_kept"` // packets, by cause
	// EventsNotKept are events that found too many others waiting, or no room on the disk.
	EventsNotKept uint64 `json:"events_not_kept"`
	// EventsRemoved is the time of the newest event whose file was removed beyond the bounds, ns since 1970; 0: none was.
	EventsRemoved int64  `json:"-"`
	LastError     string `json:"last_error,omitempty"` // why packets were not kept last, or may not outlast a loss of power
	Segments      int    `json:"segments"`             // in the directory
	Bytes         int64  `json:"bytes"`                // of these
}

// Damage is a file, or a part of one, that is not read.
type Damage struct {
	File  string `json:"file"`
	Place string `json:"place"` // such as "footer", "row group 3"
	What  string `json:"what"`
}

func (d Damage) String() string { return d.File + ": " + d.Place + ": " + d.What }
