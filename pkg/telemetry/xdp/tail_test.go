// SPDX-License-Identifier: Apache-2.0

package xdp

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"net/netip"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vnetradar/radar/pkg/telemetry/collect"
)

// geant is a report of two hops as GEANT's switches send it: it ends with the stack, whose last value
// is one of the metrics and lies behind the last whole word.
func geant(t *testing.T) []byte {
	t.Helper()
	b, err := os.ReadFile("../../intwire/testdata/frames.json")
	if err != nil {
		t.Fatal(err)
	}
	var frames []struct{ Name, Hex string }
	if err := json.Unmarshal(b, &frames); err != nil {
		t.Fatal(err)
	}
	for _, f := range frames {
		if f.Name == "geant-bmv2-report" {
			frame, err := hex.DecodeString(f.Hex)
			if err != nil {
				t.Fatal(err)
			}
			return frame[14+20+8:][:16+14+20+8+23*4]
		}
	}
	t.Fatal("no such frame")
	return nil
}

// withinWord makes a report that quotes Ethernet and ends with its stack: a node's id, which must be the
// same again, and its latency.
func withinWord(t *testing.T, hops int) func() []byte {
	t.Helper()
	payload, err := hex.DecodeString("2040000200000003" + "1300002000000000" + "00000000" + "0200000000020200000000010800" +
		"455c000000010000401100000a0000010a0000029c401f9000000000" + "1000000020000200a000000000000000")
	if err != nil {
		t.Fatal(err)
	}
	for hop := range hops {
		payload = binary.BigEndian.AppendUint32(payload, uint32(hops-hop))
		payload = binary.BigEndian.AppendUint32(payload, 1000)
	}
	const ip, udp, shim = 8 + 12 + 14, 8 + 12 + 14 + 20, 8 + 12 + 14 + 20 + 8
	payload[9], payload[shim+1] = byte((len(payload)-12)/4), byte(3+2*hops)
	binary.BigEndian.PutUint16(payload[ip+2:], uint16(len(payload)-ip))
	binary.BigEndian.PutUint16(payload[udp+4:], uint16(len(payload)-udp))
	packet, err := collect.AppendUDP(nil, from, to, payload)
	if err != nil {
		t.Fatal(err)
	}
	return func() []byte { return slices.Clone(packet) }
}

// TestTail: reports that end with a measured value within a word are taken, and the value of the last
// one is known.
func TestTail(t *testing.T) {
	c := shares()
	path, some := small(t, c)
	all := newHearing(t, c, 0)
	payload := geant(t)
	if len(payload)%8 == 0 {
		t.Fatalf("%d bytes are whole words", len(payload))
	}
	const (
		reports     = 600
		stack       = 16 + 14 + 20 + 8 + 4 + 8
		block       = 40
		latency     = 8
		utilization = 36
	)
	for n := range uint32(reports) {
		p := slices.Clone(payload)
		binary.BigEndian.PutUint32(p[8:], 100+n)
		binary.BigEndian.PutUint32(p[12:], 1000000*n)
		for hop := range uint32(2) {
			b := p[stack+block*hop:]
			binary.BigEndian.PutUint32(b[latency:], 400+(7*n+hop)%40)
			binary.BigEndian.PutUint32(b[utilization:], 1000+(11*n+hop)%90)
		}
		ip, err := collect.AppendUDP(nil, from, to, p)
		if err != nil {
			t.Fatal(err)
		}
		if err := all.Add(collect.Packet{At: time.Now(), IP: ip}); err != nil {
			t.Fatal(err)
		}
		if verdict := path.run(t, some, ip); verdict != xdpDrop {
			t.Fatalf("verdict %d", verdict)
		}
	}
	if err := path.Sweep(some.Collector); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(all.events, some.events); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(all.values(), some.values(), cmp.Comparer(func(x, y netip.Addr) bool { return x == y })); diff != "" {
		t.Error(diff)
	}
	info, err := some.Save()
	if err != nil {
		t.Fatal(err)
	}
	if info.XDP.FastPath < reports-10 || info.Counts.Reports != reports {
		t.Errorf("%+v, %+v", *info.XDP, info.Counts)
	}
}
