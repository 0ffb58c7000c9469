// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"encoding/hex"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/vnetradar/radar/pkg/telemetry/metrics"
)

// beyondBlock is a report whose quoted INT has blocks of one word, and a bitmap that asks for three:
// the third lies behind the end of the payload.
const beyondBlock = "200000010000000704ff0020455c0048000140003c112a460a0000010a00000203e807d0003400001009000020000600b580000000000000000000010001000200000064030000070000000500000006"

// reportPacket is a datagram with a report, from its IP header on.
func reportPacket(t testing.TB, payload []byte) []byte {
	t.Helper()
	ip, err := AppendUDP(nil, netip.MustParseAddrPort("10.9.0.3:4000"), netip.MustParseAddrPort("10.9.0.1:32766"), payload)
	if err != nil {
		t.Fatal(err)
	}
	return slices.Clip(ip)
}

func unhex(t testing.TB, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// FuzzTemplate: whatever report comes twice, what fits the template that is made of it is one report
// that raises no event. Numbers and times of a report's header may look like a shim of INT to the
// decoder, which then sees no report: Collector.account counts such as rejected.
func FuzzTemplate(f *testing.F) {
	for _, ip := range frames(f) {
		if _, payload, err := (Packet{IP: ip}).UDP(); err == nil {
			f.Add(payload, uint64(1))
		}
	}
	for _, text := range []string{beyondBlock, sentP4INT, sentTS, sentE, sentCut, sentMX[0].payload, sentSFlow} {
		f.Add(unhex(f, text), uint64(1))
	}
	f.Fuzz(func(t *testing.T, payload []byte, seed uint64) {
		if len(payload) > 4096 {
			return
		}
		b := newTemplateBench(t, metrics.DefaultConfig())
		b.tr.Ports = []uint16{32766}
		ip := reportPacket(t, payload)
		n, _, _ := b.hear(ip)
		_, events, made := b.hear(slices.Clone(ip))
		if made == nil || events > 0 { // nobody uses that
			return
		}
		if n != 1 {
			t.Fatalf("a template of %d reports", n)
		}
		tmpl := *made
		tmpl.Mask, tmpl.Value, tmpl.Bands = slices.Clone(made.Mask), slices.Clone(made.Value), slices.Clone(made.Bands)
		rng := rand.New(rand.NewPCG(seed, 2))
		for range 64 {
			other := changed(rng, payload, &tmpl)
			if !tmpl.Fits(other, b.band) {
				continue
			}
			if n, events, _ := b.hear(reportPacket(t, other)); n > 1 || events != 0 {
				t.Fatalf("%d reports, %d events of what fits\n%x\n%x\nmask %x\n%+v", n, events, payload, other, tmpl.Mask, tmpl.Bands)
			}
		}
	})
}

// changed is a payload with other bytes where the template lets them be others, with a few others
// besides, or with another length.
func changed(rng *rand.Rand, payload []byte, t *Template) []byte {
	other := slices.Clone(payload)
	if rng.IntN(2) == 0 {
		for i, m := range t.Mask {
			if rng.IntN(4) == 0 {
				other[i] = other[i]&m | byte(rng.Uint32())&^m
			}
		}
	}
	for range rng.IntN(3) {
		i := rng.IntN(len(other))
		switch rng.IntN(3) {
		case 0:
			other[i] = byte(rng.Uint32())
		case 1:
			other[i] ^= 1 << rng.IntN(8)
		case 2:
			other[i] += byte(rng.IntN(3)) - 1
		}
	}
	switch rng.IntN(8) {
	case 0:
		other = other[:rng.IntN(len(other)+1)]
	case 1:
		for range rng.IntN(40) {
			other = append(other, byte(rng.Uint32()))
		}
	}
	return other
}
