// SPDX-License-Identifier: Apache-2.0

package backpack

import (
	"strconv"

	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
)

// Record makes the record of a packet. It shares no memory with p.
func (d *Decoder) Record(p *packet.Packet) record.Record {
	var r record.Record
	d.record(&r, p, new(packet.Memory))
	return r
}

// record makes the record of a packet, and keeps in m what that points to.
func (d *Decoder) record(r *record.Record, p *packet.Packet, m *packet.Memory) {
	d.fill(r, p, m)
	b := Position{d.epoch, p.Pos}.appendID(d.text[:0])
	id := len(b)
	b = strconv.AppendUint(append(b, "0x"...), p.Pos&(d.slots-1), 16)
	guid := len(b)
	b = record.AppendTime(b, &d.clock, r.TNs)
	d.text = b
	text := string(b) // one for all
	r.ID, r.GUID, r.Time = text[:id], text[id:guid], text[guid:]
}

// Recorder makes records one after the other, all in the same memory.
type Recorder struct {
	dec *Decoder
	rec record.Record
	mem packet.Memory
}

// NewRecorder makes a Recorder for the packets of a Decoder. Bare records lack what takes a while
// and only some want: ID, GUID and Time, and the function that freed a packet after delivery for a
// reason that is known.
func NewRecorder(d *Decoder, bare bool) *Recorder {
	return &Recorder{dec: d, mem: packet.Memory{Bare: bare}}
}

// Record makes the record of a packet, which is valid until the next call.
func (m *Recorder) Record(p *packet.Packet) *record.Record {
	if m.mem.Bare {
		m.dec.fill(&m.rec, p, &m.mem)
	} else {
		m.dec.record(&m.rec, p, &m.mem)
	}
	return &m.rec
}

// fill sets all of r but ID, GUID and Time.
func (d *Decoder) fill(r *record.Record, p *packet.Packet, m *packet.Memory) {
	d.recorder.Fill(r, p, m)
	if p.Inner != 0 {
		r.Inner = d.id(p.Inner)
	}
}

// id is the id of the packet at a position.
func (d *Decoder) id(pos uint64) string { return Position{d.epoch, pos}.ID() }

// GUID is a record's: the index of a packet's slot.
func (d *Decoder) GUID(p *packet.Packet) string {
	return string(strconv.AppendUint([]byte("0x"), p.Pos&(d.slots-1), 16))
}

// ID is a record's.
func (d *Decoder) ID(p *packet.Packet) string { return d.id(p.Pos) }
