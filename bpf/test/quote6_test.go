// SPDX-License-Identifier: Apache-2.0

package test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
)

// quote6At is where the header quoted by an ICMPv6 error begins.
const quote6At = etherHeader + 40 + 8

// quoting6 is quoting() of ICMPv6, whose checksum covers the quote: it is that which the
// node that makes the error computes.
func quoting6(t testing.TB, name string, w []byte) []byte {
	t.Helper()
	data := packet(t, name)
	copy(data[quote6At:], header(t, w))
	sumICMPv6(data)
	return data
}

// sumICMPv6 computes the checksum of an ICMPv6 packet (RFC 8200, section 8.1).
func sumICMPv6(data []byte) {
	ip := data[etherHeader:]
	l4 := ip[40 : 40+binary.BigEndian.Uint16(ip[4:])]
	l4[2], l4[3] = 0, 0
	pseudo := append(bytes.Clone(ip[8:40]), 0, 0, ip[4], ip[5], 0, 0, 0, 58)
	binary.BigEndian.PutUint16(l4[2:], checksum(append(pseudo, l4...)))
}

// TestQuote6: see TestQuote; the error's checksum is right before and after.
func TestQuote6(t *testing.T) {
	for _, name := range named(false, "error-six-", "error-fragment-six-", "error-ttl-7-six") {
		t.Run(name, func(t *testing.T) {
			d := newDomain(t, config{})
			inner := strings.TrimSuffix(strings.TrimPrefix(name, "error-"), ".8")
			orig := packet(t, inner)
			w := d.link(d.send(frame{data: orig}), 3)
			bad := quoting6(t, name, w.data)
			want := quoting6(t, name, lowered(t, orig, 3))
			restored := tally{cPassed: 1, cQuote: 1}
			if !strings.HasPrefix(inner, "six-") {
				restored = tally{cPassed: 1} // found by key, nothing to restore
			}
			d.counted(tally{cSeen: 1, cMarked: 1})
			same(t, "ingress", d.ingress(r1In, frame{data: bad}).data, want)
			d.counted(restored)
			same(t, "egress", d.egress(closed, frame{data: bad}).data, want)
			d.counted(restored)
		})
	}
}

// errorOf is an ICMP or ICMPv6 error that quotes w, at most n bytes of what follows its IP
// headers, and no fewer bytes than padded.
func errorOf(t testing.TB, w []byte, n, padded int) []byte {
	t.Helper()
	name, at := "error-proto-253", quoteAt
	if header(t, w).v6() {
		name, at = "error-six-proto-253", quote6At
	}
	_, l4 := l4Of(w, ipAt(w))
	end := ipAt(w) + header(t, w).length()
	data := append(packet(t, name)[:at], w[ipAt(w):min(l4+n, end)]...)
	data = append(data, make([]byte, max(0, at+padded-len(data)))...)
	if shorten(data); header(t, w).v6() {
		sumICMPv6(data)
	}
	return data
}

// TestQuoteProtocols: quotes of every kind of packet, whole ones and as short as may be. A
// node that appends something to its errors pads the quote (RFC 4884, section 5.1).
func TestQuoteProtocols(t *testing.T) {
	d := newDomain(t, config{})
	for _, name := range byBits() {
		for _, c := range []struct{ n, padded int }{{8, 0}, {16, 0}, {20, 0}, {1200, 0}, {1200, 128}} {
			t.Run(fmt.Sprintf("%s/%d bytes of L4, padded to %d", name, c.n, c.padded), func(t *testing.T) {
				d, orig := d.in(t), packet(t, name)
				w := d.link(d.send(frame{data: orig}), 1)
				want := errorOf(t, lowered(t, orig, 1), c.n, c.padded)
				same(t, "ingress", d.ingress(r1In, frame{data: errorOf(t, w.data, c.n, c.padded)}).data, want)
			})
		}
	}
}

// TestQuoteRedirect: a Redirect quotes in an option, which others may come before.
func TestQuoteRedirect(t *testing.T) {
	const options = etherHeader + 40 + 40
	d := newDomain(t, config{})
	orig := packet(t, "six-tcp-data")
	w := d.link(d.send(frame{data: orig}), 1)
	for _, name := range named(false, "odd-six-redirect") {
		at := bytes.Index(packet(t, name), orig[etherHeader:])
		if at < 0 {
			t.Fatalf("%s quotes no six-tcp-data", name)
		}
		quoting := func(w []byte, change func(options []byte)) []byte {
			data := packet(t, name)
			copy(data[at:], header(t, w))
			change(data[options:])
			sumICMPv6(data)
			return data
		}
		same(t, name, d.ingress(r1In, frame{data: quoting(w.data, func([]byte) {})}).data,
			quoting(lowered(t, orig, 1), func([]byte) {}))
		for what, change := range map[string]func(options []byte){
			"no length":              func(o []byte) { o[1] = 0 },
			"longer than there is":   func(o []byte) { o[1] += 20 },
			"another kind of option": func(o []byte) { o[at-8-options] = 5 },
		} {
			data := quoting(w.data, change)
			same(t, name+", "+what, d.ingress(r1In, frame{data: data}).data, data)
		}
	}
}

