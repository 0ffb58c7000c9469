// SPDX-License-Identifier: Apache-2.0

package intwire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
)

// Bytes of other programs are decoded and encoded to the same bytes.
func TestEncodeForeignBytes(t *testing.T) {
	var d Decoder
	var m Message
	ints, reports := 0, 0
	check := func(t *testing.T, data []byte) {
		t.Helper()
		for _, list := range [][]INT{m.INT, m.Embedded} {
			for i := range list {
				in := &list[i]
				if in.Header.Layout == INT05 || !in.HasHeader || len(in.Rest) > 0 || m.Has(CutINT) || m.Profile.INT != specOfINT(in.Header.Layout).INT {
					continue
				}
				ints++
				if b, err := AppendINT([]byte{7}, in); err != nil || b[0] != 7 || !bytes.Contains(data, b[1:]) {
					t.Errorf("INT %x, %v\nfrom %x", b, err, data)
				}
			}
		}
		var payload []byte
		switch {
		case m.Has(TailBytes) || m.Has(ZeroWords) || m.Has(ReservedMD) && m.Has(BadMDLength):
			return
		case m.HasGroup && m.Profile.Report == Profiles[spec21].Report:
			var err error
			if payload, err = AppendGroup(nil, &m.Group); err != nil {
				t.Error(err)
			}
			for i := range m.Reports {
				s := m.Reports[i]
				for f := range NumFields { // a report has no "not available": a value it is
					if s.Values.Invalid.Has(f) {
						s.Values.Set(f, s.Values.V[f])
					}
				}
				if payload, err = AppendSingle(payload, &s); err != nil {
					t.Error(err)
				}
			}
		case m.Report.Layout == Report10 && m.Profile.Report == Profiles[spec10].Report:
			var err error
			if payload, err = AppendReport10(nil, &m.Report); err != nil {
				t.Error(err)
			}
		default:
			return
		}
		reports++
		if !bytes.HasSuffix(data, payload) {
			t.Errorf("report %x\nof %x", payload, data)
		}
	}
	for _, f := range frames(t) {
		if d.Decode(&m, StartEthernet, f.data); m.Profile != nil {
			check(t, f.data)
		}
	}
	for _, c := range foreign {
		c.decode(t, &d, &m)
		check(t, c.bytes(t))
	}
	if ints < 18 || reports < 6 {
		t.Errorf("%d INT headers and %d reports were compared", ints, reports)
	}
}

// Random headers and stacks come back as they were.
func TestEncodeDecode(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var d Decoder
	var m Message
	for n := range 3000 {
		layout := INT20
		in := INT{Shim: Shim{Form: Shim20, NPT: 1, OrigDstPort: uint16(r.Uint32())}}
		h := Header{Layout: layout, Type: TypeMD, Version: 2, D: r.IntN(2) == 0, E: r.IntN(2) == 0, M: r.IntN(2) == 0, RemainingHops: uint8(r.Uint32()),
			Bitmap: uint16(r.Uint32()) | 0x8000, DomainID: 1 + uint16(r.IntN(9)), DSInstruction: uint16(r.Uint32()), DSFlags: uint16(r.Uint32())}
		if n%2 == 0 {
			layout = INT10
			in.Shim = Shim{Form: ShimOld, OrigDSCP: uint8(r.IntN(64))}
			h = Header{Layout: INT10, Type: TypeMD, Version: 1, Rep: uint8(r.IntN(4)), C: h.C, E: h.E, M: h.M, RemainingHops: h.RemainingHops, Bitmap: h.Bitmap}
		}
		in.Header = h
		words := Words(layout, h.Bitmap, 0)
		ds := 0
		if layout == INT20 {
			ds = r.IntN(32 - words)
		}
		for range r.IntN(1 + min(6, 240/(words+ds))) {
			var hop Hop
			for _, row := range Rows {
				if row.Option != 0 || row.Formats&(1<<layout) == 0 || h.Bitmap&(0x8000>>row.Bit) == 0 {
					continue
				}
				missing := r.IntN(4) == 0 && row.Bit != 15
				for _, p := range row.Parts {
					if missing {
						hop.SetInvalid(p.Field)
						hop.V[p.Field] = 1<<p.Bits - 1
					} else {
						hop.Set(p.Field, r.Uint64()>>(65-p.Bits)) // never all ones
					}
				}
			}
			hop.DS = make([]byte, 4*ds)
			for i := range hop.DS {
				hop.DS[i] = byte(r.Uint32())
			}
			in.Hops = append(in.Hops, hop)
		}
		b, err := AppendINT(nil, &in)
		if err != nil {
			t.Fatalf("%v: %+v", err, in.Header)
		}
		if h.HopML = b[6] & 31; h.HopML == 0 {
			t.Fatalf("%x", b)
		}
		udp := append([]byte{0, 1, 0x13, 0x88, 0, 0, 0, 0}, b...)
		binary.BigEndian.PutUint16(udp[4:], uint16(len(udp)))
		d.Decode(&m, StartUDP, udp)
		if len(m.INT) != 1 || m.INT[0].Header != h || len(m.INT[0].Hops) != len(in.Hops) {
			t.Fatalf("%+v\nbecame %s", in.Header, m.AppendJSON(nil))
		}
		for i := range in.Hops {
			if a, b := in.Hops[i], m.INT[0].Hops[i]; a.Values != b.Values || !bytes.Equal(a.DS, b.DS) {
				t.Fatalf("hop %d: %+v\nbecame %+v", i, a, b)
			}
		}
	}
}

