// SPDX-License-Identifier: Apache-2.0

// Package resident is the living part that an attached system has: one process a domain, its agent, which renews the
// lease and follows what changes. Nothing depends on it but that: programs do without, and the next agent goes on.
//
//   - A Seat is where the agent of a domain is found, started and claimed: by files in the domain's state directory.
//   - Troubles are what an agent fails to do, kept where others can read it, also when the disk is full. A Logger notes
//     them, and logs each once.
//   - A Life is what the process has that sits there.
//   - A Keeper is its loop: it renews the lease, and looks at interfaces.
//   - Paced bounds what a loop does for events that others can cause without end.
//   - A Pulse wakes the loops of an agent together; Rest says which of them may wait.
package resident
