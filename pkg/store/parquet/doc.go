// SPDX-License-Identifier: Apache-2.0

// Package parquet writes Parquet files column by column, and reads the files that it has written.
//
// It knows a part of the format (github.com/apache/parquet-format): rows of leaves and of lists of
// leaves, one page for each column of a row group, zstd. Whoever reads Parquet reads its files. It
// reads none but its own: checksums that others do not look at cover every byte, and no length in a
// file makes it take more memory than a Limits allows.
//
// A Writer and a Reader are not safe for concurrent use.
package parquet
