// SPDX-License-Identifier: Apache-2.0

package transparency

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
)

// row is a line of the table: a case in a mode.
type row struct {
	point                      int
	name, shows                string
	mode                       Mode
	compared, differences      int
	records, wrong, unmeasured int
	why                        []string // why packets were not measured
	known                      []string // limits
	result                     string
	found                      []finding // that no limit explains
}

// failed is the result of what did not hold.
const failed = "FAILED"

var table struct {
	sync.Mutex
	rows    []row
	skipped bool // cases cannot run here
}

func report(r row) {
	table.Lock()
	defer table.Unlock()
	table.rows = append(table.rows, r)
	if patience > 1 { // the machine may be ended before it gets to the table
		fmt.Println("row: | " + strings.Join(r.cells(), " | ") + " |")
	}
}

func (r *row) cells() []string {
	number := func(n int) string { return fmt.Sprint(n) }
	reasons := strings.Join(r.why, ", ")
	if r.unmeasured > 0 && reasons != "" {
		reasons = fmt.Sprintf("%d: %s", r.unmeasured, reasons)
	}
	result := r.result
	if len(r.known) > 0 {
		result += "; known: " + strings.Join(r.known, "; ")
	}
	return []string{number(r.point), r.name, string(r.mode), number(r.compared), number(r.differences),
		number(r.records), number(r.wrong), reasons, result}
}

var columns = []string{"POINT", "CASE", "MODE", "PACKETS", "DIFFERENT", "RECORDS", "WRONG", "NOT MEASURED", "RESULT"}

func sortRows() {
	slices.SortStableFunc(table.rows, func(a, b row) int {
		return cmp.Or(cmp.Compare(a.point, b.point), cmp.Compare(a.name, b.name), cmp.Compare(b.mode, a.mode))
	})
}

// writeTable prints all rows, in the order of the points.
func writeTable(w io.Writer) error {
	sortRows()
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, strings.Join(columns, "\t"))
	for _, r := range table.rows {
		fmt.Fprintln(tw, strings.Join(r.cells(), "\t"))
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	return writeFailed(w)
}

// writeFailed prints once more, where whoever sees only the end of it looks, what failed.
func writeFailed(w io.Writer) error {
	for _, r := range table.rows {
		if r.result != failed {
			continue
		}
		if _, err := fmt.Fprintf(w, "%s: %s %s\n%s", failed, r.name, r.mode, describe(r.found, 10)); err != nil {
			return err
		}
	}
	return nil
}

// writeMarkdown prints a row for each case, as docs/transparency.md has them (see table.sh).
func writeMarkdown(w io.Writer) error {
	sortRows()
	for i := 0; i < len(table.rows); {
		first := &table.rows[i]
		cells := map[Mode]string{Mark: "-", Header: "-"}
		var notes []string
		for ; i < len(table.rows) && table.rows[i].name == first.name; i++ {
			r := &table.rows[i]
			cells[r.mode] = r.result
			if r.compared > 0 {
				cells[r.mode] = fmt.Sprintf("%s: %d packets, %d records", r.result, r.compared, r.records)
			}
			for _, k := range r.known {
				if !slices.Contains(notes, k) {
					notes = append(notes, k)
				}
			}
		}
		if _, err := fmt.Fprintf(w, "| %d | %s | %s | %s | %s | %s |\n", first.point, first.name, first.shows,
			cells[Mark], cells[Header], strings.Join(notes, "; ")); err != nil {
			return err
		}
	}
	return nil
}
