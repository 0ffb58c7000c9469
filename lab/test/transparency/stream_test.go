// SPDX-License-Identifier: Apache-2.0

package transparency

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"
)

// streams makes connections of kernels' own TCP comparable: compared are the opening
// segments with their options, every byte of the stream under the header that it came
// with, the end, what acknowledgements look like, and that IDs count up and flow labels
// stay. (How a stream is cut and acknowledged follows timing.)
var tcpStreams = Rule{
	Name:  "tcp-stream",
	Why:   "TCP draws its first sequence number, time stamps, IDs and flow labels; where it cuts a stream, and when it acknowledges, follows timing",
	Whole: func(frames [][]byte) [][]byte { return newStream(frames).frames() },
}

// stream is one direction of a connection at one port.
type stream struct {
	other   [][]byte // not TCP, or of no known stream
	isn     uint32
	opened  bool
	special [][]byte // SYN, FIN, RST
	acks    [][]byte // those alike once
	data    []byte
	have    []string // the head of each byte, "": not seen
	ids     []uint16
	labels  []uint32
	largest int
}

func newStream(frames [][]byte) *stream {
	s := new(stream)
	for _, f := range frames {
		d := decode(f, false, 0)
		if d == nil || d.proto != unix.IPPROTO_TCP || d.fragment || d.l4+20 > d.end {
			s.other = append(s.other, f)
			continue
		}
		s.add(f, d)
	}
	return s
}

func (s *stream) add(f []byte, d *decoded) {
	tcp := f[d.l4:d.end]
	seq, hdr := binary.BigEndian.Uint32(tcp[4:]), int(tcp[12]>>4)*4
	flags, payload := tcp[13], tcp[hdr:]
	if flags&SYN != 0 {
		s.isn, s.opened = seq, true
	} else if d.version == 4 {
		s.ids = append(s.ids, uint16(d.id)) // a listener's SYN has another's
	}
	if d.version == 6 {
		if label := binary.BigEndian.Uint32(f[d.l3:]) & 0xfffff; !slices.Contains(s.labels, label) {
			s.labels = append(s.labels, label)
		}
	}
	s.largest = max(s.largest, d.end-d.l3)
	right := "wrong"
	if sumL4(f[d.l3:d.end], tcp, unix.IPPROTO_TCP) == 0 && (d.version == 6 || checksum(f[d.l3:d.l4]) == 0) {
		right = "right"
	}
	head := slices.Concat([]byte("checksums "+right+" "), plainHead(f, d, hdr))
	switch {
	case flags&(SYN|RST) != 0:
		s.special = append(s.special, slices.Concat(head, payload))
	case len(payload) == 0 && flags&FIN == 0:
		if !slices.ContainsFunc(s.acks, func(a []byte) bool { return string(a) == string(head) }) {
			s.acks = append(s.acks, head)
		}
	default:
		at := int(seq - s.isn - 1)
		if !s.opened || at > 1<<28 {
			s.other = append(s.other, f)
			return
		}
		s.keep(at, payload, string(head))
		if end := fmt.Appendf(nil, "end at %d: %s", at+len(payload), head); flags&FIN != 0 &&
			!slices.ContainsFunc(s.special, func(a []byte) bool { return string(a) == string(end) }) {
			s.special = append(s.special, end)
		}
	}
}

// keep notes a part of the stream, of which some may have come before.
func (s *stream) keep(at int, payload []byte, head string) {
	if need := at + len(payload); need > len(s.data) {
		s.data = append(s.data, make([]byte, need-len(s.data))...)
		s.have = append(s.have, make([]string, need-len(s.have))...)
	}
	for i, b := range payload {
		if j := at + i; s.have[j] == "" {
			s.have[j], s.data[j] = head, b
		} else if s.data[j] != b {
			s.have[j] = "sent twice, and not alike"
		}
	}
}

