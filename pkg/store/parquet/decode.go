// SPDX-License-Identifier: Apache-2.0

package parquet

import (
	"encoding/binary"
	"errors"
	"slices"
)

var (
	errShort = errors.New("a page ends too early")
	errForm  = errors.New("a page has not the form of its encoding")
)

// unpack appends n values of width bits each.
func unpack(to []uint64, b []byte, width, n int) ([]uint64, error) {
	if width > 64 || len(b) < (n*width+7)/8 {
		return to, errShort
	}
	to = slices.Grow(to, n)
	mask := uint64(1)<<width - 1
	at := 0
	for range n {
		i, shift := at>>3, at&7
		var v uint64
		if i+8 <= len(b) {
			v = binary.LittleEndian.Uint64(b[i:]) >> shift
		} else {
			for k, x := range b[i:] {
				v |= uint64(x) << (8 * k)
			}
			v >>= shift
		}
		if shift+width > 64 {
			v |= uint64(b[i+8]) << (64 - shift)
		}
		to = append(to, v&mask)
		at += width
	}
	return to, nil
}

// hybrid reads n values of width bits from runs and packed groups.
func hybrid(to []uint64, b []byte, width, n int) ([]uint64, error) {
	if width > 32 {
		return to, errForm
	}
	to = slices.Grow(to, n)
	for n > 0 {
		h, used := binary.Uvarint(b)
		if used <= 0 {
			return to, errShort
		}
		b = b[used:]
		if h&1 == 1 {
			if h>>1 > uint64(n+7)/8 {
				return to, errForm
			}
			count, size := min(n, int(h>>1)*8), int(h>>1)*width
			if size > len(b) {
				return to, errShort
			}
			var err error
			if to, err = unpack(to, b[:size], width, count); err != nil {
				return to, err
			}
			b, n = b[size:], n-count
			if count == 0 {
				return to, errForm
			}
			continue
		}
		size := (width + 7) / 8
		if h>>1 > uint64(n) || h>>1 == 0 {
			return to, errForm
		}
		if len(b) < size {
			return to, errShort
		}
		var v uint64
		for k, x := range b[:size] {
			v |= uint64(x) << (8 * k)
		}
		if v>>width != 0 {
			return to, errForm
		}
		for range h >> 1 {
			to = append(to, v)
		}
		b, n = b[size:], n-int(h>>1)
	}
	return to, nil
}

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
		if need := (count*width + 7) / 8; need > size {
			return to, errShort
		}
		at := len(to)
		for _, x := range b[:(count*width+7)/8] {
			for shift := 0; shift < 8; shift += width {
				to = append(to, x>>shift&mask)
			}
		}
		to, b = to[:at+count], b[size:]
	}
	return to, nil
}

// undelta reads n values of DELTA_BINARY_PACKED.
func undelta(b []byte, n int, narrow bool) ([]int64, error) {
	var head [3]uint64
	for i := range head {
		v, used := binary.Uvarint(b)
		if used <= 0 {
			return nil, errShort
		}
		head[i], b = v, b[used:]
	}
	first, used := binary.Varint(b)
	if used <= 0 {
		return nil, errShort
	}
	b = b[used:]
	if head != [3]uint64{deltaBlock, deltaMinis, uint64(n)} {
		return nil, errForm
	}
	if n == 0 {
		return nil, nil
	}
	values := append(make([]int64, 0, n), first)
	var deltas []uint64
	for len(values) < n {
		lowest, used := binary.Varint(b)
		if used <= 0 || len(b) < used+deltaMinis {
			return nil, errShort
		}
		widths := b[used : used+deltaMinis]
		b = b[used+deltaMinis:]
		for _, width := range widths {
			if len(values) == n {
				break
			}
			size := deltaMini * int(width) / 8
			if len(b) < size {
				return nil, errShort
			}
			var err error
			if deltas, err = unpack(deltas[:0], b[:size], int(width), deltaMini); err != nil {
				return nil, err
			}
			b = b[size:]
			for _, d := range deltas[:min(deltaMini, n-len(values))] {
				v := values[len(values)-1] + lowest + int64(d)
				if narrow {
					v = int64(int32(v))
				}
				values = append(values, v)
			}
		}
	}
	return values, nil
}

// unsplit reads n values whose first bytes stand together, their second ones, and so on.
func unsplit(b []byte, n, size int) ([]int64, error) {
	if len(b) < n*size {
		return nil, errShort
	}
	values := make([]int64, n)
	for k := range size {
		shift := 8 * k
		for i, x := range b[k*n : (k+1)*n] {
			values[i] |= int64(uint64(x) << shift)
		}
	}
	if size == 4 {
		for i, v := range values {
			values[i] = int64(int32(v))
		}
	}
	return values, nil
}

func plain(b []byte, n, size int) ([]int64, error) {
	if len(b) < n*size {
		return nil, errShort
	}
	values := make([]int64, n)
	for i := range values {
		if size == 4 {
			values[i] = int64(int32(binary.LittleEndian.Uint32(b[4*i:])))
		} else {
			values[i] = int64(binary.LittleEndian.Uint64(b[8*i:]))
		}
	}
	return values, nil
}

func unbits(b []byte, n int) ([]int64, error) {
	if len(b) < (n+7)/8 {
		return nil, errShort
	}
	values := make([]int64, n)
	for i := range values {
		values[i] = int64(b[i/8]>>(i%8)) & 1
	}
	return values, nil
}

// words reads the texts of a dictionary.
func words(b []byte, n int) ([]string, error) {
	if n > len(b)/4 {
		return nil, errShort
	}
	dict := make([]string, n)
	for i := range dict {
		if len(b) < 4 {
			return nil, errShort
		}
		size := binary.LittleEndian.Uint32(b)
		if b = b[4:]; uint64(size) > uint64(len(b)) {
			return nil, errShort
		}
		dict[i], b = string(b[:size]), b[size:]
	}
	return dict, nil
}
