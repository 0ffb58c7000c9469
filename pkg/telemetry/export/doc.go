// SPDX-License-Identifier: Apache-2.0

// Package export makes telemetry reports (TR 1.0, 2.0 of P4.org) of records: what radar has
// measured, for collectors that know INT. It does no I/O; radar export int sends what it makes.
//
// An [Encoder] writes one report for each way that a packet's copies took, with the whole way
// as an INT-MD stack in the packet that is quoted, or one for each node of the way (INT-XD).
// What a record does not say is not in the report: its instruction bit is clear, or where other
// hops of the stack have it, the value is all ones. docs/int/export.md says what stands
// for what.
//
// Times are ns since 1970 (TR 1.0 and INT 1.0: their low 32 bits), latencies ns. Ports are
// interface indices, 0 is none. All is in network byte order on the wire, by pkg/intwire.
package export

//go:generate sh -c "go run ./gen | ../../../lab/section.sh ../../../docs/int/export.md reasons"
