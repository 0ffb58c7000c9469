// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"time"

	"github.com/vnetradar/radar/pkg/telemetry/metrics"
)

// Store is where a Collector keeps packets and values (pkg/store). The collector calls one method at a
// time, but for SaveRows.
type Store interface {
	// Info describes what is kept. The collector counts in it; the store says what it has of packets.
	Info() *Info
	// Add keeps a packet, whose memory it does not keep. After an error that is ENOSPC or EDQUOT the
	// store can go on.
	Add(Packet) error
	// Next is the number that the next packet gets.
	Next() uint64
	// Save makes all that was added, and what Info has, visible to readers.
	Save() error
	// SaveRows makes these values visible to readers, instead of those before. name gives nodes theirs.
	SaveRows(rows []metrics.Row, name metrics.Namer) error
	// HasRoom reports whether so many bytes more would fit. A small write may succeed where they do not.
	HasRoom(bytes uint64) bool
	// Close saves, and ends the store. What is kept stays.
	Close() error
}

// Info describes what is kept. The profiles and names are those with which it is to be read.
type Info struct {
	Epoch     uint32            `json:"epoch"` // random: the first part of IDs
	PID       int               `json:"pid"`
	Since     time.Time         `json:"since"`
	Profiles  map[string]string `json:"profiles,omitempty"` // by source address; see ParseSource
	Names     map[uint32]string `json:"names,omitempty"`    // of nodes
	Join      time.Duration     `json:"join"`               // ns; see Translator
	Ports     []uint16          `json:"ports,omitempty"`    // of reports
	All       bool              `json:"all"`                // every report is kept
	Counts    Counts            `json:"counts"`
	Metrics   metrics.Counts    `json:"metrics"`
	XDP       *FastInfo         `json:"xdp,omitempty"`
	Interface *InterfaceInfo    `json:"interface,omitempty"`
	Outputs   []OutputInfo      `json:"outputs,omitempty"`
	Newest    time.Time         `json:"newest,omitzero"`   // when the newest datagram came
	Waiting   uint64            `json:"waiting"`           // in sockets, bytes of the kernel's memory
	Gaps      uint64            `json:"gaps"`              // reports that sources numbered and that did not come
	Forgotten uint64            `json:"sources_forgotten"` // sources whose numbers are no longer followed: there were too many
	// SocketDrops are datagrams that the sockets had no room for.
	SocketDrops uint64 `json:"socket_drops"`
	NotKept     uint64 `json:"not_kept"`        // datagrams that were to be kept when the disk was full
	Unsaved     uint64 `json:"unsaved"`         // writes to this directory that failed, the disk being full
	LeftOut     uint64 `json:"values_left_out"` // values for which Collector.KeepRows has no room
	Refused     uint64 `json:"refused"`         // datagrams of sources that are not heard, wherever they came
	Bugs        uint64 `json:"bugs"`            // datagrams at which radar itself failed, and which it passed over
	First       uint64 `json:"first"`           // number of the first packet that is kept
	Next        uint64 `json:"next"`            // number that the next one gets
	Files       []File `json:"files"`
}

// FastInfo is what a fast path has done.
type FastInfo struct {
	Device     string `json:"device"`
	Mode       string `json:"mode"`        // native or generic
	FastPath   uint64 `json:"fast_path"`   // reports that said nothing new: they went no further
	SlowPath   uint64 `json:"slow_path"`   // the others, which went up
	QueueDrops uint64 `json:"queue_drops"` // of these, those that the queue to the collector had no room for
	Full       uint64 `json:"full"`        // templates that there was no room for
	Refused    uint64 `json:"refused"`     // datagrams of sources that are not heard; in neither path
}

// InterfaceInfo is what an Interface has seen beside reports.
type InterfaceInfo struct {
	Device string `json:"device"`
	Parts  uint64 `json:"parts"` // datagrams to a port of reports that are cut, or in fragments; they are among the rejected
	Other  uint64 `json:"other"` // packets that had to be looked at, and go to no port of reports
	Downs  uint64 `json:"downs"` // how often the interface was down
}

// OutputInfo is what became of events and values that an output was given.
type OutputInfo struct {
	Name          string `json:"name"`
	Waiting       int    `json:"waiting"` // events and snapshots
	Written       uint64 `json:"written"`
	DroppedEvents uint64 `json:"dropped_events"` // its queue was full
	DroppedValues uint64 `json:"dropped_values"`
	GivenUp       uint64 `json:"given_up"` // refused by who was to have it
	Retries       uint64 `json:"retries"`  // attempts after one that had failed
}

// File is one capture file and the number of its first packet.
type File struct {
	Name  string `json:"name"`
	First uint64 `json:"first"`
}

// Translator makes the translator that Info asks for. A profile that this version does not
// know is an error.
func (i *Info) Translator() (*Translator, error) {
	t := &Translator{Names: i.Names, Join: i.Join, Ports: i.Ports, Epoch: i.Epoch}
	for source, name := range i.Profiles {
		if err := t.SetSource(source, name); err != nil {
			return nil, err
		}
	}
	return t, nil
}
