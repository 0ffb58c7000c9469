// SPDX-License-Identifier: Apache-2.0

// Package postcard joins what several nodes tell of one packet, each by itself (INT-XD, "INT Modes of Operation"; INT-MX).
// What names a packet is the caller's. Packets that differ in nothing of that are told apart here.
package postcard

// Trace is what one node's quote tells of a packet and another's may not: quotes are of any length, and a checksum is
// there only once somebody has worked it out. Linux leaves that to whoever needs it, which between veths is nobody,
// or a node on the way.
type Trace struct {
	Sum     uint16 // the checksum; 0: not known
	n       uint8  // bytes of content that are quoted
	content [tracedBytes]byte
}

// tracedBytes is how much of a payload is compared: what counts packets mostly stands in front, but in QUIC behind a
// connection ID of up to 20 bytes.
const tracedBytes = 32

// Content sets what is quoted of the payload.
func (x *Trace) Content(b []byte) { x.n = uint8(copy(x.content[:], b)) }

// fits reports whether two quotes can be of one packet.
func (x *Trace) fits(y *Trace) bool {
	n := min(x.n, y.n)
	return (x.Sum == y.Sum || x.Sum == 0 || y.Sum == 0) && string(x.content[:n]) == string(y.content[:n])
}

// learn adds what another quote of the same packet tells.
func (x *Trace) learn(y *Trace) {
	if x.Sum == 0 {
		x.Sum = y.Sum
	}
	if x.n < y.n {
		x.n, x.content = y.n, y.content
	}
}
