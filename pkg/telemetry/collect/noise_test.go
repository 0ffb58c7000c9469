// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"math/rand/v2"
	"testing"

	"github.com/vnetradar/radar/pkg/telemetry/metrics"
)

// sentSFlow begins an sFlow datagram, whose first four bits are those of a report 0.5.
const sentSFlow = "00000005000000010a00000100000000000000070000000100000000"

// TestNoise: what comes to the port of reports and has not the form of one is no report: of random
// datagrams a few in 100,000 have it by chance.
func TestNoise(t *testing.T) {
	tr := Translator{Ports: []uint16{32766}}
	engine := metrics.New(metrics.DefaultConfig())
	var r metrics.Report
	hear := func(payload []byte) {
		p := Packet{noon, reportPacket(t, payload)}
		if m := tr.Decode(p); m != nil {
			tr.Observe(m, func(o *Observed) {
				tr.measured(o, &r, p.At)
				engine.Add(&r, nil)
			})
		}
	}
	rng := rand.New(rand.NewPCG(1, 2))
	const datagrams = 100000
	payload := make([]byte, 600)
	for range datagrams {
		for i := range payload {
			payload[i] = byte(rng.Uint32())
		}
		hear(payload[:rng.IntN(len(payload)+1)])
	}
	c := tr.Counts
	t.Logf("%+v, %d events", c, engine.Counts.Events.Sum())
	if c.Packets != datagrams || c.Rejected < datagrams-10 || c.Reports > 20 || engine.Counts.Events.Sum() > 100 {
		t.Errorf("%+v, %d events", c, engine.Counts.Events.Sum())
	}
	for name, payload := range map[string][]byte{
		"sFlow":                        unhex(t, sentSFlow),
		"zeros":                        make([]byte, 64),
		"a header of a group, zeros":   append(unhex(t, "2000000100000007"), make([]byte, 64)...),
		"NetFlow 9":                    unhex(t, "000900010000000a5f5e10000000000100000000000000280100000400080004000c0004"),
		"syslog":                       []byte("<34>1 2026-11-25T02:14:15.003Z host app - - - text"),
		"DNS":                          unhex(t, "1a2b01000001000000000000076578616d706c6503636f6d0000010001"),
		"a report cut behind its head": unhex(t, sentE)[:12],
	} {
		before := tr.Counts.Rejected
		if hear(payload); tr.Counts.Rejected != before+1 {
			t.Errorf("%s: a report", name)
		}
	}
}

// TestZeroWords: words of zeros behind a report are no reports.
func TestZeroWords(t *testing.T) {
	tr := Translator{Ports: []uint16{32766}}
	m := tr.Decode(Packet{noon, reportPacket(t, append(unhex(t, sentE), make([]byte, 40)...))})
	if m == nil || tr.Counts.Reports != 1 {
		t.Errorf("%+v", tr.Counts)
	}
}
