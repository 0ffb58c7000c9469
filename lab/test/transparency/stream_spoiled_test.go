// SPDX-License-Identifier: Apache-2.0

package transparency

import (
	"bytes"
	"slices"
	"testing"
)

// streamOf is a connection's one direction, cut into segments of size bytes.
func streamOf(t *testing.T, isn uint32, id uint16, size int, change func(i int, p *Packet)) [][]byte {
	w := &World{T: t}
	data := Payload(7, 4000)
	var list [][]byte
	put := func(flags uint8, at int, payload []byte) {
		p := w.TCP("10.0.1.1", "10.0.4.2", flags, 0)
		p.Sport, p.Seq, p.Payload, p.ID = 5000, isn+uint32(at), payload, id
		id++
		if change != nil {
			change(len(list), p)
		}
		list = append(list, append(append(make([]byte, 12), 8, 0), p.Bytes()...))
	}
	put(SYN, 0, nil)
	put(ACK, 1, nil)
	for at := 0; at < len(data); at += size {
		put(ACK, at+1, data[at:min(at+size, len(data))])
	}
	put(ACK|FIN, len(data)+1, nil)
	return list
}

// TestStreams: connections that differ in nothing but chance and timing are equal, all
// others are not.
func TestStreams(t *testing.T) {
	want := tcpStreams.Whole(streamOf(t, 1000, 1, 1000, nil))
	twice := streamOf(t, 77, 5, 400, nil)
	for _, c := range []struct {
		name string
		got  [][]byte
		same bool
	}{
		{"others' numbers", streamOf(t, 1<<32-9, 65530, 1000, nil), true},
		{"cut elsewhere", append(streamOf(t, 5, 9, 1000, nil)[:2], streamOf(t, 5, 11, 500, nil)[2:]...), false}, // the largest is smaller
		{"sent twice", slices.Insert(slices.Clone(twice), 3, twice[3]), false},
		{"TTL", streamOf(t, 1, 1, 1000, func(i int, p *Packet) { p.TTL = uint8(64 - i/4) }), false},
		{"DSCP of the last", streamOf(t, 1, 1, 1000, func(i int, p *Packet) { p.TOS = uint8(i / 6 * 8) }), false},
		{"an ID", streamOf(t, 1, 1, 1000, func(i int, p *Packet) { p.ID += uint16(i / 4) }), false},
		{"one byte", streamOf(t, 1, 1, 1000, func(i int, p *Packet) {
			if i == 4 {
				p.Payload = append(bytes.Clone(p.Payload[:999]), 'x')
			}
		}), false},
		{"a part is missing", slices.Delete(streamOf(t, 1, 1, 1000, nil), 4, 5), false},
		{"no end", streamOf(t, 1, 1, 1000, nil)[:6], false},
	} {
		if got := slices.EqualFunc(tcpStreams.Whole(c.got), want, bytes.Equal); got != c.same {
			t.Errorf("%s: equal %v, want %v", c.name, got, c.same)
		}
	}
	spoiled := streamOf(t, 1, 1, 1000, nil)
	spoiled[3][60] ^= 1 // and no checksum that fits
	if slices.EqualFunc(tcpStreams.Whole(spoiled), want, bytes.Equal) {
		t.Error("a wrong checksum goes unnoticed")
	}
}
