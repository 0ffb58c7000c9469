// SPDX-License-Identifier: Apache-2.0

// Package intwire turns the bytes of in-band network telemetry into structs and
// back: INT headers in data packets (INT 0.5, 1.0, 2.0, 2.1 of P4.org; modes MD and
// MX, and XD, which has reports only) and telemetry reports (0.5, 1.0, 2.0). It does
// no I/O, keeps no state between packets but counters, and knows nothing of records.
//
// # Decoding
//
// A [Decoder] fills a [Message] that the caller owns and uses again: after the first
// packets nothing is allocated. Slices of bytes in it point into the packet, and
// everything in it is valid until the next call with the same Message. There is no
// error: what cannot be read is absent, and every anomaly is an [Anomaly] beside what
// was read. Lengths are compared with the bytes that are there before they are used.
// The memory that a Message takes is bounded by a multiple of the packet's length.
//
// Neither type is safe for concurrent use; each goroutine can have its own.
//
// # Units and byte order
//
// All numbers are read from and written in network byte order and are in the host's
// in structs. Times, latencies, occupancies and utilisations are raw: INT leaves
// their units to the device (INT 2.1, "INT Metadata"). Only the report's ingress
// timestamp is in nanoseconds by the text (TR 0.5, 1.0).
//
// # Where things are
//
// [Rows] is the one table of fields. Everything else (plans for decoding, the
// encoder, names in JSON, tables in docs/int/formats.md) is made from it. [Profiles] says
// where programs differ from the texts.
package intwire

//go:generate sh -c "go run ./gen fields | ../../lab/section.sh ../../docs/int/formats.md fields"
//go:generate sh -c "go run ./gen profiles | ../../lab/section.sh ../../docs/int/formats.md profiles"
