// SPDX-License-Identifier: Apache-2.0

// Package packet holds one packet as numbers: where it was, when, and what became of it.
//
// Whoever measures packets makes a Packet of each; whoever counts, selects or shows them reads it.
// So neither knows the other. A Packet has no text but that of the kernel: nodes and ports are
// numbers, which Names gives names. It is made to be counted a million times a second, and its
// memory to be used again.
//
// Nothing here is safe for concurrent use.
package packet
