// SPDX-License-Identifier: Apache-2.0

package dut

import (
	"fmt"
	"strconv"

	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/dut"
	"github.com/vnetradar/radar/pkg/words"
)

// printRFC2544 prints a table for each procedure.
func printRFC2544(k *kit.Kit, r *dut.RFC2544Report) error {
	switch k.Output {
	case kit.FormatJSON:
		return kit.PrintJSON(k.Out, r)
	case kit.FormatCSV:
		return printRFC2544CSV(k, r)
	}
	printSetup(k, &r.Setup)
	fmt.Fprintf(k.Out, "trials of %gs, up to %s\n", r.DurationS, r.MaxRate)
	defer noteSlow(k, r)
	for _, print := range []func(*kit.Kit, *dut.RFC2544Report) error{printThroughput, printLatency, printLoss, printBursts} {
		if err := print(k, r); err != nil {
			return err
		}
	}
	return nil
}

// noteSlow says where the loss is that of a lower rate.
func noteSlow(k *kit.Kit, r *dut.RFC2544Report) {
	slow := 0
	for i := range r.Loss {
		if !r.Loss[i].KeptRate() {
			slow++
		}
	}
	if slow > 0 {
		k.Notef("the sender did not keep the rate in %s of the frame loss rate: FRAMES/S is what it reached", words.Plural(slow, "row"))
	}
}

// titled prints a table below its title, if it has rows.
func titled(k *kit.Kit, title string, t *kit.Table) error {
	if t.Empty() {
		return nil
	}
	fmt.Fprintf(k.Out, "\n%s\n", title)
	return k.PrintTable(t)
}

func frames(pps float64) string { return strconv.FormatFloat(pps, 'f', 0, 64) }

// limits are the words for what ended a search.
var limits = map[string]string{
	dut.ByDevice: "the device", dut.ByMaxRate: "--max-rate", dut.BySender: "the sender", dut.ByBurst: "--max-burst",
}

func printThroughput(k *kit.Kit, r *dut.RFC2544Report) error {
	t := kit.NewTable(append(right("SIZE", "FRAMES/S", "BIT RATE", "TRIALS", "LOOP FRAMES/S"), kit.Column{Title: "LIMITED BY"})...)
	for _, row := range r.Throughput {
		own := ""
		if row.SenderPPS > 0 {
			own = frames(row.SenderPPS)
		}
		t.Add(strconv.Itoa(row.Size), frames(row.PPS), words.Rate(uint64(row.Bits)), strconv.Itoa(row.Trials), own, limits[row.Limit])
	}
	return titled(k, "Throughput (26.1): the highest rate without a loss", t)
}

func printLatency(k *kit.Kit, r *dut.RFC2544Report) error {
	t := kit.NewTable(right("SIZE", "FRAMES/S", "REPEATS", "PACKETS", "LOST", "MEAN", "STDDEV", "MIN", "P50", "P90", "P99", "P99.9", "MAX", "LOOP", "STDDEV")...)
	for _, row := range r.Latency {
		cells := []string{strconv.Itoa(row.Size), frames(row.PPS), strconv.Itoa(row.Repeats), strconv.Itoa(row.Packets), strconv.Itoa(row.Lost)}
		t.Add(append(append(cells, delayCells(row.Delay)...), meanCells(row.Loopback)...)...)
	}
	return titled(k, "Latency (26.2): the delay at the throughput, from the last bit in to the first bit out", t)
}

func printLoss(k *kit.Kit, r *dut.RFC2544Report) error {
	t := kit.NewTable(right("SIZE", "% OF MAX", "FRAMES/S", "SENT", "LOST", "LOSS %")...)
	for _, row := range r.Loss {
		t.Add(strconv.Itoa(row.Size), strconv.FormatFloat(row.Percent, 'f', -1, 64), frames(row.PPS), strconv.Itoa(row.Sent), strconv.Itoa(row.Lost), fmt.Sprintf("%.3f", row.Rate))
	}
	return titled(k, "Frame loss rate (26.3)", t)
}

func printBursts(k *kit.Kit, r *dut.RFC2544Report) error {
	t := kit.NewTable(append(right("SIZE", "FRAMES", "STDDEV", "FRAMES/S", "REPEATS"), kit.Column{Title: "LIMITED BY"})...)
	for _, row := range r.Bursts {
		t.Add(strconv.Itoa(row.Size), words.Number(row.Packets, true), words.Number(row.Deviation, true), frames(row.PPS), strconv.Itoa(row.Repeats), limits[row.Limit])
	}
	return titled(k, "Back-to-back frames (26.4): the longest burst without a loss", t)
}

// verdict is a row of any procedure, as CSV has it.
type verdict struct {
	Test    string       `json:"test"`
	Size    int          `json:"size"`
	PPS     float64      `json:"pps"`
	Bits    float64      `json:"bits_per_second"`
	Packets float64      `json:"packets"`
	Lost    int          `json:"lost"`
	Loss    float64      `json:"loss_percent"`
	Limit   string       `json:"limited_by"`
	Delay   *dut.Figures `json:"delay"`
}

func printRFC2544CSV(k *kit.Kit, r *dut.RFC2544Report) error {
	var rows []verdict
	for _, t := range r.Throughput {
		rows = append(rows, verdict{Test: dut.TestThroughput, Size: t.Size, PPS: t.PPS, Bits: t.Bits, Limit: t.Limit})
	}
	for _, l := range r.Latency {
		rows = append(rows, verdict{Test: dut.TestLatency, Size: l.Size, PPS: l.PPS, Bits: l.PPS * float64(8*l.Size), Packets: float64(l.Packets), Lost: l.Lost, Delay: dut.FiguresOf(l.Delay)})
	}
	for _, l := range r.Loss {
		rows = append(rows, verdict{Test: dut.TestLoss, Size: l.Size, PPS: l.PPS, Bits: l.PPS * float64(8*l.Size), Packets: float64(l.Sent), Lost: l.Lost, Loss: l.Rate})
	}
	for _, b := range r.Bursts {
		rows = append(rows, verdict{Test: dut.TestBursts, Size: b.Size, PPS: b.PPS, Bits: b.PPS * float64(8*b.Size), Packets: b.Packets, Limit: b.Limit})
	}
	return kit.PrintRows(k, rows)
}
