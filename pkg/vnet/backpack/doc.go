// SPDX-License-Identifier: Apache-2.0

// Package backpack reads the slot ring that the programs write: it is the only
// place where slots become records.
//
// A slot is copied with a check of its position before and after (bpf/backpack/abi.h),
// so a slot that is overwritten meanwhile is never shown. The ring is mapped
// read-only: no reader can harm a packet, and any number of processes may read at
// once without locks, system calls per packet, or knowledge of each other.
//
// Three ways to read:
//
//   - Scan: what the ring remembers now.
//   - Follower: every packet once, as soon as its story is final; its state can be
//     kept and continued by another process.
//   - Tail: a Follower that begins now and hands out records.
//
// In between stands Packet: one packet as numbers, without text, made to be
// counted a million times a second. Decoder makes Packets from slots and Records
// from Packets; it holds the names.
//
// Nothing here is safe for concurrent use except Ring and Maps.
package backpack
