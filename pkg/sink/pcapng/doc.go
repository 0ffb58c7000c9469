// SPDX-License-Identifier: Apache-2.0

// Package pcapng writes records as a capture that Wireshark opens (draft-ietf-opsawg-pcapng): an
// interface for each node and port, and a frame for each port at which a packet was seen. A frame
// has the header that the packet had there, ends where the header is no longer known, and has a
// comment with what radar knows beside the header. docs/wireshark.md describes all of it.
//
// A Writer is for one goroutine. It keeps no memory of records, and holds frames only until the
// ones before them are written.
package pcapng
