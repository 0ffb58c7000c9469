// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"github.com/cilium/ebpf"
	"github.com/spf13/cobra"

	"github.com/vnetradar/radar/pkg/datapath"
	"github.com/vnetradar/radar/pkg/host/kernel"
	"github.com/vnetradar/radar/pkg/topo"
)

// Exit codes, part of the contract with scripts.
const (
	exitOK      = 0
	exitFailure = 1
	exitUsage   = 2
	exitKernel  = 3 // a kernel feature or a capability is missing
	exitLoad    = 4 // the kernel refused the BPF programs
	exitLost    = 5 // of "loss --fail-if-lost": packets were lost

	// Of "lab exec", as in a shell: the command cannot be run, or is not there.
	exitCannotRun = 126
	exitNoCommand = 127
)

// codeError is an error with an exit code of its own.
type codeError struct {
	code int
	err  error // nil: everything has been said already
}

func (e *codeError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *codeError) Unwrap() error { return e.err }

// withCode gives err an exit code. A nil err ends the command with that code
// and no message.
func withCode(code int, err error) error { return &codeError{code: code, err: err} }

// usagef is an error in how the command was called: exit code 2, and a hint
// where the help is.
func usagef(format string, args ...any) error {
	return withCode(exitUsage, fmt.Errorf(format, args...))
}

// exitCode is the exit code that err stands for.
func exitCode(err error) int {
	if err == nil {
		return exitOK
	}
	if coded, ok := errors.AsType[*codeError](err); ok {
		return coded.code
	}
	switch {
	case errors.Is(err, datapath.ErrUsage), errors.Is(err, topo.ErrUsage):
		return exitUsage
	case errors.Is(err, datapath.ErrLoad):
		return exitLoad
	case errors.Is(err, datapath.ErrUnsupported), lacksRights(err):
		return exitKernel
	}
	return exitFailure
}

// lacksRights says whether err is a matter of the user's rights.
func lacksRights(err error) bool {
	return errors.Is(err, fs.ErrPermission) && kernel.LacksRights()
}

// explain is the text of err for the user, with what to do where err itself does
// not say.
func explain(err error, verbose bool) string {
	text := err.Error()
	verifier, refused := errors.AsType[*ebpf.VerifierError](err)
	switch {
	case refused && verbose:
		text += fmt.Sprintf("\n%+v", verifier)
	case refused:
		text += " (the whole verifier log: --verbose)"
	case lacksRights(err):
		text += " (" + kernel.MissingRights() + ")"
	}
	return text
}

// finish reports err, if any, and returns the exit code.
func (a *app) finish(cmd *cobra.Command, err error) int {
	if flushErr := a.out.Flush(); err == nil {
		err = flushErr
	}
	defer a.flushShown()
	// Whoever read our output has gone (radar packets | head): that is no failure.
	if errors.Is(err, syscall.EPIPE) {
		return exitOK
	}
	code := exitCode(err)
	if coded, ok := errors.AsType[*codeError](err); code == exitOK || ok && coded.err == nil {
		return code
	}
	fmt.Fprintf(a.stderr, "radar: %s\n", explain(err, a.verbose))
	if code == exitUsage {
		fmt.Fprintf(a.stderr, "Run '%s --help' for usage.\n", cmd.CommandPath())
	}
	return code
}
