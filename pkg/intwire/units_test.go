// SPDX-License-Identifier: Apache-2.0

package intwire

import (
	"bytes"
	"encoding/binary"
	"testing"
)

// TestUnits: a latency that is not the difference of the times, in the units that the source is assumed
// to have, is doubted. Where units are not known, or a small clock has wrapped, nothing is.
func TestUnits(t *testing.T) {
	for _, c := range []struct {
		name                string
		units               unitsOf
		latency, from, till uint64
		short               bool
		anomaly             bool
	}{
		{"us, both", unitsOf{1000, 1000, true}, 416, 1000, 1416, false, false},
		{"us beside ns, as GEANT sends it", unitsOf{1000, 1, true}, 416, 5000, 421000, false, false},
		{"the same, taken for ns", unitsOf{1, 1, true}, 416, 5000, 421000, false, true},
		{"ns, taken for GEANT's of BMv2", unitsOf{1000, 1, true}, 416000, 5000, 421000, false, true},
		{"of one unit, nobody says which", unitsOf{1, 0, false}, 416, 1000, 1416, false, false},
		{"of two units, nobody says which", unitsOf{1, 0, false}, 416, 5000, 421000, false, true},
		{"us by the operator, times in ns", unitsOf{1000, 0, true}, 416, 5000, 421000, false, false},
		{"us by the operator, times in us", unitsOf{1000, 0, true}, 416, 1000, 1416, false, false},
		{"us by the operator, times in nothing like it", unitsOf{1000, 0, true}, 416, 0, 50_000_000, false, true},
		{"rounded to us", unitsOf{1, 1000, true}, 700, 10, 10, false, false},
		{"a part of the time only", unitsOf{1, 1, true}, 100, 0, 1000, false, false},
		{"32 bits begin anew", unitsOf{1, 1, true}, 1000, 1<<32 - 500, 500, true, false},
		{"32 bits begin anew, not of 32", unitsOf{1, 1, true}, 1000, 1<<32 - 500, 500, false, false},
		{"ages", unitsOf{1e6, 1e6, true}, 1<<32 - 2, 0, 1 << 63, false, true},
	} {
		var m Message
		var v Values
		v.Set(HopLatency, c.latency)
		v.Set(IngressTS, c.from)
		v.Set(EgressTS, c.till)
		if c.units.agree(&m, &v, c.short) == c.anomaly || m.Has(OtherUnits) != c.anomaly {
			t.Errorf("%s: %v", c.name, m.Anomalies)
		}
		v.SetInvalid(HopLatency)
		if !c.units.agree(&m, &v, c.short) {
			t.Errorf("%s: a latency that is not available", c.name)
		}
	}
}

// TestLatencyUnit: the Decoder's unit comes before the profile's. If neither has one it is ns.
func TestLatencyUnit(t *testing.T) {
	var payload []byte
	for _, c := range foreign {
		if c.name == "P4-INT as it is today: version 2, length 0" {
			payload = c.bytes(t)
		}
	}
	const latency = 8 + 12 + 14 + 20 + 8 + 4 + 12 + 8 // of the newest hop
	inNs := bytes.Clone(payload)
	binary.BigEndian.PutUint32(inNs[latency:], 1282000)
	for _, c := range []struct {
		name    string
		payload []byte
		given   uint32
		want    uint32
		anomaly bool
	}{
		{"by the profile", payload, 0, 1000, false},
		{"given", inNs, 1, 1, true}, // of the other hops
		{"latencies in ns", inNs, 0, 1000, true},
		{"nothing known", sixHops(t), 0, 1, false},
		{"nothing known, given", sixHops(t), 1000, 1000, false},
	} {
		d, m := Decoder{LatencyNs: c.given}, Message{}
		d.DecodeReport(&m, c.payload)
		if m.LatencyNs != c.want || m.Has(OtherUnits) != c.anomaly {
			t.Errorf("%s: %d, %v", c.name, m.LatencyNs, m.Anomalies)
		}
	}
}
