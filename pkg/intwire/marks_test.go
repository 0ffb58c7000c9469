// SPDX-License-Identifier: Apache-2.0

package intwire

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"
)

// ipSum updates an IPv4 header's checksum.
func ipSum(frame []byte) []byte {
	frame[24], frame[25] = 0, 0
	binary.BigEndian.PutUint16(frame[24:], ^Sum(frame[14:34], 0))
	return frame
}

// Variants are recognised with any DSCP that is no ordinary class, at any port, and 2.x with
// any DSCP. INT 0.5 and 1.0 are not recognised with the DSCP of an ordinary class.
func TestAnyMark(t *testing.T) {
	var d Decoder
	var m Message
	ports := []uint16{0, 1, 53, 443, 4789, 4790, 6081, 5000, 9999, 32766, 65535}
	for _, f := range frames(t) {
		if f.data[12] != 0x08 || strings.HasPrefix(f.Name, "mmtdpi-dscp") || f.data[23] == 47 {
			continue
		}
		d.Decode(&m, StartEthernet, f.data)
		name := m.Profile.Name
		report := m.HasGroup || m.Report.Layout != NoReport
		udp := f.data[23] == 17 && (report || len(m.INT) > 0 && m.INT[0].Carrier == OverUDP)
		if udp {
			for _, port := range ports {
				if d.Decode(&m, StartEthernet, put(f.data, 36, byte(port>>8), byte(port))); m.Profile == nil || m.Profile.Name != name {
					t.Errorf("%s at port %d: %s", f.Name, port, m.AppendJSON(nil))
				} else if missing := lacks("", f.Expected, asJSON(t, &m)); len(missing) > 0 {
					t.Errorf("%s at port %d: %v", f.Name, port, missing)
				}
			}
		}
		old := len(m.INT) > 0 && !report && m.INT[0].Header.Layout != INT20
		for dscp := range byte(64) {
			d.Decode(&m, StartEthernet, ipSum(put(f.data, 15, dscp<<2)))
			if old && ordinaryDSCP(dscp) {
				if m.Profile != nil || !m.Has(OrdinaryClass) {
					t.Errorf("%s under DSCP %d: %s", f.Name, dscp, m.AppendJSON(nil))
				}
				continue
			}
			if m.Profile == nil || m.Profile.Name != name {
				t.Errorf("%s under DSCP %d: %s", f.Name, dscp, m.AppendJSON(nil))
			}
		}
	}
}

// The classes of RFC 2474, 2597, 3246 and 5865, by hand, and those that INT programs use.
func TestOrdinaryDSCP(t *testing.T) {
	ordinary := map[uint8]bool{}
	for _, v := range []uint8{0, 8, 16, 24, 40, 48, 56, 10, 12, 14, 18, 20, 22, 26, 28, 30, 34, 36, 38, 46, 44} {
		ordinary[v] = true
	}
	for v := range uint8(64) {
		if ordinaryDSCP(v) != ordinary[v] {
			t.Errorf("DSCP %d: %v", v, ordinaryDSCP(v))
		}
	}
}

