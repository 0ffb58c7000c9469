// SPDX-License-Identifier: Apache-2.0

// Package collect turns telemetry reports of switches and hosts into records, and keeps
// the reports so that any process can do so later (docs/design/0009-collect.md).
//
//   - A Datagram is a report as it came: from a UDP socket (Listen) or a capture file.
//   - A Translator is the one place where reports become records.
//   - A Store keeps datagrams in capture files of bounded size; Open reads them.
//   - Numbers gives their nodes and ports numbers beside a domain's, for aggregates.
//
// Nothing here is safe for concurrent use unless it says so.
package collect
