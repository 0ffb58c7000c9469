// SPDX-License-Identifier: Apache-2.0

// Package node puts the programs of INT nodes (bpf/int) at ports, keeps what is attached described, and
// takes it off again: docs/design/0032-int-nodes.md.
//
//   - A Domain is the description of nodes that speak INT with each other: roles of ports, and Options.
//   - Attach adds roles, Detach takes them away. Both change the description, and apply makes the kernel what
//     it says. What a crash leaves is found by pins, and by names of filters.
//   - Package agent, below, is the living part: it renews the lease, and makes telemetry reports of what the
//     programs tell.
//
// It knows namespaces, not how users name them.
package node
