// SPDX-License-Identifier: Apache-2.0

package recording

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/store/segments"
)

// names are those of the packets that tests add.
var names = new(packet.Registry)

// written is a recording with a description of the domain.
func written(t *testing.T, description string, packets ...*segments.Packet) (dir string) {
	t.Helper()
	dir = t.TempDir()
	w, err := segments.Create(dir, segments.Meta{Description: json.RawMessage(description)}, segments.Options{MaxAge: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range packets {
		if err := w.Add(p, names); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.AddEvent(time.Now(), EventBegin, map[string]any{}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestDescription: a description that names what it does not have is refused when the recording is opened.
func TestDescription(t *testing.T) {
	const nodes = `"nodes":[{"id":1,"name":"h1"}],`
	for ports, want := range map[string]string{
		`{"id":1,"node":1,"name":"e","role":"internal","peer":-1}`:          "",
		`{"id":1,"node":2,"name":"e","role":"internal","peer":-1}`:          "node 2",
		`{"id":1,"node":1,"name":"e","role":"internal","peer":5}`:           "peer 5",
		`{"id":1,"node":1,"name":"tap","role":"internal","peer":-1,"vm":7}`: "virtual machine 7",
		`{"id":99999,"node":1,"name":"tap","role":"internal","peer":-1}`:    "cannot unmarshal",
		`{"id":16384,"node":1,"name":"tap","role":"internal","peer":-1}`:    "number 16384",
	} {
		r, err := Open(written(t, `{`+nodes+`"ports":[`+ports+`]}`))
		if err == nil {
			r.Dir.Close()
		}
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", ports, err)
		}
	}
}

// TestSameStamp: of packets with one first stamp those that are there twice come once, however many they are, and
// no more than some are in memory.
func TestSameStamp(t *testing.T) {
	const n = 2*mostSame + 10
	var packets []*segments.Packet
	for i := range n {
		p := &segments.Packet{Source: record.EBPF, Packet: packet.Packet{Pos: uint64(i), T0: 1e18, State: record.Delivered, Segs: 1, LatencyNs: packet.NoTime}}
		packets = append(packets, p)
		if i%1000 == 0 { // a collector has kept it as well
			twice := *p
			packets = append(packets, &twice)
		}
	}
	r, err := Open(written(t, "", packets...))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Dir.Close()
	next := uint64(0)
	if err := r.Read(context.Background(), time.Time{}, time.Time{}, func(p *segments.Packet) error {
		if p.Pos != next {
			return fmt.Errorf("packet %d comes as number %d", p.Pos, next)
		}
		next++
		return nil
	}); err != nil || next != n {
		t.Errorf("%d packets, %v", next, err)
	}
	m := merge{fn: func(*segments.Packet) error { return nil }}
	for i := range n {
		if err := m.add(&segments.Packet{ID: fmt.Sprint(i)}); err != nil {
			t.Fatal(err)
		}
		if len(m.same) > mostSame || len(m.spare) > mostSpare {
			t.Fatalf("%d packets are in memory, and memory of %d", len(m.same), len(m.spare))
		}
	}
}
