// SPDX-License-Identifier: Apache-2.0

package dut

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"image/png"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vnetradar/radar/pkg/cli/clitest"
	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/dut"
)

var formats = []kit.Format{kit.FormatTable, kit.FormatWide, kit.FormatJSON, kit.FormatCSV}

func delay(least int64) *dut.Delay {
	return &dut.Delay{
		Figures: dut.Figures{MeanNs: float64(least) + 400.25, DeviationNs: 33.5, MinNs: least, P50Ns: least + 300, P90Ns: least + 600, P99Ns: least + 900, P999Ns: least + 950, MaxNs: least + 2000},
		Buckets: []dut.Bucket{{MostNs: least + 10, Packets: 5}, {MostNs: least + 300, Packets: 80}, {MostNs: least + 2000, Packets: 1}},
	}
}

func bounded(value, half float64) dut.Bounded {
	low, high := value-half, value+half
	return dut.Bounded{Value: value, Low: &low, High: &high}
}

// sample is a report with everything in it.
func sample() *dut.Report {
	r := &dut.Report{Setup: dut.Setup{
		In: "blue/eth0", Out: "red/eth0", From: "10.0.1.1:49152", To: "10.0.2.1:9", FromMAC: "02:00:00:00:00:01", ToMAC: "02:00:00:00:00:02",
		Hook: "tcx", Kernel: "6.18.0", Complete: true,
	}}
	row := func(direction string, size int, least int64) dut.Row {
		return dut.Row{Delay: delay(least), Counts: dut.Counts{
			Direction: direction, Size: size, Rate: "1kpps", AskedPPS: 1000, SentPPS: 999.6, CamePPS: 998, Sent: 100, Received: 86, Lost: 14, Duplicated: 2, Reordered: 1,
		}}
	}
	for _, size := range []int{64, 512, 1518} {
		own := row(dut.Forward, size, 500)
		r.Loopback = append(r.Loopback, own)
		for _, direction := range []string{dut.Forward, dut.Reverse, dut.Round} {
			one := row(direction, size, int64(5000+size*8))
			one.Loopback = &own.Delay.Figures
			r.Rows = append(r.Rows, one)
		}
	}
	slow, none := &r.Rows[1], &r.Rows[8]
	slow.SentPPS, slow.NotSent, slow.Resized, slow.Late = 700, 3, 2, 1
	none.Received, none.Lost, none.Delay = 0, 100, nil
	r.Fits = []dut.Fit{
		{Direction: dut.Forward, Rate: "1kpps", Of: dut.OfMin, Sizes: 3, Slope: bounded(800, 0.4), Intercept: bounded(5000, 60), BitRate: 1e7},
		{Direction: dut.Forward, Rate: "1kpps", Of: dut.OfInterval, Sizes: 3, Slope: bounded(801, 9), Intercept: bounded(-20, 600), BitRate: 9.9e6},
		{Direction: dut.Reverse, Rate: "1kpps", Of: dut.OfMedian, Sizes: 2, Slope: dut.Bounded{Value: -0.01}, Intercept: dut.Bounded{Value: 5300}},
	}
	return r
}

func printed(t *testing.T, print func(*kit.Kit) error) []byte {
	t.Helper()
	var all bytes.Buffer
	for _, format := range formats {
		fmt.Fprintf(&all, "=== %s\n%s", format, clitest.Printed(t, format, print))
	}
	return all.Bytes()
}

func TestPrintReport(t *testing.T) {
	clitest.Golden(t, "report.golden", printed(t, func(k *kit.Kit) error { return printReport(k, sample()) }))
	loop := sample()
	loop.In, loop.Rows = "", nil
	loop.Fits = loop.Fits[:1]
	clitest.Golden(t, "loopback.golden", printed(t, func(k *kit.Kit) error { return printReport(k, loop) }))
}

func TestPrintRFC2544(t *testing.T) {
	r := &dut.RFC2544Report{
		Setup: sample().Setup, DurationS: 2, MaxRate: "20kpps",
		Throughput: []dut.Throughput{{Size: 64, PPS: 19988.4, Bits: 10234060.8, Limit: dut.ByMaxRate, Trials: 1, SenderPPS: 19999}, {Size: 1518, PPS: 821.5, Bits: 9976296, Limit: dut.ByDevice, Trials: 7}},
		Latency:    []dut.Latency{{Size: 64, PPS: 19988.4, Packets: 119000, Repeats: 3, Delay: delay(1500), Loopback: &delay(500).Figures}, {Size: 1518}},
		Loss:       []dut.Loss{{Size: 64, Percent: 100, Asked: 20000, PPS: 15988, Sent: 40000, Lost: 17, Rate: 0.0425}, {Size: 64, Percent: 90, Asked: 18000, PPS: 17999, Sent: 36000}},
		Bursts:     []dut.Burst{{Size: 64, Packets: 1000, PPS: 231000, Repeats: 3, Limit: dut.ByBurst}, {Size: 1518, Packets: 66.3, Deviation: 1.15, PPS: 198000, Repeats: 3, Limit: dut.ByDevice}},
	}
	clitest.Golden(t, "rfc2544.golden", printed(t, func(k *kit.Kit) error { return printRFC2544(k, r) }))
}

// TestNothingMeasured: what has no rows prints none.
func TestNothingMeasured(t *testing.T) {
	for _, format := range formats {
		for _, print := range []func(*kit.Kit) error{
			func(k *kit.Kit) error { return printReport(k, &dut.Report{Setup: dut.Setup{In: "a/b"}}) },
			func(k *kit.Kit) error { return printRFC2544(k, &dut.RFC2544Report{}) },
		} {
			clitest.Printed(t, format, print)
		}
	}
}

// TestPlot: the drawings can be read, by others, and have what they are of.
func TestPlot(t *testing.T) {
	dir := t.TempDir()
	svg, bitmap := filepath.Join(dir, "a.svg"), filepath.Join(dir, "b.PNG")
	for _, name := range []string{svg, bitmap} {
		if err := plotReport(sample(), name); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(svg)
	if err != nil {
		t.Fatal(err)
	}
	words := ""
	for d := xml.NewDecoder(bytes.NewReader(text)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if e, ok := token.(xml.StartElement); ok {
			for _, a := range e.Attr {
				if a.Name.Local == "aria-label" { // letters are outlines
					words += a.Value + "\n"
				}
			}
		}
	}
	for _, want := range []string{"Delay over size", "Frame (bytes)", "Share of packets", "64 bytes, 1kpps\n", "1518 bytes, 1kpps, reverse", "512 bytes, 1kpps, round"} {
		if !strings.Contains(words, want) {
			t.Errorf("no %q in the drawing: %q", want, words)
		}
	}
	file, err := os.Open(bitmap)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if picture, err := png.Decode(file); err != nil || picture.Bounds().Dx() < 800 {
		t.Errorf("%v", err)
	}
	// Delays that subtracting has made negative have no logarithm.
	r := sample()
	r.Rows[0].Delay = delay(-200)
	if err := plotReport(r, svg); err != nil {
		t.Error(err)
	}
	if err := plotReport(&dut.Report{Setup: r.Setup}, svg); err != nil {
		t.Errorf("nothing measured: %v", err)
	}
	if err := plotReport(r, filepath.Join(dir, "none", "a.svg")); err == nil {
		t.Error("a folder that is not there takes a file")
	}
}