// TestQuote6OfSegment: all segments carry the head's bits; the quote says which it is.
func TestQuote6OfSegment(t *testing.T) {
	for _, name := range named(false, "error-train-six-tcp", "error-train-six-udp.1") {
		if name == "error-train-six-udp.1.8" {
			continue // of the eight bytes none tells datagrams apart
		}
		t.Run(name, func(t *testing.T) {
			d := newDomain(t, config{})
			inner := strings.TrimSuffix(strings.TrimPrefix(name, "error-"), ".8")
			trainName, _, _ := strings.Cut(inner, ".")
			tr := loadTrain(t, trainName)
			k := int(inner[len(inner)-1] - '0')
			segs := tr.cut(t, d.send(tr.whole))
			first := d.link(segs[k], 2)
			got := d.ingress(r1In, frame{data: quoting6(t, name, first.data)})
			same(t, "before r1", got.data, quoting6(t, name, lowered(t, tr.segments[k], 2)))
			_, w := d.transit(segs[k], 2)
			second := d.link(w, 1)
			got = d.ingress(r1In, frame{data: quoting6(t, name, second.data)})
			same(t, "behind r1", got.data, quoting6(t, name, lowered(t, tr.segments[k], 4)))
		})
	}
}

// TestQuote6Foreign: quotes that are not of a packet of ours, or not of that one.
func TestQuote6Foreign(t *testing.T) {
	d := newDomain(t, config{})
	w := d.send(frame{data: packet(t, "six-udp-64")})
	for _, c := range []struct {
		name   string
		error  string
		change func(quote []byte)
	}{
		{"ports, 8 bytes", "error-six-udp-64.8", func(q []byte) { q[41] ^= 1 }},
		{"ports", "error-six-udp-64", func(q []byte) { q[41] ^= 1 }},
		{"address", "error-six-udp-64", func(q []byte) { q[23] ^= 1 }},
		{"length", "error-six-udp-64", func(q []byte) { q[5] ^= 1 }},
		{"payload", "error-six-udp-64", func(q []byte) { q[48] ^= 1 }},
		{"payload further on", "error-six-udp-64", func(q []byte) { q[70] ^= 1 }},
		{"protocol", "error-six-udp-64", func(q []byte) { q[6] = 6 }},
		{"extension", "error-six-udp-64", func(q []byte) { q[6] = 60 }},
		{"fragment", "error-six-udp-64", func(q []byte) { q[6] = 44 }},
		{"slot", "error-six-udp-64", func(q []byte) { q[3] += 7 }},
		{"no band", "error-six-udp-64", func(q []byte) { q[7] = 64 }},
		{"version", "error-six-udp-64", func(q []byte) { q[0] = 0x40 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := d.in(t)
			data := quoting6(t, c.error, w.data)
			c.change(data[quote6At:])
			same(t, "ingress", d.ingress(r1In, frame{data: data}).data, data)
			d.counted(tally{cPassed: 1})
		})
	}
	t.Run("information", func(t *testing.T) {
		data := quoting6(t, "error-six-udp-64", w.data)
		data[etherHeader+40] = 138
		same(t, "ingress", d.in(t).ingress(r1In, frame{data: data}).data, data)
	})
}

// TestQuote6Short: see TestQuoteShort.
func TestQuote6Short(t *testing.T) {
	d := newDomain(t, config{})
	orig := packet(t, "six-udp-64")
	w := d.send(frame{data: orig})
	for n := quote6At; n <= len(packet(t, "error-six-udp-64")); n++ {
		short := func(quoted []byte) []byte {
			data := quoting6(t, "error-six-udp-64", quoted)[:n]
			setLength(data)
			sumICMPv6(data)
			return data
		}
		data, want := short(w.data), short(orig)
		if n < quote6At+48 {
			want = data // less than 8 bytes of L4: cannot be told
		}
		same(t, "cut off", d.ingress(r1In, frame{data: data}).data, want)
	}
}
