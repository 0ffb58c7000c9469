// SPDX-License-Identifier: Apache-2.0

// Package collect turns telemetry reports of switches and hosts into packets
// (docs/design/0009-collect.md).
//
//   - A Packet may hold reports: from a UDP socket (Listen), an interface (OpenInterface)
//     or a capture file (OpenCapture).
//   - pkg/intwire reads them (Decoder.Decode).
//   - A Translator is the one place where reports become packets as numbers (Reported), and
//     Reported.Record the one where these become text.
//   - A Collector brings these together, and gives a Store (pkg/store) what is to be kept.
//   - Dial and Package generate are the other side: they send reports to try a collector.
//
// Nothing here is safe for concurrent use unless it says so.
package collect
