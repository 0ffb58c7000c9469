// SPDX-License-Identifier: Apache-2.0

// Package explain says why a flow was slow. It takes the records of both directions, oldest first, follows what the
// sender knew and what became of each packet, and returns a verdict as values: one cause, and what speaks for it
// (docs/design/0039-explain.md). It knows nothing of where records come from. Its memory has a bound, whatever they say.
package explain
