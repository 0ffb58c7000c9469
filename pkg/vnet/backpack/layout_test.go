// SPDX-License-Identifier: Apache-2.0

package backpack

import (
	"testing"
	"unsafe"

	"github.com/vnetradar/radar/pkg/bpfobj"
)

// The reader's own numbers, and the generated types, against bpf/backpack/abi.h.
func TestLayout(t *testing.T) {
	var s bpfobj.TcRdrSlot
	var c bpfobj.TcRdrControl
	var a bpfobj.TcRdrAlloc
	for _, f := range []struct {
		name      string
		got, want uintptr
	}{
		{"sizeof slot", unsafe.Sizeof(s), 128},
		{"pos", unsafe.Offsetof(s.Pos), 0},
		{"t0_ns", unsafe.Offsetof(s.T0Ns), 8},
		{"nev", unsafe.Offsetof(s.Nev), 16},
		{"state", unsafe.Offsetof(s.State), 17},
		{"proto", unsafe.Offsetof(s.Proto), 18},
		{"cut", unsafe.Offsetof(s.Cut), 19},
		{"id", unsafe.Offsetof(s.Id), 28},
		{"ttl", unsafe.Offsetof(s.Ttl), 30},
		{"tos", unsafe.Offsetof(s.Tos), 31},
		{"seg", unsafe.Offsetof(s.Seg), 32},
		{"segs", unsafe.Offsetof(s.Segs), 33},
		{"len", unsafe.Offsetof(s.Len), 34},
		{"ev0", unsafe.Offsetof(s.Ev0), 40},
		{"saddr, the second line", unsafe.Offsetof(s.Saddr), 64},
		{"daddr", unsafe.Offsetof(s.Daddr), 68},
		{"sport", unsafe.Offsetof(s.Sport), 72},
		{"dport", unsafe.Offsetof(s.Dport), 74},
		{"first_id", unsafe.Offsetof(s.FirstId), 76},
		{"first_ttl", unsafe.Offsetof(s.FirstTtl), 78},
		{"first_tos", unsafe.Offsetof(s.FirstTos), 79},
		{"train_len", unsafe.Offsetof(s.TrainLen), 88},
		{"frag_off", unsafe.Offsetof(s.FragOff), 92},
		{"icmp_type", unsafe.Offsetof(s.IcmpType), 94},
		{"train_ttl", unsafe.Offsetof(s.TrainTtl), 98},
		{"flags", unsafe.Offsetof(s.Flags), 102},
		{"hdr", unsafe.Offsetof(s.Hdr), 103},
		{"tcp_ack", unsafe.Offsetof(s.TcpAck), 104},
		{"ev1", unsafe.Offsetof(s.Ev1), 112},
		{"control.cursor", unsafe.Offsetof(c.Cursor), 8},
		{"alloc.next", unsafe.Offsetof(a.Next), 0},
		{"alloc.end", unsafe.Offsetof(a.End), 8},
		{"cell 0", cells0 * 8, 40},
		{"cell 2", (cells0 + 2) * 8, 56},
		{"cell 3", cells3 * 8, 112},
		{"cells of IPv6 addresses", addr6Cells, 4},
		{"word of seg", segWord, 4},
		{"shift of seg", segShift, 0},
		{"copy of the longest slot", unsafe.Sizeof(slot{}.w), 512},
	} {
		if f.got != f.want {
			t.Errorf("%s: %d, want %d", f.name, f.got, f.want)
		}
	}
}
