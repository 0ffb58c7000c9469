// SPDX-License-Identifier: Apache-2.0

// Package result is what benchmarks find: figures of interleaved rounds, tables of them, a run as JSON, what it should
// have found (targets), and the pages that are made of the recorded run.
package result
