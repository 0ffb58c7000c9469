// SPDX-License-Identifier: Apache-2.0

package test

import (
	"bytes"
	"strings"
	"testing"
)

// quoteAt is where the quoted IP header begins.
const quoteAt = etherHeader + 20 + 8

// quoting returns the ICMP error of that name as it is when the quoted packet was
// met on the wire as w: scapy's error, with w's header in the quote.
func quoting(t testing.TB, name string, w []byte) []byte {
	t.Helper()
	data := packet(t, name)
	copy(data[quoteAt:], header(t, w))
	return data
}

// wantQuote returns the error as it would be without radar: TTL and checksum of the
// quote are those that the quoted packet had where it ended.
func wantQuote(t testing.TB, name string, quoted []byte) []byte {
	t.Helper()
	data := packet(t, name)
	copy(data[quoteAt:], header(t, quoted))
	return data
}

// TestQuote: an ICMP error made by a node that we do not see quotes our bits. The
// first of our ports puts the true ones back, without touching the ICMP checksum.
func TestQuote(t *testing.T) {
	for _, name := range named(false, "error-") {
		if strings.Contains(name, "train-") || strings.Contains(name, "six-") || strings.HasSuffix(strings.TrimSuffix(name, ".8"), "-six") {
			continue // TestQuoteOfSegment, TestQuote6
		}
		t.Run(name, func(t *testing.T) {
			d := newDomain(t, config{})
			inner := strings.TrimSuffix(strings.TrimPrefix(name, "error-"), ".8")
			orig := packet(t, inner)
			w := d.link(d.send(frame{data: orig}), 3)
			bad := quoting(t, name, w.data)
			want := wantQuote(t, name, lowered(t, orig, 3))
			restored := tally{cPassed: 1, cQuote: 1}
			if strings.HasPrefix(inner, "clear-") {
				restored = tally{cPassed: 1} // nothing to restore
			}
			d.counted(tally{cSeen: 1, cMarked: 1})
			same(t, "ingress", d.ingress(r1In, frame{data: bad}).data, want)
			d.counted(restored)
			same(t, "egress", d.egress(closed, frame{data: bad}).data, want)
			d.counted(restored)
		})
	}
}

// TestQuoteOfSegment: the quoted packet was a segment of a train.
func TestQuoteOfSegment(t *testing.T) {
	for _, name := range named(false, "error-train-tcp", "error-train-udp.1") {
		if name == "error-train-udp.1.8" {
			continue // of the eight bytes none tells segments apart
		}
		t.Run(name, func(t *testing.T) {
			d := newDomain(t, config{})
			inner := strings.TrimSuffix(strings.TrimPrefix(name, "error-"), ".8")
			trainName, _, _ := strings.Cut(inner, ".")
			tr := loadTrain(t, trainName)
			k := int(inner[len(inner)-1] - '0')
			seg := d.link(tr.cut(t, d.send(tr.whole))[k], 2)
			got := d.ingress(r1In, frame{data: quoting(t, name, seg.data)})
			same(t, "ingress", got.data, wantQuote(t, name, lowered(t, tr.segments[k], 2)))
		})
	}
}

// TestQuoteThroughHeaderCarry: under --carry header an attached node itself quotes
// the GUID; its egress puts the true bits back.
func TestQuoteThroughHeaderCarry(t *testing.T) {
	d := newDomain(t, config{carry: "header"})
	orig := packet(t, "udp-64")
	inside := d.ingress(r1In, d.link(d.send(frame{data: orig}), 0))
	if bytes.Equal(inside.data, orig) {
		t.Fatal("--carry header restored inside the node")
	}
	got := d.egress(r1Out, frame{data: quoting(t, "error-udp-64", inside.data)})
	same(t, "egress", got.data, wantQuote(t, "error-udp-64", orig))
}

