// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vnetradar/radar/pkg/record"
)

func TestPrintPackets(t *testing.T) {
	for _, format := range []outputFormat{formatTable, formatWide, formatJSON, formatCSV} {
		t.Run(string(format), func(t *testing.T) {
			var out bytes.Buffer
			if err := newPacketPrinter(&out, format, time.UTC).print(sampleRecords()); err != nil {
				t.Fatal(err)
			}
			golden(t, "packets."+string(format), out.Bytes())
		})
	}
}

// A title alone says that nothing matched; JSON says it by saying nothing.
func TestPrintNoPackets(t *testing.T) {
	for format, want := range map[outputFormat]bool{formatTable: true, formatWide: true, formatJSON: false, formatCSV: true} {
		var out bytes.Buffer
		if err := newPacketPrinter(&out, format, time.UTC).print(nil); err != nil {
			t.Fatal(err)
		}
		if got := out.Len() > 0; got != want {
			t.Errorf("%s: printed %q", format, out.String())
		}
	}
}

// Rows that come later keep the columns where they are, or move them right.
func TestPrintPacketsAsTheyCome(t *testing.T) {
	var out bytes.Buffer
	p := newPacketPrinter(&out, formatTable, time.UTC)
	for _, r := range sampleRecords() {
		if err := p.print([]*record.Record{r}); err != nil {
			t.Fatal(err)
		}
	}
	golden(t, "packets.follow", out.Bytes())
}

func TestPacketJSONIsOneObjectALine(t *testing.T) {
	var out bytes.Buffer
	records := sampleRecords()
	if err := newPacketPrinter(&out, formatJSON, time.UTC).print(records); err != nil {
		t.Fatal(err)
	}
	lines := bytes.Split(bytes.TrimSuffix(out.Bytes(), []byte("\n")), []byte("\n"))
	if len(lines) != len(records) {
		t.Fatalf("%d lines for %d packets", len(lines), len(records))
	}
	for i, line := range lines {
		var back record.Record
		if err := json.Unmarshal(line, &back); err != nil {
			t.Fatalf("line %d: %v", i, err)
		}
		if diff := cmp.Diff(records[i], &back); diff != "" {
			t.Errorf("line %d changed by the round trip:\n%s", i, diff)
		}
	}
}
