// SPDX-License-Identifier: Apache-2.0

// Package fault is how libraries say what is wrong to whoever asked: a person at a terminal, a
// program that calls an API, a web page. An error has a kind, which errors.Is finds:
//
//	fault.Usage.Errorf("‹slots› %d: use a power of two", n)
//
// Libraries do not know the syntax of flags and commands. Their texts, of errors and others, name
// a setting as ‹slots› and a command as «detach ‹domain› red». Such a text can be read as it is.
// The marks are part of it, so that it can be wrapped, joined, logged or sent to another process.
// Who shows it to a user calls Face.Render.
package fault

import "fmt"

// Kind is what an error means to who asked. It is the target of errors.Is.
type Kind string

// The kinds. What has none is a failure.
const (
	// Usage: something else must be asked for.
	Usage Kind = "usage"
	// Unsupported: the kernel or the process lacks a feature, a capability or a file system.
	Unsupported Kind = "not supported here"
	// NotLoaded: the kernel refused a BPF map or program, or the object is not of this radar. Where
	// the verifier refused it, errors.As finds an *ebpf.VerifierError.
	NotLoaded Kind = "load BPF"
)

// Error implements error.
func (k Kind) Error() string { return string(k) }

// Errorf is fmt.Errorf for an error of the kind, which its text does not name.
func (k Kind) Errorf(format string, args ...any) error {
	return &kinded{k, fmt.Errorf(format, args...)}
}

// kinded is an error that is also its kind.
type kinded struct {
	kind Kind
	err  error
}

func (e *kinded) Error() string        { return e.err.Error() }
func (e *kinded) Is(target error) bool { return target == e.kind }
func (e *kinded) Unwrap() error        { return e.err }
