// SPDX-License-Identifier: Apache-2.0

package parquet

import (
	"encoding/binary"
	"errors"
	"math/bits"
	"slices"
)

var (
	errShort = errors.New("a page ends too early")
	errForm  = errors.New("a page has not the form of its encoding")
)

// unpack reads values of width bits each. Bytes behind them may be there.
func unpack[T uint32 | uint64](to []T, b []byte, width int) error {
	if width > 64 || len(b) < (len(to)*width+7)/8 {
		return errShort
	}
	if width == 0 {
		clear(to)
		return nil
	}
	mask, at := uint64(1)<<width-1, 0
	if n := wholeLoads(len(to), len(b), width); width <= 57 {
		for i := range to[:n] {
			to[i] = T(binary.LittleEndian.Uint64(b[at>>3:]) >> (at & 7) & mask)
			at += width
		}
		to = to[n:]
	}
	for k := range to {
		i, shift := at>>3, at&7
		v := load(b[i:]) >> shift
		if shift+width > 64 {
			v |= uint64(b[i+8]) << (64 - shift)
		}
		to[k] = T(v & mask)
		at += width
	}
	return nil
}

// wholeLoads is for how many of n values eight bytes can be loaded from where they begin.
func wholeLoads(n, size, width int) int {
	if size < 8 {
		return 0
	}
	return min(n, ((size-8)*8+7)/width+1)
}

// load is what the next eight bytes say, of which the last ones may not be there.
func load(b []byte) (v uint64) {
	if len(b) >= 8 {
		return binary.LittleEndian.Uint64(b)
	}
	for k, x := range b {
		v |= uint64(x) << (8 * k)
	}
	return v
}

// hybrid reads indices of width bits, each less than most, from runs and packed groups.
func hybrid(to []uint32, b []byte, width, most int) error {
	if width > 32 {
		return errForm
	}
	for len(to) > 0 {
		h, used := binary.Uvarint(b)
		if used <= 0 {
			return errShort
		}
		b = b[used:]
		if h&1 == 1 {
			if h>>1 > uint64(len(to)+7)/8 || h>>1 == 0 {
				return errForm
			}
			count, size := min(len(to), int(h>>1)*8), int(h>>1)*width
			if size > len(b) {
				return errShort
			}
			if err := unpack(to[:count], b, width); err != nil {
				return err
			}
			for _, x := range to[:count] {
				if int(x) >= most {
					return errForm
				}
			}
			to, b = to[count:], b[size:]
			continue
		}
		size := (width + 7) / 8
		if h>>1 > uint64(len(to)) || h>>1 == 0 {
			return errForm
		}
		if len(b) < size {
			return errShort
		}
		v := load(b[:size])
		if v>>width != 0 || v >= uint64(most) {
			return errForm
		}
		run := to[:h>>1]
		for i := range run {
			run[i] = uint32(v)
		}
		to, b = to[len(run):], b[size:]
	}
	return nil
}

// The levels that a byte says: eight of one bit, and four of two.
var bits8, bits4 = func() (eight [256]uint64, four [256]uint32) {
	for x := range 256 {
		for i := range 8 {
			eight[x] |= uint64(x>>i&1) << (8 * i)
		}
		for i := range 4 {
			four[x] |= uint32(x>>(2*i)&3) << (8 * i)
		}
	}
	return eight, four
}()

// levels reads n levels of width bits, of which there are at most two. It uses the memory of to.
func levels(to []uint8, b []byte, width, n int) ([]uint8, error) {
	to = slices.Grow(to[:0], n+8)
	mask := uint8(1)<<width - 1
	for len(to) < n {
		h, used := binary.Uvarint(b)
		if used <= 0 {
			return to, errShort
		}
		b = b[used:]
		left := n - len(to)
		if h&1 == 0 {
			if h>>1 > uint64(left) || h>>1 == 0 {
				return to, errForm
			}
			if len(b) < 1 {
				return to, errShort
			}
			v := b[0]
			if v&^mask != 0 {
				return to, errForm
			}
			run := to[len(to) : len(to)+int(h>>1)]
			for i := range run {
				run[i] = v
			}
			to, b = to[:len(to)+len(run)], b[1:]
			continue
		}
		if h>>1 > uint64(left+7)/8 || h>>1 == 0 {
			return to, errForm
		}
		count, size := min(left, int(h>>1)*8), int(h>>1)*width
		if size > len(b) {
			return to, errShort
		}
		run := to[len(to) : len(to)+count+8]
		if width == 1 {
			for i, x := range b[:(count+7)/8] {
				binary.LittleEndian.PutUint64(run[8*i:], bits8[x])
			}
		} else {
			for i, x := range b[:(count+3)/4] {
				binary.LittleEndian.PutUint32(run[4*i:], bits4[x])
			}
		}
		to, b = to[:len(to)+count], b[size:]
	}
	return to, nil
}

