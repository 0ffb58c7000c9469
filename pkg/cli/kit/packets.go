// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"io"
	"strconv"
	"time"

	"github.com/vnetradar/radar/pkg/cli/words"
	"github.com/vnetradar/radar/pkg/record"
)

// PacketPrinter prints records, one a line, in the format asked for.
type PacketPrinter struct {
	out      io.Writer
	format   Format
	location *time.Location
	table    *Table
	csv      *CSVWriter
	Long     bool // CSV: a row for each hop
	Shown    *words.Names
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
		}, columns...)
	}
	return &PacketPrinter{out: out, format: format, location: location, table: NewTable(columns...), csv: NewCSVWriter(out)}
}

// Print writes the records and, before the first of them, the title.
func (p *PacketPrinter) Print(records []*record.Record) error {
	if p.format == FormatJSON {
		for _, r := range records {
			if err := PrintJSON(p.out, r.JSON()); err != nil {
				return err
			}
		}
		return nil
	}
	if p.format == FormatCSV {
		return p.printCSV(records)
	}
	for _, r := range records {
		p.table.Add(p.cells(p.Shown.Record(r))...)
	}
	return p.table.Flush(p.out)
}

func (p *PacketPrinter) printCSV(records []*record.Record) error {
	if p.Long {
		return p.printHops(records)
	}
	if err := CSVTitle[record.Record](p.csv, "path"); err != nil {
		return err
	}
	for _, r := range records {
		p.csv.Absent = r.Absent()
		if err := p.csv.Row(r, [2]string{"path", words.Path(r)}); err != nil {
			return err
		}
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

// printHops prints a row for each hop.
func (p *PacketPrinter) printHops(records []*record.Record) error {
	if err := CSVTitle[hopRow](p.csv); err != nil {
		return err
	}
	for _, r := range records {
		for i, h := range r.Hops {
			if err := p.csv.Row(&hopRow{r.ID, r.Time, r.State, r.Src, r.Dst, r.Proto, r.Sport, r.Dport, i, h}); err != nil {
				return err
			}
		}
	}
	return p.csv.Flush()
}

func (p *PacketPrinter) cells(r *record.Record) []string {
	wide := p.format == FormatWide
	path := words.Path(r)
	if wide {
		path = words.TimedPath(r)
	}
	latency := ""
	if r.LatencyNs != nil {
		latency = words.Duration(float64(*r.LatencyNs))
	}
	cells := []string{
		time.Unix(0, r.TNs).In(p.location).Format("15:04:05.000000"),
		r.Proto,
		words.Packet(r),
		strconv.Itoa(r.Len),
		strconv.Itoa(r.Segs),
		string(r.State),
		latency,
		path,
		words.Loss(r, wide),
	}
	if wide {
		cells = append([]string{r.ID, r.GUID,
			strconv.Itoa(r.TTL), strconv.Itoa(r.DSCP), words.ID(r)}, cells...)
	}
	return cells
}
