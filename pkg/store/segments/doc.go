// SPDX-License-Identifier: Apache-2.0

// Package segments keeps finished packets of every source in Parquet files, and reads them again.
//
// A recording is a directory. A Writer adds packets to the current segment; a segment that is
// finished is one file, which never changes again and says by itself all that is needed to read it.
// What is read is what was added: every field of packet.Packet that answers or records use.
// docs/records.md says what the files hold, docs/design/0037-records.md why.
package segments
