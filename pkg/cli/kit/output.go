// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

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
	rows    [][]string
	titled  bool
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
	t.rows = append(t.rows, cells)
	for i, cell := range cells {
		t.widths[i] = max(t.widths[i], utf8.RuneCountInString(cell))
	}
}

// Empty reports whether no row is kept.
func (t *Table) Empty() bool { return len(t.rows) == 0 }

// Flush prints the title, if it has not been printed, and the rows kept.
func (t *Table) Flush(w io.Writer) error {
	if !t.titled {
		t.titled = true
		titles := make([]string, len(t.columns))
		for i, c := range t.columns {
			titles[i] = c.Title
		}
		if err := t.line(w, titles); err != nil {
			return err
		}
	}
	for _, row := range t.rows {
		if err := t.line(w, row); err != nil {
			return err
		}
	}
	t.rows = t.rows[:0]
	return nil
}

// PrintTable prints a table. One without rows has no title: notes say why there is none. With -f it has, since
// rows may come.
func (k *Kit) PrintTable(t *Table) error {
	if t.Empty() && k.View == nil {
		return nil
	}
	return t.Flush(k.Out)
}

func (t *Table) line(w io.Writer, cells []string) error {
	var b strings.Builder
	last := len(t.columns) - 1
	for i, c := range t.columns {
		cell := ""
		if i < len(cells) {
			cell = cells[i]
		}
		if cell == "" && i < last {
			cell = "-"
		}
		pad := strings.Repeat(" ", max(0, t.widths[i]-utf8.RuneCountInString(cell)))
		switch {
		case c.Right:
			b.WriteString(pad + cell)
		case i < last:
			b.WriteString(cell + pad)
		default:
			b.WriteString(cell)
		}
		if i < last {
			b.WriteString("  ")
		}
	}
	_, err := io.WriteString(w, strings.TrimRight(b.String(), " ")+"\n")
	return err
}
