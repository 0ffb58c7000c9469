// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"encoding/json"
	"errors"
	"io"
	"time"

	"github.com/vnetradar/radar/pkg/answer/wording"
	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/words"
)

// PacketPrinter prints records, one a line, in the format asked for. It keeps their lines until
// Flush.
type PacketPrinter struct {
	out    io.Writer
	format Format
	clock  record.Clock
	table  *Table
	raw    rows // of JSON and CSV: what a record is, in one cell
	json   *json.Encoder
	csv    *CSVWriter
	Long   bool // CSV: a row for each hop
	Shown  *wording.Names

	cache     [cachePlaces]*cachedLine // see AddPacket
	cachedFor *wording.Names
}

// NewPacketPrinter returns a printer whose times are of that location.
func NewPacketPrinter(out io.Writer, format Format, location *time.Location) *PacketPrinter {
	columns := []Column{
		{Title: "TIME", Min: 15},
		{Title: "PROTO", Min: 5},
		{Title: "PACKET", Min: 37},
		{Title: "LEN", Right: true, Min: 5},
		{Title: "SEGS", Right: true},
		{Title: "STATE", Min: 9},
		{Title: "LATENCY", Right: true},
		{Title: "PATH", Min: 22},
		{Title: "LOSS"},
	}
	if format == FormatWide {
		columns = append([]Column{
			{Title: "ID", Min: 21},
			{Title: "GUID", Min: 7},
			{Title: "TTL", Right: true},
			{Title: "DSCP", Right: true},
			{Title: "IPID", Right: true, Min: 5},
			{Title: "TCP"},
		}, columns...)
	}
	p := &PacketPrinter{out: out, format: format, clock: record.NewClock(location, "15:04:05"), table: NewTable(columns...)}
	p.json, p.csv = json.NewEncoder(&p.raw), NewCSVWriter(&p.raw)
	p.json.SetEscapeHTML(false)
	return p
}

// ShowsNames reports whether what is printed of a record has its ID, GUID or Time.
func ShowsNames(format Format) bool { return format != FormatTable }

// Add keeps what is printed of a record.
func (p *PacketPrinter) Add(r *record.Record) error {
	var err error
	switch p.format {
	case FormatJSON:
		err = p.json.Encode(r.JSON())
	case FormatCSV:
		err = p.addCSV(r)
	default:
		p.addCells(&p.table.rows, p.Shown.Record(r))
		p.table.rows.endRow(r.TNs)
		return nil
	}
	p.raw.endCell()
	p.raw.endRow(r.TNs)
	return err
}

// kept are the lines kept.
func (p *PacketPrinter) kept() *rows {
	if p.format.Raw() {
		return &p.raw
	}
	return &p.table.rows
}

// Len is how many records are kept.
func (p *PacketPrinter) Len() int { return len(p.kept().list) }

// Sort orders the records by the time at which they were sent.
func (p *PacketPrinter) Sort() { p.kept().sort() }

// KeepFirst forgets all but the first n records.
func (p *PacketPrinter) KeepFirst(n int) {
	kept := p.kept()
	kept.list = kept.list[:min(n, len(kept.list))]
}

// KeepLast forgets all but the last n records.
func (p *PacketPrinter) KeepLast(n int) {
	kept := p.kept()
	kept.list = kept.list[max(len(kept.list)-n, 0):]
}

// Flush writes the records and, before the first of them, the title.
func (p *PacketPrinter) Flush() error {
	if !p.format.Raw() {
		return p.table.Flush(p.out)
	}
	if err := p.printTitle(); err != nil {
		return err
	}
	for i := range p.raw.list {
		if _, err := p.out.Write(p.raw.textOf(i)); err != nil {
			return err
		}
	}
	p.raw.clear()
	return nil
}

// printTitle prints the names of a CSV's columns, if it has not printed them.
func (p *PacketPrinter) printTitle() error {
	if p.format != FormatCSV || p.csv.titled {
		return nil
	}
	p.csv.titled = true
	title := NewCSVWriter(p.out)
	if p.Long {
		return errors.Join(CSVTitle[hopRow](title), title.Flush())
	}
	return errors.Join(CSVTitle[record.Record](title, "path"), title.Flush())
}

// addCSV adds the rows of a record.
func (p *PacketPrinter) addCSV(r *record.Record) error {
	if err := p.printTitle(); err != nil { // rows do not print another
		return err
	}
	if p.Long {
		return p.addHops(r)
	}
	p.csv.Absent = r.Absent()
	if err := p.csv.Row(r, [2]string{"path", words.Path(r)}); err != nil {
		return err
	}
	return p.csv.Flush()
}

// hopRow is a hop of a packet, with what it takes to know the packet.
type hopRow struct {
	ID    string       `json:"id"`
	Time  string       `json:"time"`
	State record.State `json:"state"`
	Src   string       `json:"src"`
	Dst   string       `json:"dst"`
	Proto string       `json:"proto"`
	Sport *int         `json:"sport,omitempty"`
	Dport *int         `json:"dport,omitempty"`
	Index int          `json:"index"` // of the hop, from 0
	Hop   record.Hop   `json:"hop"`
}

// addHops adds a row for each hop.
func (p *PacketPrinter) addHops(r *record.Record) error {
	for i, h := range r.Hops {
		if err := p.csv.Row(&hopRow{r.ID, r.Time, r.State, r.Src, r.Dst, r.Proto, r.Sport, r.Dport, i, h}); err != nil {
			return err
		}
	}
	return p.csv.Flush()
}

// addCells adds the cells of a record's line.
func (p *PacketPrinter) addCells(t *rows, r *record.Record) {
	wide := p.format == FormatWide
	if wide {
		t.addText(r.ID)
		t.addText(r.GUID)
		t.addInt(r.TTL)
		t.addInt(r.DSCP)
		t.addText(words.ID(r))
		t.addText(words.TCP(r))
	}
	p.addTime(t, r.TNs)
	t.addText(r.Proto)
	t.text = words.AppendPacket(t.text, r)
	t.endCell()
	t.addInt(r.Len)
	t.addInt(r.Segs)
	t.addText(string(r.State))
	latency := int64(packet.NoTime)
	if r.LatencyNs != nil && !r.IsLost() {
		latency = *r.LatencyNs
	}
	addLatency(t, latency)
	if wide {
		t.addText(words.TimedPath(r))
	} else {
		t.text = words.AppendPath(t.text, r)
		t.endCell()
	}
	t.addText(words.Loss(r, wide))
}

// addTime adds the time of day at which a packet was sent.
func (p *PacketPrinter) addTime(t *rows, unixNs int64) {
	t.text = p.clock.Append(t.text, unixNs, 6)
	t.endCell()
}

// addLatency adds how long a packet took, if that is known. A lost one took no time that is.
func addLatency(t *rows, ns int64) {
	if ns != packet.NoTime {
		t.text = words.AppendDuration(t.text, float64(ns))
	}
	t.endCell()
}
