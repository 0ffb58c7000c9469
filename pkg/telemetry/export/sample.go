// SPDX-License-Identifier: Apache-2.0

package export

// Sampled says whether a packet is one of the 1 in n that are reported. It asks the packet's
// id alone: all nodes of the packet are in or out, and so it is in every process that asks.
func Sampled(id string, n uint64) bool {
	if n <= 1 {
		return true
	}
	h := fnv(id)
	// Ids are numbers in a row: mix what differs into all bits (finalizer of MurmurHash3).
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return (h^h>>33)%n == 0
}

// fnv is FNV-1a with 64 bits.
func fnv(s string) uint64 {
	h := uint64(0xcbf29ce484222325)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 0x100000001b3
	}
	return h
}
