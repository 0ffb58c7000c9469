// SPDX-License-Identifier: Apache-2.0

// Package store keeps telemetry reports, so that any process can ask about them later (docs/design/0009-collect.md).
//
//   - A Store is what a collector writes: reports in capture files of bounded size, a description of them
//     (collect.Info), and the newest values.
//   - Load reads the description, Each the reports, Packets the packets that they tell of, LoadRows the values;
//     Runs says whether they may still change.
//
// A file is replaced as a whole or grows at its end: readers need no lock. A Store is not safe for concurrent use
// unless it says so.
package store
