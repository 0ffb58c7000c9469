// SPDX-License-Identifier: Apache-2.0

package intwire

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// The encoder's errors. Each is wrapped in text that says what it is about.
var (
	// ErrFormat: the version, form or type is not one that is encoded (INT 0.5 is not).
	ErrFormat = errors.New("not encoded")
	// ErrRange: a value does not fit its field.
	ErrRange = errors.New("value too large for its field")
	// ErrLength: a length does not fit its field, or is not whole words.
	ErrLength = errors.New("length out of range")
	// ErrHops: hops differ in size, or Hop ML is not their size.
	ErrHops = errors.New("hops of another size than Hop ML")
)

// AppendINT appends a shim (unless in.Shim.Form is NoShim: Geneve), the INT header and
// its stack: INT 1.0 and 2.x, MD and MX. Lengths are computed, and so is Hop ML if
// it is 0. Fields that the bitmap asks for and a hop lacks are written as not available,
// all ones; so are reserved instruction bits without Hop.Reserved. On error dst is
// returned as it was.
func AppendINT(dst []byte, in *INT) ([]byte, error) {
	h := &in.Header
	if h.Layout != INT10 && h.Layout != INT20 {
		return dst, fmt.Errorf("layout %v: %w", h.Layout, ErrFormat)
	}
	if h.Type != TypeMD && !(h.Type == TypeMX && h.Layout == INT20) {
		return dst, fmt.Errorf("type %d of %v: %w", h.Type, h.Layout, ErrFormat)
	}
	hopML, err := in.hopML()
	if err != nil {
		return dst, err
	}
	start := len(dst)
	out := dst
	if in.Shim.Form != NoShim {
		out = append(out, 0, 0, 0, 0) // when the length is known
	}
	body := len(out)
	if h.Layout == INT20 {
		out = appendHeader20(out, h, hopML)
	} else {
		out = appendHeader10(out, h, hopML)
	}
	for i := range in.Hops {
		if h.Type == TypeMX {
			return dst, fmt.Errorf("hops in INT-MX: %w", ErrFormat)
		}
		if out, err = appendHop(out, h, &in.Hops[i], int(hopML)); err != nil {
			return dst, fmt.Errorf("hop %d: %w", i, err)
		}
	}
	out = append(out, in.SourceWords...)
	size := len(out) - body
	if size%4 != 0 || size/4 > 255 {
		return dst, fmt.Errorf("%d bytes of INT: %w", size, ErrLength)
	}
	if in.Shim.Form == NoShim {
		if size > 124 {
			return dst, fmt.Errorf("%d bytes in a Geneve option: %w", size, ErrLength)
		}
		return out, nil
	}
	w, err := in.Shim.word(h, size/4)
	if err != nil {
		return dst, err
	}
	binary.BigEndian.PutUint32(out[start:], w)
	return out, nil
}

// hopML is the size of a hop, in words, by the header or by the hops.
func (in *INT) hopML() (uint8, error) {
	h := &in.Header
	if h.Type == TypeMX {
		return 0, nil
	}
	n := Words(h.Layout, h.Bitmap, 0)
	if len(in.Hops) > 0 {
		n += len(in.Hops[0].DS) / 4
	} else if h.HopML != 0 {
		n = int(h.HopML)
	}
	if n > 31 {
		return 0, fmt.Errorf("%d words a hop: %w", n, ErrLength)
	}
	if h.HopML != 0 && int(h.HopML) != n {
		return 0, fmt.Errorf("Hop ML %d, %d words a hop: %w", h.HopML, n, ErrHops)
	}
	return uint8(n), nil
}

// word is the shim; words is the length behind it.
func (s *Shim) word(h *Header, words int) (uint32, error) {
	counted := words
	if s.Form == ShimOld || s.Form == ShimOldGPE {
		counted++
	}
	if counted > 255 {
		return 0, fmt.Errorf("%d words: %w", counted, ErrLength)
	}
	if old := s.Form == ShimOld || s.Form == ShimOldGPE; old != (h.Layout == INT10) {
		return 0, fmt.Errorf("shim of another version: %w", ErrFormat)
	}
	n, kind := uint32(counted), uint32(h.Type)
	switch s.Form {
	case ShimOld:
		return kind<<24 | n<<8 | uint32(s.OrigDSCP&63)<<2, dscp(s.OrigDSCP)
	case ShimOldGPE:
		if s.NextProtocol > 0xff {
			return 0, fmt.Errorf("next protocol 0x%x: %w", s.NextProtocol, ErrRange)
		}
		return kind<<24 | n<<8 | uint32(s.NextProtocol), nil
	}
	w := kind<<28 | n<<16
	switch s.Form {
	case Shim20:
		w |= uint32(s.NPT&3) << 26
		switch s.NPT {
		case 0:
			return w | uint32(s.OrigDSCP&63)<<2, dscp(s.OrigDSCP)
		case 1:
			return w | uint32(s.OrigDstPort), nil
		case 2:
			return w | uint32(s.IPProto), nil
		}
		return 0, fmt.Errorf("NPT %d: %w", s.NPT, ErrFormat)
	case ShimGRE:
		if s.G {
			w |= 0x08000000
		}
		return w | uint32(s.NextProtocol), nil
	case ShimGPE:
		if s.NextProtocol > 0xff {
			return 0, fmt.Errorf("next protocol 0x%x: %w", s.NextProtocol, ErrRange)
		}
		if s.G {
			w |= 0x8000
		}
		return w | uint32(s.NextProtocol), nil
	}
	return 0, fmt.Errorf("shim form %d: %w", s.Form, ErrFormat)
}

