// SPDX-License-Identifier: Apache-2.0

// Package intnode drives "radar int attach", "detach" and "status" as a user does, in a network of
// namespaces, and compares with what captures on every link saw. Packets, INT and telemetry reports are read
// here by code of these tests alone.
package intnode
