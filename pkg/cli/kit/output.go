// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"
	"unicode/utf8"

	"github.com/google/renameio/v2"
	"github.com/spf13/cobra"

	"github.com/vnetradar/radar/pkg/fault"
)

// Format is the value of --output.
type Format string

// The formats.
const (
	FormatTable Format = "table"
	FormatWide  Format = "wide"
	FormatJSON  Format = "json"
	FormatCSV   Format = "csv" // of commands that print rows: see HasCSV
)

func (f *Format) String() string { return string(*f) }

// Type names the value in help texts.
func (f *Format) Type() string { return "format" }

// Set checks and sets the format.
func (f *Format) Set(s string) error {
	switch v := Format(s); v {
	case FormatTable, FormatWide, FormatJSON, FormatCSV:
		*f = v
		return nil
	}
	return fmt.Errorf("unknown format %q: use table, wide, json or csv", s)
}

// Raw reports whether rows are printed for programs, by PrintRows.
func (f Format) Raw() bool { return f == FormatJSON || f == FormatCSV }

// csvAnnotation marks commands that print rows, and so can print CSV.
const csvAnnotation = "csv"

// HasCSV are the annotations of a command that can print CSV.
var HasCSV = map[string]string{csvAnnotation: "rows"}

// checkFormat refuses CSV where there are no rows.
func checkFormat(cmd *cobra.Command, f Format) error {
	if f == FormatCSV && cmd.Annotations[csvAnnotation] == "" {
		return fault.Usage.Errorf("%s prints no rows, so it has no CSV: use -o table, wide or json", cmd.CommandPath())
	}
	return nil
}

// PrintRows prints one object a line, or CSV. In views that are printed again and
// again (-f) each row says when.
func PrintRows[T any](k *Kit, rows []T) error {
	if k.Output == FormatCSV {
		return printCSV(k, rows)
	}
	for _, row := range rows {
		if k.View == nil {
			if err := PrintJSON(k.Out, row); err != nil {
				return err
			}
			continue
		}
		var b bytes.Buffer
		if err := PrintJSON(&b, row); err != nil {
			return err
		}
		if _, err := fmt.Fprintf(k.Out, `{"time":%q,%s`, k.View.Time, b.Bytes()[1:]); err != nil {
			return err
		}
	}
	return nil
}

func printCSV[T any](k *Kit, rows []T) error {
	w, when, names := NewCSVWriter(k.Out), [][2]string(nil), []string(nil)
	if k.View != nil {
		if k.View.CSV == nil {
			k.View.CSV = w
		}
		w, when, names = k.View.CSV, [][2]string{{"time", k.View.Time}}, []string{"time"}
	}
	if err := CSVTitle[T](w, names...); err != nil {
		return err
	}
	for i := range rows {
		if err := w.Row(&rows[i], when...); err != nil {
			return err
		}
	}
	return w.Flush()
}

// PrintJSON writes v as one line.
func PrintJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// Column is one of a table.
type Column struct {
	Title string
	Right bool // numbers
	Min   int  // least width; for rows that are printed as they come
}

// Table prints aligned columns, two spaces apart. Rows are kept until Flush. Who flushes after
// each row prints as rows come, with columns that only grow.
type Table struct {
	columns []Column
	widths  []int
	rows    rows
	titled  bool
	lines   []byte // scratch
}

// NewTable returns a table without rows.
func NewTable(columns ...Column) *Table {
	t := &Table{columns: columns, widths: make([]int, len(columns))}
	for i, c := range columns {
		t.widths[i] = max(c.Min, utf8.RuneCountInString(c.Title))
	}
	return t
}

// Add keeps one row. Missing cells are empty; an empty cell is shown as "-",
// except in the last column.
func (t *Table) Add(cells ...string) {
	for _, cell := range cells {
		t.rows.addText(cell)
	}
	t.rows.endRow(0)
}

// Empty reports whether no row is kept.
func (t *Table) Empty() bool { return len(t.rows.list) == 0 }

// Flush prints the title, if it has not been printed, and the rows kept.
func (t *Table) Flush(w io.Writer) error {
	t.widen()
	b := t.lines[:0]
	if !t.titled {
		t.titled = true
		b = t.appendTitle(b)
	}
	for i := range t.rows.list {
		b = t.appendRow(b, t.rows.list[i].cached, t.rows.textOf(i), t.rows.cellsOf(i))
		if len(b) < writeSize {
			continue
		}
		if _, err := w.Write(b); err != nil {
			return err
		}
		b = b[:0]
	}
	_, err := w.Write(b)
	t.lines = b
	t.rows.clear()
	return err
}

