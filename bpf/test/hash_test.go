// SPDX-License-Identifier: Apache-2.0

package test

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/vnetradar/radar/pkg/bpfobj"
)

// TestFlowHash: the programs' hash of a flow is the one of bpf/backpack/hash.h, with the domain's keys.
// Two flows whose hashes were equal by the constants that everybody knows are told apart.
func TestFlowHash(t *testing.T) {
	d := newDomain(t, config{})
	keys := d.hashKeys()
	for i := range keys {
		if keys[i] == 0 {
			t.Errorf("key %d is 0", i)
		}
	}
	want := func(src, dst uint32, sport, dport uint16) uint32 {
		ports := binary.NativeEndian.Uint32(binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, sport), dport))
		return uint32((uint64(src)*keys[0] + uint64(dst)*keys[1] + uint64(ports)*keys[2]) >> 32)
	}
	native := func(a string) uint32 {
		b := netip.MustParseAddr(a).As4()
		return binary.NativeEndian.Uint32(b[:])
	}
	rng := rand.New(rand.NewPCG(1, 2))
	seen := make(map[uint32]int)
	for i := range 200 {
		data := packet(t, "udp-64")
		sport, dport := uint16(rng.Uint32()), uint16(rng.Uint32())
		binary.BigEndian.PutUint16(data[etherHeader+20:], sport)
		binary.BigEndian.PutUint16(data[etherHeader+22:], dport)
		s := d.slot(d.guid(d.send(frame{data: data}).data))
		if got := s.FlowHash; got != want(native("10.0.1.1"), native("10.0.4.2"), sport, dport) {
			t.Fatalf("flow %d: hash %#x", i, got)
		}
		if other, twice := seen[s.FlowHash]; twice {
			t.Errorf("flows %d and %d have one hash", other, i)
		}
		seen[s.FlowHash] = i
	}
	if len(bpfobj.TcRdrControl{}.Hash) != len(keys) {
		t.Error("the control page has other keys")
	}
}
