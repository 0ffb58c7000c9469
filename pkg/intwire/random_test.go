// SPDX-License-Identifier: Apache-2.0

package intwire

import (
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestRandomBytes decodes packets that were changed at random, without go fuzz, for which
// an input takes thirty times as long. RADAR_FUZZ says for how long (60s) or how many
// (50000000x), RADAR_FUZZ_SEED from where
// (else the clock does; without RADAR_FUZZ the inputs are the same every time). A failure prints what makes it again.
func TestRandomBytes(t *testing.T) {
	count, until, seed := uint64(200_000), time.Time{}, uint64(1)
	if v := os.Getenv("RADAR_FUZZ"); v != "" {
		seed = uint64(time.Now().UnixNano())
		if n, ok := strings.CutSuffix(v, "x"); ok {
			var err error
			if count, err = strconv.ParseUint(n, 10, 64); err != nil {
				t.Fatalf("RADAR_FUZZ=%q: %v", v, err)
			}
		} else {
			d, err := time.ParseDuration(v)
			if err != nil {
				t.Fatalf("RADAR_FUZZ=%q: %v", v, err)
			}
			count, until = 1<<63, time.Now().Add(d)
		}
	}
	if v := os.Getenv("RADAR_FUZZ_SEED"); v != "" {
		var err error
		if seed, err = strconv.ParseUint(v, 10, 64); err != nil {
			t.Fatalf("RADAR_FUZZ_SEED=%q: %v", v, err)
		}
	}
	var seeds [][]byte
	for _, f := range frames(t) {
		seeds = append(seeds, append([]byte{0}, f.data...))
	}
	for _, c := range foreign {
		seeds = append(seeds, append([]byte{c.start()}, c.bytes(t)...))
	}
	seeds = append(seeds, append([]byte{5}, sixHops(t)...))

	r := rand.New(rand.NewPCG(seed, 0))
	var d Decoder
	var m, again Message
	var buf, data []byte
	found, n := uint64(0), uint64(0)
	defer func() {
		if p := recover(); p != nil {
			t.Fatalf("input %d of seed %d, profile %v, start and bytes %x: %v", n, seed, d.Profile, data, p)
		}
		t.Logf("%d inputs of seed %d, in %d INT or a report was found, %d anomalies of %d kinds", n, seed, found, anomalies(&d), kinds(&d))
	}()
	for ; n < count; n++ {
		if n%4096 == 0 && !until.IsZero() && time.Now().After(until) {
			break
		}
		buf = mutate(r, append(buf[:0], seeds[r.IntN(len(seeds))]...), seeds)
		data = buf
		profile := max(0, r.IntN(3*len(Profiles))-2*len(Profiles)+1)
		if d.Profile = nil; profile > 0 {
			d.Profile = &Profiles[profile-1]
		}
		// Exactly as large, so that even the slice's capacity ends with it.
		packet := data[1:len(data):len(data)]
		if start := data[0] % 6; start == 5 {
			d.DecodeReport(&m, packet)
		} else {
			d.Decode(&m, Start(start), packet)
		}
		if m.Profile != nil {
			found++
		}
		if n%64 == 0 {
			checkMessage(t, &m, packet)
		}
		checkEncoder(t, &m, &again, packet, profile)
		if t.Failed() {
			return
		}
	}
}

func anomalies(d *Decoder) (n uint64) {
	for _, c := range d.Counts {
		n += c
	}
	return n
}

func kinds(d *Decoder) (n int) {
	for _, c := range d.Counts {
		if c > 0 {
			n++
		}
	}
	return n
}

// mutate changes a packet in a few places. Its first byte, the start, stays.
func mutate(r *rand.Rand, b []byte, seeds [][]byte) []byte {
	for range 1 + r.IntN(5) {
		if len(b) < 2 {
			return b
		}
		at := 1 + r.IntN(len(b)-1)
		switch r.IntN(9) {
		case 0:
			b[at] ^= 1 << r.IntN(8)
		case 1:
			b[at] = [...]byte{0, 1, 0x7f, 0x80, 0xff, 3, 0x10, 0x20}[r.IntN(8)]
		case 2:
			b[at] = byte(r.Uint32())
		case 3:
			b[at] += byte(r.IntN(5)) - 2
		case 4: // cut
			b = b[:at]
		case 5: // a word more
			b = append(b[:at], append([]byte{byte(r.Uint32()), 0, 0, byte(r.Uint32())}, b[at:]...)...)
		case 6: // some bytes less
			b = append(b[:at], b[min(len(b), at+1+r.IntN(8)):]...)
		case 7: // the end of another packet
			other := seeds[r.IntN(len(seeds))]
			b = append(b[:at], other[min(len(other), 1+r.IntN(len(other))):]...)
		case 8: // the beginning of another packet in the middle of this one
			other := seeds[r.IntN(len(seeds))]
			copy(b[at:], other[1:])
		}
	}
	return b
}
