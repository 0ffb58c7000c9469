// SPDX-License-Identifier: Apache-2.0

// Package backpack reads the slot ring that the programs write: it is the only
// place where slots become records.
//
// A slot's position is checked before and after it is copied (bpf/backpack/abi.h),
// so a slot that is overwritten meanwhile is never shown. The ring is mapped
// read-only: no reader can harm a packet. Any number of processes may read at once,
// without locks, system calls per packet, or knowledge of each other.
//
// Three readers:
//
//   - Scan: what the ring remembers now.
//   - Follower: every packet once, as soon as its story is final; another process
//     can continue from its state.
//   - Tail: a Follower that begins now and hands out records.
//
// A packet.Packet is one packet as numbers, without text, cheap enough to be counted a
// million times a second. Decoder makes Packets from slots and Records from
// Packets; it holds the names.
//
// Nothing here is safe for concurrent use except Ring and Maps.
package backpack