// INT without a mark must be right in every respect: in each of these one bit or word is
// wrong, and it is not taken as INT.
func TestUnmarked(t *testing.T) {
	udp := func(words ...uint32) []byte {
		b := []byte{0x10, 0, 0x10, 1, 0, byte(8 + 4*len(words)), 0, 0}
		for _, w := range words {
			b = binary.BigEndian.AppendUint32(b, w)
		}
		return b
	}
	for _, c := range []struct {
		name  string
		words []uint32
		taken bool
	}{
		{"right", []uint32{0x10040000, 0x20000107, 0x80000000, 0, 1}, true},
		{"right, of a domain", []uint32{0x10040000, 0x20000107, 0x00000007, 0x80000000, 1}, true},
		{"no instruction at all", []uint32{0x10040000, 0x20000107, 0x00000007, 0, 1}, false},
		{"reserved bits of the shim", []uint32{0x11040000, 0x20000107, 0x80000000, 0, 1}, false},
		{"reserved bits of the shim, below", []uint32{0x10040100, 0x20000107, 0x80000000, 0, 1}, false},
		{"NPT 3", []uint32{0x1c040000, 0x20000107, 0x80000000, 0, 1}, false},
		{"reserved bits of the header", []uint32{0x10040000, 0x20002107, 0x80000000, 0, 1}, false},
		{"version", []uint32{0x10040000, 0x30000107, 0x80000000, 0, 1}, false},
		{"Hop ML", []uint32{0x10040000, 0x20000207, 0x80000000, 0, 1}, false},
		{"half a hop", []uint32{0x10040000, 0x20000207, 0xc0000000, 0, 1}, false},
		{"flags of no domain", []uint32{0x10040000, 0x20000107, 0x80000000, 1, 1}, false},
		{"length past the end", []uint32{0x10050000, 0x20000107, 0x80000000, 0, 1}, false},
		{"destination header", []uint32{0x20040000, 0x20000107, 0x80000000, 0, 1}, false},
		{"MX", []uint32{0x30030000, 0x20000000, 0x80000000, 0}, true},
		{"MX with a hop count", []uint32{0x30030000, 0x20000001, 0x80000000, 0}, false},
		{"MX with a complement", []uint32{0x30030000, 0x20000000, 0x80010000, 0}, false},
		{"1.0", []uint32{0x01000400, 0x10000107, 0x80000000, 1}, true},
		{"1.0: reserved byte", []uint32{0x01010400, 0x10000107, 0x80000000, 1}, false},
		{"1.0: reserved bits", []uint32{0x01000400, 0x10002107, 0x80000000, 1}, false},
		{"1.0: reserved half word", []uint32{0x01000400, 0x10000107, 0x80000001, 1}, false},
		{"1.0: Hop ML", []uint32{0x01000400, 0x10000107, 0xc0000000, 1}, false},
		{"0.5", []uint32{0x01000500, 0x00010201, 0x80000000, 1, 0x11000000}, true},
		{"0.5: more hops than allowed", []uint32{0x01000500, 0x00010001, 0x80000000, 1, 0x11000000}, false},
		{"0.5: reserved bits", []uint32{0x01000500, 0x00210201, 0x80000000, 1, 0x11000000}, false},
	} {
		var d Decoder
		var m Message
		d.Decode(&m, StartUDP, udp(c.words...))
		if (m.Profile != nil) != c.taken || c.taken && !m.Has(UnknownMark) {
			t.Errorf("%s: %s", c.name, m.AppendJSON(nil))
		}
	}
}

// The packet in a tunnel is recognised with its own DSCP, and so is the one around it.
func TestTunnelRestores(t *testing.T) {
	inner := append([]byte{2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0,
		0x45, 0x5c, 0, 32, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 0, 1, 0, 2, 0, 12, 0, 0}, "text"...)
	for port, head := range map[uint16][]byte{4789: {8, 0, 0, 0, 0, 0, 1, 0}, 6081: {0, 0, 0x65, 0x58, 0, 0, 1, 0}} {
		var d Decoder
		var m Message
		d.Decode(&m, StartEthernet, wrap(append(bytes.Clone(head), inner...), port))
		if n := d.Counts[MarkedNotINT]; n != 1 || m.Profile != nil || m.Packet.DSCP != 0 {
			t.Errorf("port %d: %d times, %s", port, n, m.AppendJSON(nil))
		}
	}
}

// TestNoMarker: the eight bytes of a tunnel's header are no probe marker, whatever follows them.
func TestNoMarker(t *testing.T) {
	captured := foreignCase{at: "ethernet", hex: `003344556677 002233445566 0800 4500005400010000401166340a0000010a000064
		ff0212b600400000 0000000511223300010008030005ff01ec0000000008feed0000000800000111011111118000000900010203040506`}
	var d Decoder
	var m Message
	frame := captured.bytes(t)
	if d.Decode(&m, StartEthernet, frame); m.Profile != nil {
		t.Errorf("%s", m.AppendJSON(nil))
	}
	md := foreignCase{hex: `1122334455667788  10 04 0000  20000107 8000 0000 0000 0000  00000001`}
	for port, found := range map[uint16]bool{9: true, portVXLAN: false, portVXLANGPE: false, portGeneve: false} {
		if d.Decode(&m, StartEthernet, wrap(md.bytes(t), port)); (m.Profile != nil) != found {
			t.Errorf("port %d: %s", port, m.AppendJSON(nil))
		}
	}
}