// writeSize is how many bytes of lines are written at once: as many as a pipe takes.
const writeSize = 1 << 16

// PrintTable prints a table. One without rows has no title: notes say why there is none. With -f it has, since
// rows may come.
func (k *Kit) PrintTable(t *Table) error {
	if t.Empty() && k.View == nil {
		return nil
	}
	return t.Flush(k.Out)
}

func (t *Table) appendTitle(b []byte) []byte {
	var title rows
	for _, c := range t.columns {
		title.addText(c.Title)
	}
	return t.appendRow(b, nil, title.text, title.cells)
}

// widen makes columns as wide as the rows need them.
func (t *Table) widen() {
	var last *cachedLine
	for i := range t.rows.list {
		l, cells := t.rows.list[i].cached, t.rows.cellsOf(i)
		if l == nil {
			for c, cell := range cells {
				t.widths[c] = max(t.widths[c], int(cell.runes))
			}
			continue
		}
		for own, cell := range cells {
			t.widths[ownCells[own]] = max(t.widths[ownCells[own]], int(cell.runes))
		}
		if l != last { // most have the same as the one before
			l.widen(t.widths)
			last = l
		}
	}
}

// appendRow appends the line of a row: its text, in which its cells are one behind the other.
func (t *Table) appendRow(b []byte, l *cachedLine, text []byte, cells []cell) []byte {
	begin := len(b)
	if l != nil {
		b = t.appendCached(b, l, text, cells)
	} else {
		for i := range t.columns {
			var c cell
			if i < len(cells) {
				c = cells[i]
			}
			b = t.appendCell(b, i, text[:c.bytes], int(c.runes))
			text = text[c.bytes:]
		}
	}
	for len(b) > begin && b[len(b)-1] == ' ' {
		b = b[:len(b)-1]
	}
	return append(b, '\n')
}

// appendCell appends a cell of column i, and what parts it from the next one.
func (t *Table) appendCell(b []byte, i int, content []byte, width int) []byte {
	last := len(t.columns) - 1
	if len(content) == 0 && i < last {
		width, content = 1, dash
	}
	pad := max(t.widths[i]-width, 0)
	switch {
	case t.columns[i].Right:
		b = append(appendSpaces(b, pad), content...)
		pad = 0
	default:
		b = append(b, content...)
	}
	if i < last {
		b = appendSpaces(b, pad+2) // two between columns
	}
	return b
}

// dash stands for an empty cell.
var dash = []byte{'-'}

func appendSpaces(b []byte, n int) []byte {
	const spaces = "                                                                "
	for ; n > len(spaces); n -= len(spaces) {
		b = append(b, spaces...)
	}
	return append(b, spaces[:n]...)
}

// WriteFile writes a file that a user has named, all of it or nothing. What is there and is no regular file, such as
// /dev/stdout or a pipe, is written to, and stays what it is.
func WriteFile(path string, b []byte, options ...renameio.Option) error {
	if info, err := os.Lstat(path); err != nil || info.Mode().IsRegular() {
		return NamedFile(path, renameio.WriteFile(path, b, 0o644, options...))
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	_, err = file.Write(b)
	return errors.Join(err, file.Close())
}

// NamedFile is an error about the file that a user has named, where it is about one that was to take its place.
func NamedFile(path string, err error) error {
	if of, ok := errors.AsType[*fs.PathError](err); ok {
		return &fs.PathError{Op: of.Op, Path: path, Err: of.Err}
	}
	if of, ok := errors.AsType[*os.LinkError](err); ok {
		return &fs.PathError{Op: of.Op, Path: path, Err: of.Err}
	}
	return err
}

// View is one of the answers that follow each other with -f.
type View struct {
	Time string // RFC 3339
	// From and End are the whole seconds since the last answer, one at least; Unix time.
	From, End int64
	CSV       *CSVWriter      // of all answers: it prints the title once
	Said      map[string]bool // notes, by their format or key
}

// Round begins an answer: what was asked for last time ended with the second in which that was.
func (v *View) Round(now time.Time) {
	v.From, v.End = v.End, now.Unix()
	if v.From == 0 || v.From >= v.End {
		v.From = v.End - 1
	}
}
