// SPDX-License-Identifier: Apache-2.0

// Package generate makes telemetry reports to try collectors with, from a description
// (Description, Maker) or from a capture file (Replay). It does no network I/O and looks at no
// clock: the same description makes the same bytes.
//
// What a Maker makes is what a chain of nodes would send of packets that cross it:
//
//   - INT-MD: the last node reports, and quotes the packet with the metadata of all nodes.
//   - INT-XD: every node reports its own metadata, a postcard.
//
// A dropped packet is reported by the node that dropped it (INT-XD: by those before, too), with
// a reason. Packets have right lengths and checksums everywhere: of IP, and of TCP or UDP,
// which with instruction 15 the nodes' checksum complements keep right.
//
// Formats are those of the texts: INT 2.1 in Telemetry Report 2.0, INT 1.0 in Telemetry Report
// 1.0. Multi-byte fields are in network byte order. Nothing here is safe for concurrent use.
package generate
