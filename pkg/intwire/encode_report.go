// SPDX-License-Identifier: Apache-2.0

package intwire

import (
	"encoding/binary"
	"fmt"
)

// AppendReport10 appends a report of TR 1.0: header, optional metadata by RepMdBits,
// and the quoted packet r.Inner. Length is computed from the bits. Metadata that a bit
// asks for must be there: TR 1.0 has no value for "not available". On error dst is
// returned as it was.
func AppendReport10(dst []byte, r *Report) ([]byte, error) {
	if r.Layout != Report10 {
		return dst, fmt.Errorf("report layout %d: %w", r.Layout, ErrFormat)
	}
	if r.NProto > 7 || r.RepMdBits > 63 || r.HwID > 63 {
		return dst, fmt.Errorf("NProto %d, RepMdBits %d, hw_id %d: %w", r.NProto, r.RepMdBits, r.HwID, ErrRange)
	}
	bitmap := uint16(r.RepMdBits) << 10
	if err := all(TR10, bitmap, &r.Values); err != nil {
		return dst, err
	}
	w := uint32(1)<<28 | uint32(r.HeaderWords())<<24 | uint32(r.NProto)<<21 | uint32(r.RepMdBits)<<15 |
		bit(r.D, 0x100) | bit(r.Q, 0x80) | bit(r.F, 0x40) | uint32(r.HwID)
	out := dst
	for _, word := range [...]uint32{w, r.SwitchID, r.Sequence, r.IngressTS} {
		out = binary.BigEndian.AppendUint32(out, word)
	}
	out, err := appendValues(out, TR10, bitmap, &r.Values, nil, nil)
	if err != nil {
		return dst, err
	}
	return append(out, r.Inner...), nil
}

// AppendGroup appends the header of a group of reports of TR 2.0; reports follow, by
// AppendSingle. The sequence number counts modulo 2^22.
func AppendGroup(dst []byte, g *Group) ([]byte, error) {
	if g.HwID > 63 || g.Sequence >= 1<<22 {
		return dst, fmt.Errorf("hw_id %d, sequence number %d: %w", g.HwID, g.Sequence, ErrRange)
	}
	dst = binary.BigEndian.AppendUint32(dst, uint32(2)<<28|uint32(g.HwID)<<22|g.Sequence)
	return binary.BigEndian.AppendUint32(dst, g.NodeID), nil
}

// AppendSingle appends one report of TR 2.0: of type 1 with main contents, or of type 0
// without. Lengths are computed, and the quoted packet is padded with zeros to whole words.
// s.Length 255 means that the report reaches to the end of the datagram, without padding; a
// report of more than 254 words always does. Only the last report of a group may do so.
// RepMdBits must not ask for metadata that are not available: the text does not allow all
// ones. On error dst is returned as it was.
func AppendSingle(dst []byte, s *Single) ([]byte, error) {
	if s.RepType > 1 || s.InType > InnerIPv6 || s.RepMdBits&0x8000 != 0 {
		return dst, fmt.Errorf("report type %d, inner type %d, metadata bits 0x%04x: %w", s.RepType, s.InType, s.RepMdBits, ErrFormat)
	}
	start := len(dst)
	out := append(dst, s.RepType<<4|s.InType, 0, 0, uint8(bit(s.D, 0x80)|bit(s.Q, 0x40)|bit(s.F, 0x20)|bit(s.I, 0x10)))
	if s.RepType == 1 {
		if err := all(TR20, s.RepMdBits, &s.Values); err != nil {
			return dst, err
		}
		for _, v := range [...]uint16{s.RepMdBits, s.Domain, s.DSMdBits, s.DSMdStatus} {
			out = binary.BigEndian.AppendUint16(out, v)
		}
		md := len(out)
		var err error
		if out, err = appendValues(out, TR20, s.RepMdBits, &s.Values, s.MDReserved, s.DSMetadata); err != nil {
			return dst, err
		}
		n := len(out) - md
		if n%4 != 0 || n > 4*255 {
			return dst, fmt.Errorf("%d bytes of metadata: %w", n, ErrLength)
		}
		out[start+2] = uint8(n / 4)
	}
	for i := range s.TLVs {
		t := &s.TLVs[i]
		n := (len(t.Data) + 3) / 4
		if t.Type > 15 || n > 255 {
			return dst, fmt.Errorf("TLV of type %d, %d bytes: %w", t.Type, len(t.Data), ErrLength)
		}
		out = append(out, t.Type<<4, uint8(n), uint8(t.Template>>8), uint8(t.Template))
		out = pad(append(out, t.Data...), len(t.Data))
	}
	out = append(out, s.Inner...)
	if words := (len(out) - start - 1) / 4; s.Length == 255 || words > 254 {
		out[start+1] = 255
	} else {
		out = pad(out, len(s.Inner))
		out[start+1] = uint8(words)
	}
	return out, nil
}

// pad pads the last n bytes of b to whole words.
func pad(b []byte, n int) []byte {
	for ; n%4 != 0; n++ {
		b = append(b, 0)
	}
	return b
}

// all returns an error unless v has every field that a bitmap asks for.
func all(f Format, bitmap uint16, v *Values) error {
	for b := range 16 {
		row := rowsOf[f][0][b]
		if bitmap&(0x8000>>b) == 0 || row == nil {
			continue
		}
		for _, p := range row.Parts {
			if _, ok := v.Get(p.Field); !ok {
				return fmt.Errorf("%v is asked for and not there: %w", p.Field, ErrFormat)
			}
		}
	}
	return nil
}