// plainHead is all headers of a segment, without what follows chance and timing.
func plainHead(f []byte, d *decoded, hdr int) []byte {
	b := slices.Clone(f[:d.l4+hdr])
	if ip := b[d.l3:]; d.version == 4 {
		clear(ip[2:6])   // length, ID
		clear(ip[10:12]) // checksum
		ip[6] = f[d.l3+6]
	} else {
		binary.BigEndian.PutUint32(ip, binary.BigEndian.Uint32(ip)&^0xfffff)
		clear(ip[4:6])
	}
	tcp := b[d.l4:]
	clear(tcp[4:12]) // sequence numbers
	clear(tcp[16:18])
	tcp[13] &^= 0x09 // FIN, PSH
	if tcp[13]&SYN == 0 {
		clear(tcp[14:16]) // window
	}
	for at := 20; at+1 < hdr && tcp[at] != 0; {
		kind, size := tcp[at], int(tcp[at+1])
		switch {
		case kind == 1:
			at++
			continue
		case size < 2 || at+size > hdr:
			return b
		case kind == 8: // time stamps
			clear(tcp[at+2 : at+size])
		case kind == 5: // what was received out of order
			tcp[12] = 0
			return append(b[:d.l4+at], "SACK"...)
		}
		at += size
	}
	return b
}

// frames is the stream in a form that is the same whenever it was.
func (s *stream) frames() [][]byte {
	list := slices.Concat(s.other, s.special, withoutSACK(s.acks))
	for i := 0; i < len(s.data); {
		end := i
		for end < len(s.data) && s.have[end] == s.have[i] {
			end++
		}
		list = append(list, fmt.Appendf(nil, "from %d: %s%s", i, s.have[i], s.data[i:end]))
		i = end
	}
	if s.opened {
		list = append(list, fmt.Appendf(nil, "%s, %d flow labels, the largest of %d bytes", idsOf(s.ids), len(s.labels), s.largest))
	}
	return list
}

// idsOf reports whether a kernel gave these IDs, one after the other. In which order they
// arrive is up to the processors that carry them.
func idsOf(ids []uint16) string {
	if len(ids) == 0 {
		return "no IDs"
	}
	slices.SortFunc(ids, func(a, b uint16) int { return int(int16(a - b)) })
	missing, repeated := 0, 0
	for i := 1; i < len(ids); i++ {
		if step := int(ids[i] - ids[i-1]); step == 0 {
			repeated++
		} else {
			missing += step - 1
		}
	}
	return fmt.Sprintf("%d IDs missing, %d repeated", missing, repeated)
}

// quotedTCP makes errors equal that quote a segment of a connection.
var quotedTCP = Rule{
	Name: "quoted-tcp", Why: "TCP draws its first sequence number, time stamps, IDs and flow labels: errors quote them",
	Apply: func(frame []byte, d *decoded) {
		if d == nil || !d.isError() || d.l4+8 > d.end {
			return
		}
		icmp := frame[d.l4:d.end]
		q := decode(append(bytes.Clone(icmp[8:]), make([]byte, 1<<16)...), true, 0) // as long as its header says
		if q == nil || q.proto != unix.IPPROTO_TCP || 8+q.l4+20 > len(icmp) {
			return
		}
		right := d.version == 4 && checksum(icmp) == 0 || d.version == 6 && sumL4(frame[d.l3:d.end], icmp, unix.IPPROTO_ICMPV6) == 0
		quote := icmp[8:]
		if q.version == 4 && checksum(quote[:q.l4]) != 0 {
			right = false
		}
		hdr := min(int(quote[q.l4+12]>>4)*4, len(quote)-q.l4)
		copy(quote, plainHead(quote, q, hdr))
		if d.version == 6 {
			clear(frame[d.l3+2 : d.l3+4]) // the error's own flow label
			frame[d.l3+1] &= 0xf0
		}
		if clear(icmp[2:4]); right {
			icmp[2] = 1
		}
	},
}

// withoutSACK leaves those out that report a gap, which a slow receiver may do.
func withoutSACK(acks [][]byte) [][]byte {
	return slices.DeleteFunc(slices.Clone(acks), func(a []byte) bool { return string(a[max(0, len(a)-4):]) == "SACK" })
}
