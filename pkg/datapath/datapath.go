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
	"fmt"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/host/kernel"
)

// ErrUnsupported says that the kernel or the process lacks something: a feature,
// a capability, a file system. `radar check` tells what.
var ErrUnsupported = errors.New("not supported here")

// ErrLoad says that the kernel refused a map or a program. Where the verifier
// did, errors.As finds an *ebpf.VerifierError with the log.
var ErrLoad = errors.New("load BPF")

// ErrUsage marks what the user can only mend by asking for something else.
var ErrUsage = errors.New("usage")

// ErrDetaching says that the domain is being detached: no lease is given.
var ErrDetaching = errors.New("domain is being detached")

// kindError is an error with a text of its own that is also one of the above.
type kindError struct {
	kind  error
	text  string
	cause error
}

func (e *kindError) Error() string {
	if e.cause == nil {
		return e.text
	}
	return e.text + ": " + e.cause.Error()
}

func (e *kindError) Unwrap() []error {
	if e.cause == nil {
		return []error{e.kind}
	}
	return []error{e.kind, e.cause}
}

func usagef(format string, args ...any) error {
	return &kindError{kind: ErrUsage, text: fmt.Sprintf(format, args...)}
}

func unsupportedf(format string, args ...any) error {
	return &kindError{kind: ErrUnsupported, text: fmt.Sprintf(format, args...)}
}

// bpfError says what a failed call to the kernel's BPF means: a missing right or
// feature is ErrUnsupported, everything else ErrLoad.
func bpfError(what string, err error) error {
	var verifier *ebpf.VerifierError
	switch {
	case errors.As(err, &verifier):
		return &kindError{kind: ErrLoad, text: what, cause: err}
	case errors.Is(err, ebpf.ErrNotSupported):
		return &kindError{kind: ErrUnsupported, text: what, cause: err}
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		return &kindError{kind: ErrUnsupported, text: what + ": " + kernel.MissingRights(), cause: err}
	}
	return &kindError{kind: ErrLoad, text: what, cause: err}
}
