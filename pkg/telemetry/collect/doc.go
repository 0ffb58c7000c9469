// SPDX-License-Identifier: Apache-2.0

// Package collect turns telemetry reports of switches and hosts into packets, and keeps
// the reports so that any process can do so later (docs/design/0009-collect.md).
//
//   - A Packet may hold reports: from a UDP socket (Listen), an interface (OpenInterface)
//     or a capture file (OpenCapture).
//   - A Translator is the one place where reports become packets as numbers (Reported), and
//     Reported.Record the one where these become text.
//   - A Store keeps packets in capture files of bounded size; Load and Info.Packets read them.
//   - A Collector brings these together.
//   - Dial and Package generate are the other side: they send reports to try a collector.
//
// Nothing here is safe for concurrent use unless it says so.
package collect