// count counts levels of each value; ok is false if one is larger than most.
func count(def []uint8, most int) (of [3]int, ok bool) {
	const ones = 0x0101010101010101
	all, wrong := len(def), uint64(0)
	for ; len(def) >= 8; def = def[8:] {
		x := binary.LittleEndian.Uint64(def)
		of[1] += bits.OnesCount64(x & ones)
		of[2] += bits.OnesCount64(x >> 1 & ones)
		wrong |= x & (x >> 1) & ones
	}
	for _, d := range def {
		of[1] += int(d & 1)
		of[2] += int(d >> 1 & 1)
		wrong |= uint64(d & (d >> 1))
	}
	of[0] = all - of[1] - of[2]
	return of, wrong == 0 && (most == 2 || of[2] == 0)
}

// undelta reads values of DELTA_BINARY_PACKED.
func undelta(to []int64, b []byte, narrow bool) error {
	var head [3]uint64
	for i := range head {
		v, used := binary.Uvarint(b)
		if used <= 0 {
			return errShort
		}
		head[i], b = v, b[used:]
	}
	v, used := binary.Varint(b)
	if used <= 0 {
		return errShort
	}
	b = b[used:]
	if head != [3]uint64{deltaBlock, deltaMinis, uint64(len(to))} {
		return errForm
	}
	if len(to) == 0 {
		return nil
	}
	to[0] = v
	for rest := to[1:]; len(rest) > 0; {
		lowest, used := binary.Varint(b)
		if used <= 0 || len(b) < used+deltaMinis {
			return errShort
		}
		widths := b[used : used+deltaMinis]
		b = b[used+deltaMinis:]
		for _, width := range widths {
			n := min(deltaMini, len(rest))
			if n == 0 {
				break
			}
			size := deltaMini * int(width) / 8
			if len(b) < size {
				return errShort
			}
			var err error
			if v, err = addDeltas(rest[:n], b, int(width), v, lowest); err != nil {
				return err
			}
			rest, b = rest[n:], b[size:]
		}
	}
	if narrow { // sums of 32 bits are the lower half of those of 64
		for i, v := range to {
			to[i] = int64(int32(v))
		}
	}
	return nil
}

// addDeltas reads values that differ by lowest and width bits each, behind v; it returns the last one.
func addDeltas(to []int64, b []byte, width int, v, lowest int64) (int64, error) {
	if width == 0 {
		for i := range to {
			v += lowest
			to[i] = v
		}
		return v, nil
	}
	if width <= 57 && wholeLoads(len(to), len(b), width) == len(to) {
		mask, at := uint64(1)<<width-1, 0
		for i := range to {
			v += lowest + int64(binary.LittleEndian.Uint64(b[at>>3:])>>(at&7)&mask)
			to[i] = v
			at += width
		}
		return v, nil
	}
	var deltas [deltaMini]uint64
	if err := unpack(deltas[:len(to)], b, width); err != nil {
		return v, err
	}
	for i, d := range deltas[:len(to)] {
		v += lowest + int64(d)
		to[i] = v
	}
	return v, nil
}

// unsplit reads values whose first bytes stand together, their second ones, and so on. Of times most bytes are zero.
func unsplit(to []int64, b []byte, size int) error {
	n := len(to)
	if len(b) < n*size {
		return errShort
	}
	used := size
	for used > 1 && zeros(b[(used-1)*n:used*n]) {
		used--
	}
	first, second := b[:n], b[n:]
	switch {
	case used == 1:
		for i, x := range first {
			to[i] = int64(x)
		}
	case used == 2:
		second = second[:n]
		for i, x := range first {
			to[i] = int64(x) | int64(second[i])<<8
		}
	default:
		third := second[n : 2*n]
		second = second[:n]
		for i, x := range first {
			to[i] = int64(x) | int64(second[i])<<8 | int64(third[i])<<16
		}
	}
	for k := 3; k < used; k++ {
		shift := 8 * k
		for i, x := range b[k*n : (k+1)*n] {
			to[i] |= int64(uint64(x) << shift)
		}
	}
	if size == 4 && used == 4 {
		for i, v := range to {
			to[i] = int64(int32(v))
		}
	}
	return nil
}

func zeros(b []byte) bool {
	for ; len(b) >= 8; b = b[8:] {
		if binary.LittleEndian.Uint64(b) != 0 {
			return false
		}
	}
	return load(b) == 0
}

func plain(to []int64, b []byte, size int) error {
	if len(b) < len(to)*size {
		return errShort
	}
	for i := range to {
		if size == 4 {
			to[i] = int64(int32(binary.LittleEndian.Uint32(b[4*i:])))
		} else {
			to[i] = int64(binary.LittleEndian.Uint64(b[8*i:]))
		}
	}
	return nil
}

func unbits(to []int64, b []byte) error {
	if len(b) < (len(to)+7)/8 {
		return errShort
	}
	for i := range to {
		to[i] = int64(b[i/8]>>(i%8)) & 1
	}
	return nil
}

// words reads the texts of a dictionary. They share memory.
func words(b []byte, n int) ([]string, error) {
	if n > len(b)/4 {
		return nil, errShort
	}
	dict, all := make([]string, n), string(b)
	at := 0
	for i := range dict {
		if len(b)-at < 4 {
			return nil, errShort
		}
		size := binary.LittleEndian.Uint32(b[at:])
		if at += 4; uint64(size) > uint64(len(b)-at) {
			return nil, errShort
		}
		dict[i] = all[at : at+int(size)]
		at += int(size)
	}
	return dict, nil
}
