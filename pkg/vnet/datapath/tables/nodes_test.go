// SPDX-License-Identifier: Apache-2.0

package tables

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/vnetradar/radar/pkg/bpfobj"
)

// owns is is_local() of bpf/backpack/nat.h.
func owns(entry *bpfobj.TcRdrNode, addr uint32) bool {
	return entry.Addr[place(addr, entry.Multiplier)] == addr
}

// TestNodeEntry: the programs find the addresses that a node owns, and no other.
func TestNodeEntry(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 7))
	for n := range maxNodeAddrs + 1 {
		for range 200 {
			var addrs []uint32
			for len(addrs) < n {
				addr := random.Uint32()
				if random.IntN(2) == 0 { // neighbours in one network: the last byte differs
					addr = 10 | 1<<16 | addr&0xff<<24
				}
				if !slices.Contains(addrs, addr) {
					addrs = append(addrs, addr)
				}
			}
			entry := nodeEntry(slices.Clone(addrs))
			if entry.Multiplier == 0 {
				t.Fatalf("no table of %d addresses: %x", n, addrs)
			}
			for _, addr := range addrs {
				if !owns(&entry, addr) {
					t.Fatalf("%x is not found, of %x: %x", addr, addrs, entry)
				}
			}
			// What fills the other places, and whatever else.
			for _, addr := range append(entry.Addr[:], 0, 1, 10, 0x0100007f, random.Uint32(), ^uint32(0)) {
				if owns(&entry, addr) != slices.Contains(addrs, addr) {
					t.Fatalf("%x is found, which is none of %x: %x", addr, addrs, entry)
				}
			}
		}
	}
	var many []uint32
	for n := range uint32(maxNodeAddrs + 1) {
		many = append(many, n)
	}
	if entry := nodeEntry(many); entry.Multiplier != 0 {
		t.Error("a node with too many addresses does not refer to the hash map")
	}
}
