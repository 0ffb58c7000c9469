// SPDX-License-Identifier: Apache-2.0

package recorded

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestWriteAndRead: what was written is read, with its times, and a file that has changed is refused.
func TestWriteAndRead(t *testing.T) {
	at := time.Date(2026, 11, 26, 4, 0, 0, 123456000, time.UTC)
	m := &Manifest{Program: Sum(), BMv2: "1.15.5", P4C: "1.2.5.16", Cases: []*Case{{
		Name: "INT-MD 2.1, what is it?", Sent: 2, Counters: map[int]Counters{1: {Done: map[int]int{0: 2}}}, Next: map[int]uint32{1: 7},
		Places: [][5]int{{3, 0, 0, -1, -1}, {0, 1, -1, -1, -1}},
		Packets: map[string][]Packet{
			"A":  {{at, []byte("first")}, {at.Add(3 * time.Microsecond), []byte("second")}},
			"L3": {{at.Add(time.Microsecond), []byte("first, marked")}},
		},
	}}}
	dir := t.TempDir()
	if err := m.Write(dir); err != nil {
		t.Fatal(err)
	}
	again, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	c := again.Case(m.Cases[0].Name)
	if c == nil || c.File != "01-int-md-2-1-what-is-it.pcapng" || c.Counters[1].Done[0] != 2 || c.Next[1] != 7 || again.BMv2 != "1.15.5" {
		t.Fatalf("read: %+v", again)
	}
	for link, list := range m.Cases[0].Packets {
		for i, p := range list {
			if got := c.Packets[link][i]; !got.Time.Equal(p.Time) || !bytes.Equal(got.Data, p.Data) {
				t.Errorf("link %s, packet %d: %v, want %v", link, i, got, p)
			}
		}
	}
	j := c.Journeys()
	if string(j[0].Sent) != "first" || string(j[0].Marked) != "first, marked" || j[0].Grown != nil || j[0].Middle != 3 || string(j[1].Sent) != "second" || j[1].Marked != nil {
		t.Errorf("journeys: %+v", j)
	}

	path := filepath.Join(dir, c.File)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, bytes.Replace(b, []byte("marked"), []byte("market"), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(dir); err == nil || !strings.Contains(err.Error(), "its checksum is not the manifest's") {
		t.Errorf("a file that has changed: %v", err)
	}
}
