// SPDX-License-Identifier: Apache-2.0

package kit_test

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vnetradar/radar/pkg/cli/clitest"
	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/record"
)

// printAll prints records at once.
func printAll(t *testing.T, p *kit.PacketPrinter, records ...*record.Record) {
	t.Helper()
	for _, r := range records {
		if err := p.Add(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Flush(); err != nil {
		t.Fatal(err)
	}
}

func TestPrintPackets(t *testing.T) {
	for _, format := range []kit.Format{kit.FormatTable, kit.FormatWide, kit.FormatJSON, kit.FormatCSV} {
		t.Run(string(format), func(t *testing.T) {
			var out bytes.Buffer
			printAll(t, kit.NewPacketPrinter(&out, format, time.UTC), clitest.SampleRecords()...)
			clitest.Golden(t, "packets."+string(format), out.Bytes())
		})
	}
}

// A title alone says that nothing matched; JSON says it by saying nothing.
func TestPrintNoPackets(t *testing.T) {
	for format, want := range map[kit.Format]bool{kit.FormatTable: true, kit.FormatWide: true, kit.FormatJSON: false, kit.FormatCSV: true} {
		var out bytes.Buffer
		printAll(t, kit.NewPacketPrinter(&out, format, time.UTC))
		if got := out.Len() > 0; got != want {
			t.Errorf("%s: printed %q", format, out.String())
		}
	}
}

// Rows that come later keep the columns where they are, or move them right.
func TestPrintPacketsAsTheyCome(t *testing.T) {
	var out bytes.Buffer
	p := kit.NewPacketPrinter(&out, kit.FormatTable, time.UTC)
	for _, r := range clitest.SampleRecords() {
		printAll(t, p, r)
	}
	clitest.Golden(t, "packets.follow", out.Bytes())
}

func TestPacketJSONIsOneObjectALine(t *testing.T) {
	var out bytes.Buffer
	records := clitest.SampleRecords()
	printAll(t, kit.NewPacketPrinter(&out, kit.FormatJSON, time.UTC), records...)
	lines := bytes.Split(bytes.TrimSuffix(out.Bytes(), []byte("\n")), []byte("\n"))
	if len(lines) != len(records) {
		t.Fatalf("%d lines for %d packets", len(lines), len(records))
	}
	for i, line := range lines {
		var back record.Record
		if err := json.Unmarshal(line, &back); err != nil {
			t.Fatalf("line %d: %v", i, err)
		}
		want := *records[i]
		if want.IsLost() {
			want.LatencyNs = nil // a time to where it was lost is no latency
		}
		if diff := cmp.Diff(&want, &back); diff != "" {
			t.Errorf("line %d changed by the round trip:\n%s", i, diff)
		}
	}
}
