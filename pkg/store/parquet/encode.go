// SPDX-License-Identifier: Apache-2.0

package parquet

import (
	"encoding/binary"
	"math/bits"
)

// appendPacked appends values of width bits each, the first one in the lowest bits, filled up with
// zeros to whole groups of eight values.
func appendPacked[T uint8 | uint32 | uint64](b []byte, values []T, width int) []byte {
	if width == 0 {
		return b
	}
	var acc uint64
	have := 0
	for _, v := range values {
		acc |= uint64(v) << have
		have += width
		if have >= 64 {
			b = binary.LittleEndian.AppendUint64(b, acc)
			have -= 64
			acc = 0
			if have > 0 {
				acc = uint64(v) >> (width - have)
			}
		}
	}
	if rest := len(values) & 7; rest != 0 { // zeros for the values that are not there
		fill := (8 - rest) * width
		for fill > 0 {
			n := min(fill, 64-have)
			if have += n; have == 64 {
				b = binary.LittleEndian.AppendUint64(b, acc)
				acc, have = 0, 0
			}
			fill -= n
		}
	}
	for ; have > 0; have -= 8 {
		b = append(b, byte(acc))
		acc >>= 8
	}
	return b
}

// appendHybrid appends values of width bits as runs and as packed groups, whichever is shorter.
func appendHybrid[T uint8 | uint32](b []byte, values []T, width int) []byte {
	start := 0 // of what is to be packed
	for i := 0; i < len(values); {
		v, end := values[i], i+1
		for end < len(values) && values[end] == v {
			end++
		}
		if need := -(i - start) & 7; end-i-need >= 8 { // values of the run fill up the last group
			b = appendGroups(b, values[start:i+need], width)
			b = binary.AppendUvarint(b, uint64(end-i-need)<<1)
			for n := 0; n < width; n += 8 {
				b = append(b, byte(uint64(v)>>n))
			}
			start = end
		}
		i = end
	}
	return appendGroups(b, values[start:], width)
}

func appendGroups[T uint8 | uint32](b []byte, values []T, width int) []byte {
	if len(values) == 0 {
		return b
	}
	b = binary.AppendUvarint(b, uint64((len(values)+7)/8)<<1|1)
	return appendPacked(b, values, width)
}

// Blocks of the delta encoding.
const (
	deltaBlock = 128
	deltaMini  = 32
	deltaMinis = deltaBlock / deltaMini
)

// appendDelta appends values in DELTA_BINARY_PACKED; of 32 bits where narrow.
func appendDelta(b []byte, values []int64, narrow bool) []byte {
	b = binary.AppendUvarint(b, deltaBlock)
	b = binary.AppendUvarint(b, deltaMinis)
	b = binary.AppendUvarint(b, uint64(len(values)))
	if len(values) == 0 {
		return append(b, 0)
	}
	prev := values[0]
	if narrow {
		prev = int64(int32(prev))
	}
	b = binary.AppendVarint(b, prev)
	var deltas [deltaBlock]uint64
	for rest := values[1:]; len(rest) > 0; {
		n := min(deltaBlock, len(rest))
		lowest := int64(1<<63 - 1)
		for i, v := range rest[:n] {
			d := v - prev
			if narrow {
				d = int64(int32(d))
			}
			prev = v
			deltas[i] = uint64(d)
			lowest = min(lowest, d)
		}
		rest = rest[n:]
		b = appendBlock(binary.AppendVarint(b, lowest), &deltas, n, lowest, narrow)
	}
	return b
}

// appendBlock appends what stands behind a block's lowest delta: the widths, and the n deltas.
func appendBlock(b []byte, deltas *[deltaBlock]uint64, n int, lowest int64, narrow bool) []byte {
	clear(deltas[n:])
	var widths [deltaMinis]int
	for m := range widths {
		var all uint64
		for i := m * deltaMini; i < min(n, (m+1)*deltaMini); i++ {
			deltas[i] -= uint64(lowest)
			if narrow {
				deltas[i] = uint64(uint32(deltas[i]))
			}
			all |= deltas[i]
		}
		widths[m] = bits.Len64(all)
		b = append(b, byte(widths[m]))
	}
	for m, width := range widths {
		if m*deltaMini < n {
			b = appendPacked(b, deltas[m*deltaMini:(m+1)*deltaMini], width)
		}
	}
	return b
}

// appendSplit appends the first byte of each value, the second of each, and so on.
func appendSplit(b []byte, values []int64, size int) []byte {
	n := len(values)
	at := len(b)
	b = append(b, make([]byte, n*size)...)
	for k := range size {
		out := b[at+k*n : at+(k+1)*n]
		shift := 8 * k
		for i, v := range values {
			out[i] = byte(uint64(v) >> shift)
		}
	}
	return b
}

func appendPlain(b []byte, values []int64, size int) []byte {
	for _, v := range values {
		if size == 4 {
			b = binary.LittleEndian.AppendUint32(b, uint32(v))
		} else {
			b = binary.LittleEndian.AppendUint64(b, uint64(v))
		}
	}
	return b
}

// appendBits appends booleans, eight a byte.
func appendBits(b []byte, values []int64) []byte {
	for len(values) > 0 {
		var x byte
		n := min(8, len(values))
		for i, v := range values[:n] {
			x |= byte(v&1) << i
		}
		b, values = append(b, x), values[n:]
	}
	return b
}
