// SPDX-License-Identifier: Apache-2.0

package test

import (
	"bytes"
	"strings"
	"testing"
)

// TestTruncated: every packet, cut off at every byte: as it is (its length then says
// more than there is), and with a total length that fits, so that only what is
// behind the IP header is too short.
func TestTruncated(t *testing.T) {
	for _, carry := range []string{"mark", "header"} {
		d := newDomain(t, config{carry: carry})
		for _, group := range groups {
			d.join(h2In, group)
		}
		_, names := fixtures()
		for _, name := range names {
			whole := packet(t, name)
			for n := etherHeader + 1; n < min(len(whole), 200); n++ {
				if !runnable(whole[:n]) || strings.HasPrefix(name, "raw-") {
					continue
				}
				if !d.roundTrip(whole[:n]) {
					t.Fatalf("%s, carry %s, cut off at byte %d", name, carry, n)
				}
				if ipAt(whole) != etherHeader {
					continue
				}
				fits := bytes.Clone(whole[:n])
				shorten(fits)
				if !d.roundTrip(fits) {
					t.Fatalf("%s, carry %s, cut off at byte %d with a length that fits", name, carry, n)
				}
			}
		}
		c := d.counters()
		if c[cMarked] < 1000 || c[cMalformed] < 1000 {
			t.Errorf("only %d packets marked and %d malformed", c[cMarked], c[cMalformed])
		}
	}
}

// shorten makes the IP total length that of the frame.
func shorten(data []byte) {
	setLength(data)
	if header := headerAt(data, etherHeader); header.v6() {
		return
	}
	if headerLen(data[etherHeader:]) <= len(data)-etherHeader {
		fixSum(data, etherHeader)
	}
}

// roundTrip sends a packet to h2 and says whether it arrived as it was, changed in
// between where it may be.
func (d *domain) roundTrip(data []byte) bool {
	d.Helper()
	w := d.send(frame{data: data})
	ok := d.allowed(w.data, data)
	end := d.deliver(w, 0)
	if !bytes.Equal(end.data, data) {
		same(d, "at h2", end.data, data)
		return false
	}
	return ok
}

// allowed says whether a packet on the wire differs from the true one in nothing
// but our bits and the checksum over them.
func (d *domain) allowed(got, want []byte) bool {
	d.Helper()
	if bytes.Equal(got, want) {
		return true
	}
	at := ipAt(want)
	if at < 0 || len(got) != len(want) {
		same(d, "on the wire", got, want)
		return false
	}
	ours := byte(1<<d.layout.DSCPBits-1) << 2
	masked := bytes.Clone(want)
	m, h := headerAt(masked, at), headerAt(got, at)
	m.set(h.id(), h.ttl(), m.tos()&^ours|h.tos()&ours)
	if !m.v6() {
		copy(m[10:], h[10:12])
	}
	if !bytes.Equal(got, masked) {
		same(d, "on the wire", got, masked)
		return false
	}
	if m.v6() {
		return true
	}
	// The checksum is as right or wrong as before.
	n := headerLen(want[at:])
	if checksum(got[at:at+n]) != checksum(want[at:at+n]) {
		d.Errorf("sum of the header on the wire is %#x, was %#x", checksum(got[at:at+n]), checksum(want[at:at+n]))
		return false
	}
	return true
}