// Values that do not fit are refused, and dst does not change.
func TestEncodeRefuses(t *testing.T) {
	hop := func(set func(*Hop)) []Hop {
		var h Hop
		h.Set(NodeID, 1)
		h.Set(L1In, 1)
		h.Set(L1Out, 1)
		if set != nil {
			set(&h)
		}
		return []Hop{h}
	}
	good := INT{Shim: Shim{Form: Shim20}, Header: Header{Layout: INT20, Type: TypeMD, Bitmap: 0xc000}, Hops: hop(nil)}
	if _, err := AppendINT(nil, &good); err != nil {
		t.Fatal(err)
	}
	dst := []byte{1, 2, 3}
	for _, c := range []struct {
		name   string
		change func(*INT)
		want   error
	}{
		{"version", func(in *INT) { in.Header.Layout = INT05 }, ErrFormat},
		{"type", func(in *INT) { in.Header.Type = TypeDestination }, ErrFormat},
		{"MX of 1.0", func(in *INT) { in.Header.Layout, in.Header.Type = INT10, TypeMX }, ErrFormat},
		{"hops in MX", func(in *INT) { in.Header.Type = TypeMX }, ErrFormat},
		{"shim of 1.0", func(in *INT) { in.Shim.Form = ShimOld }, ErrFormat},
		{"NPT", func(in *INT) { in.Shim.NPT = 3 }, ErrFormat},
		{"DSCP", func(in *INT) { in.Shim.OrigDSCP = 64 }, ErrRange},
		{"port", func(in *INT) { in.Hops = hop(func(h *Hop) { h.Set(L1Out, 1<<16) }) }, ErrRange},
		{"node", func(in *INT) { in.Hops = hop(func(h *Hop) { h.Set(NodeID, 1<<32) }) }, ErrRange},
		{"next protocol", func(in *INT) { in.Shim = Shim{Form: ShimGPE, NextProtocol: 256} }, ErrRange},
		{"Hop ML", func(in *INT) { in.Header.HopML = 3 }, ErrHops},
		{"domain words of one hop", func(in *INT) { in.Hops = append(in.Hops, in.Hops[0]); in.Hops[1].DS = make([]byte, 4) }, ErrHops},
		{"half a word", func(in *INT) { in.Hops[0].DS = make([]byte, 2) }, ErrHops},
		{"half a word of the source", func(in *INT) { in.SourceWords = make([]byte, 2) }, ErrLength},
		{"a hop too large", func(in *INT) { in.Hops[0].DS = make([]byte, 4*30) }, ErrLength},
		{"too many hops", func(in *INT) {
			for range 126 {
				in.Hops = append(in.Hops, in.Hops[0])
			}
		}, ErrLength},
		{"Geneve", func(in *INT) { in.Shim.Form, in.SourceWords = NoShim, make([]byte, 112) }, ErrLength},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := good
			in.Hops = hop(nil)
			c.change(&in)
			if b, err := AppendINT(dst, &in); !errors.Is(err, c.want) || !bytes.Equal(b, dst) || err.Error() == "" {
				t.Errorf("%x, %v", b, err)
			}
		})
	}
	for name, err := range map[string]error{
		"group's sequence number": second(AppendGroup(dst, &Group{Sequence: 1 << 22})),
		"group's hw_id":           second(AppendGroup(dst, &Group{HwID: 64})),
		"hw_id":                   second(AppendReport10(dst, &Report{Layout: Report10, HwID: 64})),
		"layout":                  second(AppendReport10(dst, &Report{Layout: Report05})),
		"absent metadata":         second(AppendReport10(dst, &Report{Layout: Report10, RepMdBits: 1})),
		"report type":             second(AppendSingle(dst, &Single{RepType: 2})),
		"node id's bit":           second(AppendSingle(dst, &Single{RepType: 1, RepMdBits: 0x8000})),
		"absent metadata, 2.0":    second(AppendSingle(dst, &Single{RepType: 1, RepMdBits: 1})),
		"half a word":             second(AppendSingle(dst, &Single{RepType: 1, DSMetadata: []byte{1}})),
		"TLV":                     second(AppendSingle(dst, &Single{InType: inTLV, TLVs: []TLV{{Data: make([]byte, 1024)}}})),
	} {
		if err == nil || !errors.Is(err, ErrRange) && !errors.Is(err, ErrFormat) && !errors.Is(err, ErrLength) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func second(_ []byte, err error) error { return err }

// Bytes that are known beforehand, by the layouts of the texts.
func TestEncodeBytes(t *testing.T) {
	var hop Hop
	hop.Set(NodeID, 3)
	in := INT{Shim: Shim{Form: ShimGRE, G: true, NextProtocol: 0x6558},
		Header: Header{Layout: INT20, Type: TypeMD, E: true, RemainingHops: 9, Bitmap: 0x9100}, Hops: []Hop{hop}}
	b, err := AppendINT(nil, &in)
	// No queue, no utilisation: all ones.
	want := "\x18\x06\x65\x58" + "\x24\x00\x03\x09\x91\x00\x00\x00\x00\x00\x00\x00" + "\x00\x00\x00\x03\xff\xff\xff\xff\xff\xff\xff\xff"
	if err != nil || string(b) != want {
		t.Errorf("%x, %v", b, err)
	}
	// 13 bytes quoted: four words; TLVs likewise.
	b, err = AppendSingle(nil, &Single{InType: InnerIPv6, Q: true, Inner: []byte(strings.Repeat("\x60", 13))})
	if err != nil || string(b) != "\x05\x04\x00\x40"+strings.Repeat("\x60", 13)+"\x00\x00\x00" {
		t.Errorf("%x, %v", b, err)
	}
	b, err = AppendSingle(nil, &Single{InType: InnerEthernet, Inner: make([]byte, 1500)})
	if err != nil || b[1] != 255 || len(b) != 1504 {
		t.Errorf("%x, %v", b[:4], err)
	}
}

// A node adds words: with the complement the old checksum stays right.
func TestComplement(t *testing.T) {
	// By hand: 5 was added, -5 subtracts it.
	if w := Complement([]byte{0, 1}, []byte{0, 1, 0, 5, 0, 0, 0, 0}); w != 0xfffa {
		t.Errorf("%#x", w)
	}
	sum := func(b []byte) (s uint32) { // another algorithm than the encoder's
		for i, v := range b {
			s += uint32(v) << (8 * (1 - i%2))
		}
		for s > 0xffff {
			s = s>>16 + s&0xffff
		}
		return s % 0xffff
	}
	r := rand.New(rand.NewPCG(3, 4))
	for range 2000 {
		before := make([]byte, 2*r.IntN(20))
		after := make([]byte, 4*(1+r.IntN(20)))
		for i := range before {
			before[i] = byte(r.Uint32())
		}
		for i := range after[4:] {
			after[4+i] = byte(r.Uint32())
		}
		w := Complement(before, after)
		binary.BigEndian.PutUint32(after, w)
		if sum(before) != sum(after) || w == 1<<32-1 {
			t.Fatalf("%x %x: %#x", before, after, w)
		}
	}
}
