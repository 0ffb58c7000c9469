// SPDX-License-Identifier: Apache-2.0

// Package datapath puts the BPF programs to work and takes them away again:
// it attaches and pins what package program has loaded, carries out what package
// merge has decided, renews the sources' lease, reads counters, and detaches.
//
// Everything that lasts is pinned (domain.PinDir) or described in domain.json, so
// no process is needed for traffic to pass and to be restored. Whoever changes a
// domain holds its lock (domain.Lock) meanwhile; Attach, Detach and Refresh take
// it themselves.
//
// The order that keeps packets whole: an interface gets its programs with the
// role of an edge that sources nothing, so they only restore. When all are there,
// ports between attached nodes become internal, and only then are sources opened.
// Taking away goes the other way round, with time for packets under way to leave.
package datapath
