// SPDX-License-Identifier: Apache-2.0

package xdp

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/vnetradar/radar/pkg/telemetry/collect"
	"github.com/vnetradar/radar/pkg/telemetry/generate"
	"github.com/vnetradar/radar/pkg/telemetry/metrics"
)

// spy notes what a path is given.
type spy struct {
	*Path
	key      uint64
	packet   collect.Packet
	template collect.Template
	bands    map[int]metrics.Band
}

func (s *spy) Install(key, number uint64, p collect.Packet, t *collect.Template) error {
	s.key, s.template = key, *t
	s.packet = collect.Packet{At: p.At, IP: slices.Clone(p.IP)}
	s.template.Mask, s.template.Value, s.template.Bands = slices.Clone(t.Mask), slices.Clone(t.Value), slices.Clone(t.Bands)
	return s.Path.Install(key, number, p, t)
}

func (s *spy) SetBand(index, lo, hi uint32) error {
	s.bands[int(index)] = metrics.Band{Lo: uint64(lo), Hi: uint64(hi)}
	return s.Path.SetBand(index, lo, hi)
}

// TestFits: the program takes what Template.Fits says, whatever is changed in a report: all of
// which pkg/telemetry/collect has shown to raise no event.
func TestFits(t *testing.T) {
	moving, queue := generate.Range{Min: 1000, Max: 1080}, generate.Range{Min: 50, Max: 52}
	for name, d := range map[string]generate.Description{
		"2.0":                  {Hops: 3, Latency: moving, Queue: queue},
		"1.0, IPv6":            {Version: generate.V10, Hops: 2, Latency: moving, Queue: queue, IPv6: true},
		"all values":           {Hops: 3, Latency: moving, Queue: queue},
		"postcards":            {Mode: generate.XD, Hops: 1, Latency: moving, Queue: queue},
		"19 hops":              {Hops: 19, Latency: moving, Queue: queue},
		"two words":            {Hops: 3, Latency: moving, Instructions: 0xa000},
		"within a word":        {},
		"within a word, large": {},
		"quotes IP":            {Version: generate.V10, Hops: 3, Latency: moving, Instructions: 0xf000, QuoteIP: true, Transport: generate.TCP},
	} {
		t.Run(name, func(t *testing.T) {
			c := shares()
			if strings.HasPrefix(name, "all") {
				for m := range c.Thresholds {
					c.Thresholds[m] = metrics.Threshold{Absolute: 1 << 40}
				}
			}
			path, h := small(t, c)
			s := &spy{Path: path, bands: make(map[int]metrics.Band)}
			h.Use(s)
			hops := 2
			if strings.HasSuffix(name, "large") {
				hops = 60
			}
			next := withinWord(t, hops)
			if d.Hops > 0 {
				next = packets(t, d)
			}
			for range 4 {
				path.run(t, h, next())
			}
			if s.key == 0 {
				t.Fatal("such reports have no template")
			}
			const always = 1 << 62 // whatever goes up meanwhile
			if err := path.Install(s.key, always, s.packet, &s.template); err != nil {
				t.Fatal(err)
			}
			rng := rand.New(rand.NewPCG(1, 2))
			head, _, err := path.lookup(s.key, path.flows[s.key])
			if err != nil {
				t.Fatal(err)
			}
			taken, fitted, before := 0, 0, head.Taken
			for n := range 4000 {
				ip := change(rng, s)
				_, payload, err := collect.Packet{IP: ip}.UDP()
				if err != nil {
					t.Fatal(err)
				}
				frame := append([]byte{12: 8, 13: 0}, ip...)
				if _, err := path.objs.RadarCollect.Run(&ebpf.RunOptions{Data: frame}); err != nil {
					t.Fatal(err)
				}
				head, _, err := path.lookup(s.key, path.flows[s.key])
				if err != nil {
					t.Fatal(err)
				}
				fits := s.template.Fits(payload, func(i int) metrics.Band { return s.bands[i] })
				if got := head.Taken > before; got != fits {
					t.Fatalf("packet %d: taken %v, fits %v\n%x\n%x", n, got, fits, ip, s.packet.IP)
				}
				if before = head.Taken; fits {
					fitted++
				}
				taken++
			}
			t.Logf("%d of %d fitted", fitted, taken)
			if fitted < taken/20 || fitted > taken*19/20 {
				t.Errorf("%d of %d fitted", fitted, taken)
			}
		})
	}
}

// change makes a report from the one that a template was made of: other bytes, a number in a band
// or beside it, or a shorter one.
func change(rng *rand.Rand, s *spy) []byte {
	ip := slices.Clone(s.packet.IP)
	const headers = 28
	payload := ip[headers:]
	for range 1 + rng.IntN(2) {
		switch bands := s.template.Bands; {
		case rng.IntN(40) == 0:
			n := 16 + rng.IntN(len(payload)-15)
			payload = payload[:n] // what is behind it in the frame is padding
			binary.BigEndian.PutUint16(ip[24:], uint16(n+8))
			binary.BigEndian.PutUint16(ip[2:], uint16(n+headers))
			if len(payload) < len(s.template.Mask) {
				return ip
			}
		case rng.IntN(3) == 0 && len(bands) > 0:
			b := bands[rng.IntN(len(bands))]
			lo, hi := b.Lo, b.Hi
			if b.Shared >= 0 {
				lo, hi = uint32(s.bands[b.Shared].Lo), uint32(s.bands[b.Shared].Hi)
			}
			v := []uint32{lo, hi, lo - 1, hi + 1, 0, 1<<32 - 1}[rng.IntN(6)] & b.Mask
			if b.Off+4 <= len(payload) {
				word := binary.BigEndian.Uint32(payload[b.Off:])
				binary.BigEndian.PutUint32(payload[b.Off:], word&^b.Mask|v)
			}
		default:
			payload[rng.IntN(min(len(payload), len(s.template.Mask)+8))] ^= 1 << rng.IntN(8)
		}
	}
	return ip
}
