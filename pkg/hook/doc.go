// SPDX-License-Identifier: Apache-2.0

// Package hook puts BPF programs where the kernel calls them, says what stands there, and takes
// it off. Every system of radar uses it, and it knows none of them:
// docs/design/0021-hooks.md.
//
// There are two ways in which the kernel keeps a program in its place.
//
// A link keeps it at a Point: TCX, XDP, Tracing, Netfilter. It stays while somebody holds the
// link: a process (Attach), or a pin in the BPF file system (AttachPinned), which outlives the
// process. Detach takes off what a pin holds, Look says what that is.
//
// A Filter hangs at the clsact qdisc of an interface. It stays until it is removed, and is known
// by its name. TC is one of the two hooks of an interface, by whichever way the kernel has.
//
// Functions that take the number of an interface work in the network namespace of the calling
// thread.
package hook

import (
	"errors"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// The kinds of an Error.
var (
	// ErrUnsupported: the kernel lacks what is asked for.
	ErrUnsupported = errors.New("the kernel does not support it")
	// ErrBusy: something else stands in that place, and both cannot.
	ErrBusy = errors.New("the place is taken")
	// ErrPermission: the process lacks a right.
	ErrPermission = errors.New("a right is missing")
)

// Error says which step failed, and why. errors.Is finds its kind and its cause.
type Error struct {
	Step    string // such as "attach" or "add filter"
	Subject string // where; "" if the step says all
	Kind    error  // one of the above; nil: none of them
	By      string // with ErrBusy, what stands there, as far as the kernel tells
	Cause   error  // what the kernel said; nil if it was not asked
}

func (e *Error) Error() string {
	text := e.Step
	if e.Subject != "" {
		text += " " + e.Subject
	}
	switch {
	case e.Cause != nil:
		return text + ": " + e.Cause.Error()
	case e.By != "":
		return text + ": taken by " + e.By
	}
	return text + ": " + e.Kind.Error()
}

func (e *Error) Unwrap() (all []error) {
	for _, err := range []error{e.Kind, e.Cause} {
		if err != nil {
			all = append(all, err)
		}
	}
	return all
}

// kindOf says what the kernel means by an error of a link.
func kindOf(err error) error {
	switch {
	case errors.Is(err, ebpf.ErrNotSupported), errors.Is(err, unix.EAFNOSUPPORT):
		return ErrUnsupported
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		return ErrPermission
	case errors.Is(err, unix.EBUSY), errors.Is(err, unix.EEXIST):
		return ErrBusy
	}
	return nil
}
