// SPDX-License-Identifier: Apache-2.0

package intwire

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
)

// TestPlaces: a number read at its place is what the decoder reads, in every format, of any bitmap.
func TestPlaces(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 20000 {
		f, options, bitmap := Format(rng.IntN(int(numFormats))), Option(rng.IntN(8)), uint16(rng.Uint32())
		block := make([]byte, 4*Words(f, bitmap, options)+4*rng.IntN(3))
		for i := range block {
			block[i] = byte(rng.Uint32())
		}
		var p plan
		p.compile(planKey{bitmap: bitmap, format: f, options: options, ready: true})
		var v Values
		p.read(&v, block)
		seen := Fields(0)
		for _, at := range Places(f, bitmap, options, len(block)) {
			var n uint64
			if at.Bytes == 8 {
				n = binary.BigEndian.Uint64(block[at.Off:])
			} else {
				n = uint64(binary.BigEndian.Uint32(block[at.Off:]))
			}
			n = n >> at.Shift & (1<<at.Bits - 1)
			if seen |= 1 << at.Field; n != v.V[at.Field] {
				t.Fatalf("%v, bitmap %04x, options %d: %v is %#x at %+v, decoded %#x", f, bitmap, options, at.Field, n, at, v.V[at.Field])
			}
		}
		if seen != v.Has {
			t.Fatalf("%v, bitmap %04x, options %d: places of %b, fields %b", f, bitmap, options, seen, v.Has)
		}
	}
}