// TestQuoteErrorTOS: an error has taken its own DSCP from the packet that it answers, with
// our bits in it. What comes from elsewhere stays.
func TestQuoteErrorTOS(t *testing.T) {
	const slots = 1 << 19
	d := newDomain(t, config{guid: "22", slots: slots, slotBytes: 128})
	for i, c := range []struct {
		name     string
		tos      byte                  // of the packet
		error    func(quote byte) byte // TOS of the error to a packet with that one
		restored bool
	}{
		{"Linux, 0", 0, linuxError, true},
		{"Linux, EF", 0xb8, linuxError, true},
		{"Linux, all bits", 0xff, linuxError, true},
		{"Linux, AF11, ECT", 0x2a, linuxError, true},
		{"always CS6", 0x28, func(byte) byte { return 0xc1 | 0x10 }, false},
		{"always 0", 0xb8, func(byte) byte { return 0 }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := d.in(t)
			d.startAt(slots + 1<<16 + uint64(i)*64) // bits 01 in the DSCP
			orig := packet(t, "udp-64")
			setBits(t, orig, 7, 64, c.tos)
			w := d.send(frame{data: orig})
			on := w.data[etherHeader+1]
			if on&0x0c != 0x04 {
				t.Fatalf("TOS %#x on the wire", on)
			}
			bad, want := quoting(t, "error-udp-64", w.data), wantQuote(t, "error-udp-64", lowered(t, orig, 0))
			setBits(t, bad, 9, 64, c.error(on))
			if setBits(t, want, 9, 64, c.error(on)); c.restored {
				setBits(t, want, 9, 64, c.error(c.tos))
			}
			same(t, "ingress", d.ingress(r1In, frame{data: bad}).data, want)
		})
	}
}

func linuxError(quoted byte) byte { return quoted&0x1e | 0xc0 }

// TestQuoteForeign: quotes that are not of a packet of ours, or not of that one.
func TestQuoteForeign(t *testing.T) {
	d := newDomain(t, config{})
	w := d.send(frame{data: packet(t, "udp-64")})
	for _, c := range []struct {
		name   string
		error  string
		change func(quote []byte)
	}{
		{"ports, 8 bytes", "error-udp-64.8", func(q []byte) { q[21] ^= 1 }},
		{"ports", "error-udp-64", func(q []byte) { q[21] ^= 1 }},
		{"address", "error-udp-64", func(q []byte) { q[15] ^= 1 }},
		{"length", "error-udp-64", func(q []byte) { q[3] ^= 1 }},
		{"payload", "error-udp-64", func(q []byte) { q[28] ^= 1 }},
		{"protocol", "error-udp-64", func(q []byte) { q[9] = 6 }},
		{"slot", "error-udp-64", func(q []byte) { q[5] += 7 }},
		{"no band", "error-udp-64", func(q []byte) { q[8] = 64 }},
		{"DF clear", "error-udp-64", func(q []byte) { q[6] = 0 }},
		{"fragment", "error-udp-64", func(q []byte) { q[7] = 1 }},
		{"version", "error-udp-64", func(q []byte) { q[0] = 0x65 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := d.in(t)
			data := quoting(t, c.error, w.data)
			c.change(data[quoteAt:])
			same(t, "ingress", d.ingress(r1In, frame{data: data}).data, data)
			d.counted(tally{cPassed: 1})
		})
	}
	t.Run("another type of ICMP", func(t *testing.T) {
		data := quoting(t, "error-udp-64", w.data)
		data[etherHeader+20] = 13
		same(t, "ingress", d.in(t).ingress(r1In, frame{data: data}).data, data)
	})
	t.Run("a later fragment", func(t *testing.T) {
		data := quoting(t, "error-udp-64", w.data)
		data[etherHeader+7] = 9
		fixSum(data, etherHeader)
		same(t, "ingress", d.in(t).ingress(r1In, frame{data: data}).data, data)
	})
	t.Run("expired", func(t *testing.T) {
		d := d.in(t)
		d.age(d.guid(w.data), 1e12)
		data := quoting(t, "error-udp-64", w.data)
		same(t, "ingress", d.ingress(r1In, frame{data: data}).data, data)
	})
}

// TestQuoteShort: an error whose quote ends early, at every byte; what lies behind
// the packet's end (Ethernet padding) is no part of the quote.
func TestQuoteShort(t *testing.T) {
	d := newDomain(t, config{})
	w := d.send(frame{data: packet(t, "udp-64")})
	whole := quoting(t, "error-udp-64", w.data)
	want := wantQuote(t, "error-udp-64", packet(t, "udp-64"))
	for n := quoteAt; n <= len(whole); n++ {
		data := bytes.Clone(whole[:n])
		shorten(data)
		exp := bytes.Clone(want[:n])
		shorten(exp)
		if n < quoteAt+28 {
			exp = data // less than 8 bytes of L4: cannot be told
		}
		same(t, "cut off", d.ingress(r1In, frame{data: data}).data, exp)
		if n == quoteAt+28 {
			padded := append(bytes.Clone(data), 0, 0, 0, 0, 0, 0, 0, 0)
			same(t, "padded", d.ingress(r1In, frame{data: padded}).data, append(bytes.Clone(exp), 0, 0, 0, 0, 0, 0, 0, 0))
		}
	}
}
