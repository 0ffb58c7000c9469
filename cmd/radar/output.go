// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

// outputFormat is the value of --output.
type outputFormat string

const (
	formatTable outputFormat = "table"
	formatWide  outputFormat = "wide"
	formatJSON  outputFormat = "json"
	formatCSV   outputFormat = "csv" // of commands that print rows: see hasCSV
)

func (f *outputFormat) String() string { return string(*f) }

// Type names the value in help texts.
func (f *outputFormat) Type() string { return "format" }

// Set checks and sets the format.
func (f *outputFormat) Set(s string) error {
	switch v := outputFormat(s); v {
	case formatTable, formatWide, formatJSON, formatCSV:
		*f = v
		return nil
	}
	return fmt.Errorf("unknown format %q: use table, wide, json or csv", s)
}

// raw says that rows are printed for programs, by printRows.
func (f outputFormat) raw() bool { return f == formatJSON || f == formatCSV }

// csvAnnotation marks commands that print rows, and so can print CSV.
const csvAnnotation = "csv"

// hasCSV marks a command.
var hasCSV = map[string]string{csvAnnotation: "rows"}

// checkFormat refuses CSV where there are no rows.
func checkFormat(cmd *cobra.Command, f outputFormat) error {
	if f == formatCSV && cmd.Annotations[csvAnnotation] == "" {
		return usagef("%s prints no rows, so it has no CSV: use -o table, wide or json", cmd.CommandPath())
	}
	return nil
}

// printRows prints one object a line, or CSV. In views that are printed again and
// again (-f) each row says when.
func printRows[T any](a *app, rows []T) error {
	if a.output == formatCSV {
		return printCSV(a, rows)
	}
	for _, row := range rows {
		if a.view == nil {
			if err := printJSON(a.out, row); err != nil {
				return err
			}
			continue
		}
		var b bytes.Buffer
		if err := printJSON(&b, row); err != nil {
			return err
		}
		if _, err := fmt.Fprintf(a.out, `{"time":%q,%s`, a.view.time, b.Bytes()[1:]); err != nil {
			return err
		}
	}
	return nil
}

func printCSV[T any](a *app, rows []T) error {
	w, when, names := newCSVWriter(a.out), [][2]string(nil), []string(nil)
	if a.view != nil {
		if a.view.csv == nil {
			a.view.csv = w
		}
		w, when, names = a.view.csv, [][2]string{{"time", a.view.time}}, []string{"time"}
	}
	if err := csvTitle[T](w, names...); err != nil {
		return err
	}
	for i := range rows {
		if err := w.row(&rows[i], when...); err != nil {
			return err
		}
	}
	return w.flush()
}

// printJSON writes v as one line.
func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// column of a table.
type column struct {
	title string
	right bool // numbers
	min   int  // least width; for rows that are printed as they come
}

// table prints aligned columns, two spaces apart. Rows added are kept until
// flush; rows streamed are printed at once, with columns that only grow.
type table struct {
	columns []column
	widths  []int
	rows    [][]string
	titled  bool
}

func newTable(columns ...column) *table {
	t := &table{columns: columns, widths: make([]int, len(columns))}
	for i, c := range columns {
		t.widths[i] = max(c.min, utf8.RuneCountInString(c.title))
	}
	return t
}

// add keeps one row. Missing cells are empty; an empty cell is shown as "-",
// except in the last column.
func (t *table) add(cells ...string) {
	t.rows = append(t.rows, cells)
	for i, cell := range cells {
		t.widths[i] = max(t.widths[i], utf8.RuneCountInString(cell))
	}
}

// flush prints the title, if it has not been printed, and the rows kept.
func (t *table) flush(w io.Writer) error {
	if !t.titled {
		t.titled = true
		titles := make([]string, len(t.columns))
		for i, c := range t.columns {
			titles[i] = c.title
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

func (t *table) line(w io.Writer, cells []string) error {
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
		case c.right:
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

// plural is "1 node", "2 nodes".
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}
