// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/telemetry/metrics"
)

func newCollector(t testing.TB, tr *Translator, info Info, show func(*record.Record)) *Collector {
	t.Helper()
	return New(tr, metrics.New(metrics.DefaultConfig()), &memory{info: info}, show)
}

// TestBugAtRecord: a panic while a packet's record is made passes over this packet, and no other.
func TestBugAtRecord(t *testing.T) {
	fails, shown := true, 0
	c := newCollector(t, &Translator{}, Info{All: true}, func(*record.Record) {
		if fails {
			panic("the hook of records fails")
		}
		shown++
	})
	var told []string
	c.Warn = func(s string) { told = append(told, s) }
	ip := frames(t)["tr20-ex-embedded-int-md"]
	long := append(append([]byte(nil), ip...), make([]byte, 3000)...) // behind the datagram
	for range 3 {
		if err := c.Add(Packet{noon, long}); err != nil {
			t.Fatal(err)
		}
	}
	fails = false
	if err := c.Add(Packet{noon, ip}); err != nil {
		t.Fatal(err)
	}
	info, err := c.Close()
	if err != nil || info.Bugs != 3 || info.Counts.Packets != 4 || shown != 1 || info.Next != 1 {
		t.Errorf("%v, %d shown, %+v", err, shown, info)
	}
	want := []string{"a bug of radar", "report this", "the hook of records fails", "bug_test.go:", fmt.Sprintf("%x", ip), fmt.Sprintf("%d bytes more", len(long)-mostShown)}
	if len(told) != 1 {
		t.Fatalf("told %d times: %q", len(told), told)
	}
	for _, part := range want {
		if !strings.Contains(told[0], part) {
			t.Errorf("no %q in %q", part, told[0])
		}
	}
}

// TestBugAtPostcards: of packets whose postcards wait, one at which it fails leaves the others, both
// when their time is over and at the end.
func TestBugAtPostcards(t *testing.T) {
	n, shown := 0, 0
	c := newCollector(t, &Translator{Join: time.Second}, Info{All: true, Join: time.Second}, func(*record.Record) {
		if n++; n == 1 || n == 4 {
			panic("the hook of records fails")
		}
		shown++
	})
	ip := slices.Clone(frames(t)["tr20-ex-baseline-ipv4"])
	id := bytes.LastIndex(ip, []byte{0x45, 0}) + 5 // of the packet that is quoted
	add := func() {
		for range 3 {
			ip[id]++
			if err := c.Add(Packet{noon, ip}); err != nil {
				t.Fatal(err)
			}
		}
	}
	add()
	c.Until(noon.Add(time.Minute))
	add()
	info, err := c.Close()
	if err != nil || info.Bugs != 2 || shown != 4 || n != 6 || info.Counts.Records != 6 {
		t.Errorf("%v, %d of %d shown, %+v", err, shown, n, info)
	}
}