func dscp(v uint8) error {
	if v > 63 {
		return fmt.Errorf("DSCP %d: %w", v, ErrRange)
	}
	return nil
}

func bit(v bool, mask uint32) uint32 {
	if v {
		return mask
	}
	return 0
}

func appendHeader20(dst []byte, h *Header, hopML uint8) []byte {
	w := uint32(2)<<28 | bit(h.D, 0x08000000)
	if h.Type == TypeMD {
		w |= bit(h.E, 0x04000000) | bit(h.M, 0x02000000) | uint32(hopML)<<8 | uint32(h.RemainingHops)
	}
	dst = binary.BigEndian.AppendUint32(dst, w)
	dst = binary.BigEndian.AppendUint16(dst, h.Bitmap)
	dst = binary.BigEndian.AppendUint16(dst, h.DomainID)
	dst = binary.BigEndian.AppendUint16(dst, h.DSInstruction)
	return binary.BigEndian.AppendUint16(dst, h.DSFlags)
}

func appendHeader10(dst []byte, h *Header, hopML uint8) []byte {
	w := uint32(1)<<28 | uint32(h.Rep&3)<<26 | bit(h.C, 0x02000000) | bit(h.E, 0x01000000) | bit(h.M, 0x00800000) |
		uint32(hopML)<<8 | uint32(h.RemainingHops)
	dst = binary.BigEndian.AppendUint32(dst, w)
	dst = binary.BigEndian.AppendUint16(dst, h.Bitmap)
	return append(dst, 0, 0)
}

// appendHop writes one node's block: baseline, domain-specific words, checksum
// complement.
func appendHop(dst []byte, h *Header, hop *Hop, words int) ([]byte, error) {
	start := len(dst)
	out, err := appendValues(dst, h.Layout, h.Bitmap, &hop.Values, hop.Reserved, hop.DS)
	if err != nil {
		return dst, err
	}
	if len(out)-start != 4*words {
		return dst, fmt.Errorf("%d bytes of %d: %w", len(out)-start, 4*words, ErrHops)
	}
	return out, nil
}

// appendValues writes what a bitmap asks for, and ds before the row that is last.
func appendValues(dst []byte, f Format, bitmap uint16, v *Values, reserved, ds []byte) ([]byte, error) {
	var last *Row
	for b := range 16 {
		if bitmap&(0x8000>>b) == 0 {
			continue
		}
		row := rowsOf[f][0][b]
		switch {
		case row == nil && len(reserved) >= 4:
			dst, reserved = append(dst, reserved[:4]...), reserved[4:]
		case row == nil:
			dst = append(dst, 0xff, 0xff, 0xff, 0xff)
		case row.Last:
			last = row
		default:
			var err error
			if dst, err = row.append(dst, v); err != nil {
				return dst, err
			}
		}
	}
	if dst = append(dst, ds...); last != nil {
		return last.append(dst, v)
	}
	return dst, nil
}

// append writes a row. Its parts fill words of 32 or 64 bits from the top.
func (r *Row) append(dst []byte, v *Values) ([]byte, error) {
	var w uint64
	size, used := 32*r.Words(), 0
	for _, p := range r.Parts {
		x, ok := v.Get(p.Field)
		if !ok {
			x = 1<<p.Bits - 1
		}
		if p.Bits < 64 && x>>p.Bits != 0 {
			return dst, fmt.Errorf("%v %d in %d bits: %w", p.Field, x, p.Bits, ErrRange)
		}
		used += int(p.Bits)
		w |= x << (size - used)
	}
	if size == 64 {
		return binary.BigEndian.AppendUint64(dst, w), nil
	}
	return binary.BigEndian.AppendUint32(dst, uint32(w)), nil
}

// Complement returns the word that a node writes where the bitmap's bit 15 asks
// for it, so that the transport checksum stays right (INT 1.0 to 2.1, "Checksum
// Update"). before and after are the bytes that the checksum covers, pseudo header
// included, before and after the node's change. after has 0 where the word will be, at
// an even offset. Both are padded with a zero byte if odd, as by the checksum. The word
// is never all ones, which would mean that the checksum itself was updated.
func Complement(before, after []byte) uint32 {
	// What was added, in ones' complement: after - before. The word subtracts it.
	return uint32(^Sum(after, uint32(^Sum(before, 0))))
}

// Sum is the ones' complement sum (RFC 1071) of b, with a zero byte behind it if it is odd, and
// of s. A checksum is its complement.
func Sum(b []byte, s uint32) uint16 {
	sum := uint64(s)
	for ; len(b) >= 8; b = b[8:] {
		x := binary.BigEndian.Uint64(b)
		sum += x>>32 + x&0xffffffff
	}
	for ; len(b) >= 2; b = b[2:] {
		sum += uint64(be16(b))
	}
	if len(b) == 1 {
		sum += uint64(b[0]) << 8
	}
	for sum > 0xffff {
		sum = sum&0xffff + sum>>16
	}
	return uint16(sum)
}
