// SPDX-License-Identifier: Apache-2.0

// Package datapath puts the BPF programs to work and takes them away again:
// it probes the kernel, derives the programs' constants from the user's options,
// loads, attaches and pins them, renews the sources' lease, reads counters,
// follows changes of the topology, and detaches.
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

import (
	"errors"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/host/kernel"
)

// ErrDetaching says that the domain is being detached: no lease is given.
var ErrDetaching = errors.New("domain is being detached")

// bpfError says what a failed call to the kernel's BPF means: a missing right or
// feature is fault.Unsupported, everything else fault.NotLoaded.
func bpfError(what string, err error) error {
	var verifier *ebpf.VerifierError
	switch {
	case errors.As(err, &verifier):
		return fault.NotLoaded.Errorf("%s: %w", what, err)
	case errors.Is(err, ebpf.ErrNotSupported):
		return fault.Unsupported.Errorf("%s: %w", what, err)
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		return fault.Unsupported.Errorf("%s: %s: %w", what, kernel.MissingRights(), err)
	}
	return fault.NotLoaded.Errorf("%s: %w", what, err)
}
