// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
)

// maxFindings are kept of each row; all are counted.
const maxFindings = 10

// Row is one check of the report.
type Row struct {
	Check    string `json:"check"`
	Compared int    `json:"compared"`
	Wrong    int    `json:"wrong"`
	Note     string `json:"note,omitempty"`
	// MayBeEmpty: it is no failure if there was nothing to compare.
	MayBeEmpty bool `json:"-"`
	// Timed: the result depends on how quiet the machine was.
	Timed bool `json:"timed,omitempty"`
	// Unjudged: the machine may have been busy, so times beyond their bounds are counted in
	// Off and are not wrong (see Bounds).
	Unjudged bool     `json:"unjudged,omitempty"`
	Off      int      `json:"off,omitempty"`
	Findings []string `json:"findings,omitempty"` // the first ten
}

// OK reports whether something was compared and nothing was wrong.
func (r *Row) OK() bool { return r.Wrong == 0 && (r.Compared > 0 || r.MayBeEmpty) }

func (r *Row) bad(format string, args ...any) {
	r.Wrong++
	if len(r.Findings) < maxFindings {
		r.Findings = append(r.Findings, fmt.Sprintf(format, args...))
	}
}

// off notes a time beyond its bounds.
func (r *Row) off(format string, args ...any) {
	if r.Unjudged {
		r.Off++
		return
	}
	r.bad(format, args...)
}

// Excuse makes the row right, and says why in the note.
func (r *Row) Excuse(why string) {
	r.Wrong, r.Findings = 0, nil
	r.Note += "; " + why
}

// Report is the result of one round.
type Report struct {
	Title string `json:"title"`
	// Times is how often the title's case was tried; 0 is once.
	Times int    `json:"times,omitempty"`
	Rows  []*Row `json:"rows"`
}

// Add appends rows.
func (r *Report) Add(rows ...*Row) { r.Rows = append(r.Rows, rows...) }

// OK reports whether all rows are.
func (r *Report) OK() bool {
	for _, row := range r.Rows {
		if !row.OK() {
			return false
		}
	}
	return len(r.Rows) > 0
}

// Write prints the report as a table, with the findings of bad rows below.
func (r *Report) Write(w io.Writer) error {
	fmt.Fprintf(w, "%s\n", r.Title)
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "  CHECK\tCOMPARED\tWRONG\tVERDICT\tNOTE")
	for _, row := range r.Rows {
		note := row.Note
		if row.Off > 0 {
			note += fmt.Sprintf("; %d beyond the bounds", row.Off)
		}
		fmt.Fprintf(tw, "  %s\t%d\t%d\t%s\t%s\n", row.Check, row.Compared, row.Wrong, row.verdict(), strings.TrimPrefix(note, "; "))
	}
	if err := tw.Flush(); err != nil {
		return fmt.Errorf("print report: %w", err)
	}
	for _, row := range r.Rows {
		for _, f := range row.Findings {
			fmt.Fprintf(w, "  %s: %s\n", row.Check, f)
		}
	}
	return nil
}

func (r *Row) verdict() string {
	switch {
	case r.OK() && r.Unjudged:
		return "not judged"
	case r.OK():
		return "ok"
	case r.Wrong == 0:
		return "NOTHING COMPARED"
	}
	return "WRONG"
}

func diffText(what string, got, want int) string {
	return fmt.Sprintf("%s is %d, should be %d", what, got, want)
}

func itoa(i int) string { return strconv.Itoa(i) }
