// SPDX-License-Identifier: Apache-2.0

package dut

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/dut"
	"github.com/vnetradar/radar/pkg/words"
)

// printReport prints what a sweep has found.
func printReport(k *kit.Kit, r *dut.Report) error {
	switch k.Output {
	case kit.FormatJSON:
		return kit.PrintJSON(k.Out, r)
	case kit.FormatCSV:
		return kit.PrintRows(k, csvRows(r))
	}
	rows, own := r.Rows, false
	if r.In == "" {
		rows, own = r.Loopback, true
	}
	return k.RowsFirst(func() error {
		if len(rows) == 0 {
			return nil
		}
		printSetup(k, &r.Setup)
		if err := printRows(k, rows, own); err != nil {
			return err
		}
		if err := printFits(k, r.Fits); err != nil {
			return err
		}
		noteRows(k, rows)
		return nil
	})
}

func printSetup(k *kit.Kit, s *dut.Setup) {
	if s.In == "" {
		fmt.Fprintf(k.Out, "loop-back: two namespaces, one link; Linux %s\n", s.Kernel)
		return
	}
	fmt.Fprintf(k.Out, "%s (%s) to %s (%s); Linux %s\n", s.In, s.From, s.Out, s.To, s.Kernel)
}

func right(titles ...string) (columns []kit.Column) {
	for _, title := range titles {
		columns = append(columns, kit.Column{Title: title, Right: true})
	}
	return columns
}

// printRows prints a line for each size, rate and direction. own: these are of the loop-back.
func printRows(k *kit.Kit, rows []dut.Row, own bool) error {
	wide := k.Output == kit.FormatWide
	columns := right("SIZE", "RATE", "SENT/S", "SENT", "LOST", "DUP", "REORD")
	directions := rows[0].Direction != rows[len(rows)-1].Direction
	if directions {
		columns = append([]kit.Column{{Title: "DIRECTION"}}, columns...)
	}
	if wide {
		columns = append(columns, right("CAME/S", "NOT SENT", "RESIZED", "LATE")...)
	}
	columns = append(columns, right("MEAN", "STDDEV", "MIN", "P50", "P90", "P99", "P99.9", "MAX")...)
	if !own {
		columns = append(columns, right("LOOP", "STDDEV")...)
	}
	if wide {
		columns = append(columns, kit.Column{Title: "DISTRIBUTION"})
	}
	t := kit.NewTable(columns...)
	for i := range rows {
		r := &rows[i]
		cells := []string{strconv.Itoa(r.Size), r.Rate, words.Number(r.SentPPS, r.SentPPS < 100), strconv.Itoa(r.Sent), strconv.Itoa(r.Lost), strconv.Itoa(r.Duplicated), strconv.Itoa(r.Reordered)}
		if directions {
			cells = append([]string{r.Direction}, cells...)
		}
		if wide {
			cells = append(cells, words.Number(r.CamePPS, r.CamePPS < 100), strconv.Itoa(r.NotSent), words.Decimal(r.Resized), words.Decimal(r.Late))
		}
		cells = append(cells, delayCells(r.Delay)...)
		if !own {
			cells = append(cells, meanCells(r.Loopback)...)
		}
		if wide {
			cells = append(cells, bars(r.Delay))
		}
		t.Add(cells...)
	}
	return k.PrintTable(t)
}

func delayCells(d *dut.Delay) []string {
	if d == nil {
		return make([]string, 8)
	}
	cells := meanCells(&d.Figures)
	for _, ns := range []int64{d.MinNs, d.P50Ns, d.P90Ns, d.P99Ns, d.P999Ns, d.MaxNs} {
		cells = append(cells, words.Duration(float64(ns)))
	}
	return cells
}

func meanCells(d *dut.Figures) []string {
	if d == nil {
		return []string{"", ""}
	}
	return []string{words.Duration(d.MeanNs), words.Duration(d.DeviationNs)}
}

