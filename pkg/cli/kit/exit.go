// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/cilium/ebpf"
	"github.com/spf13/cobra"

	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/host/kernel"
	"github.com/vnetradar/radar/pkg/host/statedir"
)

// Exit codes, part of the contract with scripts.
const (
	ExitOK      = 0
	ExitFailure = 1
	ExitUsage   = 2
	ExitKernel  = 3 // a kernel feature or a capability is missing
	ExitLoad    = 4 // the kernel refused the BPF programs
	ExitLost    = 5 // of "loss --fail-if-lost": packets were lost
	ExitCause   = 6 // of "explain --exit-code": something held the flow

	// Of "lab exec", as in a shell: the command cannot be run, or is not there.
	ExitCannotRun = 126
	ExitNoCommand = 127
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

// WithCode gives err an exit code. A nil err ends the command with that code
// and no message.
func WithCode(code int, err error) error { return &codeError{code: code, err: err} }

// ExitCode is the exit code that err stands for.
func ExitCode(err error) int {
	if err == nil {
		return ExitOK
	}
	if coded, ok := errors.AsType[*codeError](err); ok {
		return coded.code
	}
	switch {
	case errors.Is(err, fault.Usage):
		return ExitUsage
	case errors.Is(err, fault.NotLoaded):
		return ExitLoad
	case errors.Is(err, fault.Unsupported), lacksRights(err):
		return ExitKernel
	}
	return ExitFailure
}

// lacksRights says whether err is a matter of the user's rights to the kernel.
func lacksRights(err error) bool {
	return errors.Is(err, fs.ErrPermission) && !isOfFile(err) && kernel.LacksRights()
}

// systemDirs are where the kernel and programs of the system have their files: capabilities open them.
var systemDirs = []string{"/sys", "/proc", "/dev", "/run", "/var/run"}

// isOfFile says whether err is about an ordinary file, as users name them: no capability is meant to open it.
func isOfFile(err error) bool {
	path := ""
	if of, ok := errors.AsType[*fs.PathError](err); ok {
		path = of.Path
	} else if of, ok := errors.AsType[*os.LinkError](err); ok {
		path = of.New
	}
	if path == "" || statedir.IsOwn(err) {
		return false
	}
	if path, err = filepath.Abs(path); err != nil {
		return false
	}
	return !slices.ContainsFunc(append(systemDirs, statedir.Root()), func(dir string) bool { return path == dir || strings.HasPrefix(path, dir+"/") })
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

// Finish reports err, if any, and returns the exit code.
func (k *Kit) Finish(cmd *cobra.Command, err error) int {
	if flushErr := k.Out.Flush(); err == nil {
		err = flushErr
	}
	defer k.flushShown()
	// Whoever read our output has gone (radar packets | head): that is no failure.
	if errors.Is(err, syscall.EPIPE) {
		return ExitOK
	}
	code := ExitCode(err)
	if coded, ok := errors.AsType[*codeError](err); code == ExitOK || ok && coded.err == nil {
		return code
	}
	fmt.Fprintf(k.Stderr, "radar: %s\n", explain(err, k.Verbose))
	if code == ExitUsage {
		fmt.Fprintf(k.Stderr, "Run '%s --help' for usage.\n", cmd.CommandPath())
	}
	return code
}