// bars draws a distribution from the least to the 99th percentile, in steps of the same width.
func bars(d *dut.Delay) string {
	const steps = 24
	if d == nil {
		return ""
	}
	var counts [steps]int
	low, width := d.MinNs, max((d.P99Ns-d.MinNs)/steps+1, 1)
	most := 0
	for _, b := range d.Buckets {
		i := int((min(b.MostNs, d.MaxNs) - low) / width)
		if i < 0 || i >= steps {
			continue
		}
		counts[i] += b.Packets
		most = max(most, counts[i])
	}
	heights := []rune(" ▁▂▃▄▅▆▇█")
	var text strings.Builder
	for _, n := range counts {
		h := 0
		if n > 0 {
			h = max(1, n*(len(heights)-1)/most)
		}
		text.WriteRune(heights[h])
	}
	return "|" + text.String() + "|"
}

// fitted are the words for what a line goes through.
var fitted = map[string]string{dut.OfMin: "least delay", dut.OfMedian: "median delay", dut.OfInterval: "interval"}

// printFits prints the lines through delays over sizes.
func printFits(k *kit.Kit, fits []dut.Fit) error {
	if len(fits) == 0 {
		return nil
	}
	fmt.Fprintln(k.Out)
	directions := fits[0].Direction != fits[len(fits)-1].Direction
	columns := append([]kit.Column{{Title: "OVER SIZE"}},
		right("RATE", "SERIALISATION", "95 %", "BIT RATE", "PROCESSING", "95 %")...)
	t := kit.NewTable(columns...)
	for i := range fits {
		f := &fits[i]
		of := fitted[f.Of]
		if directions {
			of += ", " + f.Direction
		}
		rate := ""
		if f.BitRate > 0 && f.BitRate < 1e15 {
			rate = words.Rate(uint64(f.BitRate))
		}
		t.Add(of, f.Rate, nsPerByte(f.Slope.Value)+" ns/byte", span(f.Slope, nsPerByte), rate, words.Duration(f.Intercept.Value), span(f.Intercept, words.Duration))
	}
	return k.PrintTable(t)
}

func nsPerByte(v float64) string { return words.Number(v, true) }

func span(b dut.Bounded, text func(float64) string) string {
	if b.Low == nil {
		return ""
	}
	return text(*b.Low) + " to " + text(*b.High)
}

// noteRows says what rows do not.
func noteRows(k *kit.Kit, rows []dut.Row) {
	slow, full, resized, late, none := 0, 0, uint64(0), uint64(0), 0
	for i := range rows {
		r := &rows[i]
		if !r.KeptRate() {
			slow++
		}
		full += r.NotSent
		resized, late = max(resized, r.Resized), max(late, r.Late)
		if r.Delay == nil {
			none++
		}
	}
	if slow > 0 {
		k.Notef("the sender did not keep the rate in %s of %d: SENT/S is what it reached; it shares the CPUs with the device", words.Plural(slow, "row"), len(rows))
	}
	if full > 0 {
		k.Notef("%s found no room in the queue of the port itself, and were not sent", words.Plural(full, "packet"))
	}
	if resized > 0 {
		k.Notef("packets came with another length than they were sent with: the device has changed them")
	}
	if late > 0 {
		k.Notef("packets came after their row had ended, and count as lost there: wait longer by --wait")
	}
	if none > 0 {
		k.Notef("in %s no packet arrived", words.Plural(none, "row"))
	}
}

// csvRow is a row as CSV has it: without distributions, which are lists.
type csvRow struct {
	Run string `json:"run"`
	dut.Counts
	Delay        *dut.Figures `json:"delay"`
	Loopback     *dut.Figures `json:"loopback"`
	SubtractedNs int64        `json:"subtracted_ns"`
}

func csvRows(r *dut.Report) (rows []csvRow) {
	for _, list := range []struct {
		run  string
		rows []dut.Row
	}{{"loop-back", r.Loopback}, {"device", r.Rows}} {
		for _, row := range list.rows {
			rows = append(rows, csvRow{list.run, row.Counts, dut.FiguresOf(row.Delay), row.Loopback, row.SubtractedNs})
		}
	}
	return rows
}
