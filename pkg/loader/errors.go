// SPDX-License-Identifier: Apache-2.0

package loader

import (
	"errors"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/rlimit"
	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/hook"
	"github.com/vnetradar/radar/pkg/host/kernel"
)

// Error is what a failed call to the kernel's BPF means: a missing right or
// feature is fault.Unsupported, everything else fault.NotLoaded.
func Error(what string, err error) error {
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

// LinkError is what an error of a link means to the user. what is the program; "" for several.
func LinkError(what string, err error) error {
	e, ok := errors.AsType[*hook.Error](err)
	if !ok {
		return err
	}
	text := e.Step
	if e.Subject != "" && what != "" {
		text += " " + what
	}
	switch e.Kind {
	case hook.ErrUnsupported:
		return fault.Unsupported.Errorf("%s: %w", text, e.Cause)
	case hook.ErrPermission:
		return fault.Unsupported.Errorf("%s: %s: %w", text, kernel.MissingRights(), e.Cause)
	}
	return fault.NotLoaded.Errorf("%s: %w", text, e.Cause)
}

// License of all programs: some helpers are for GPL-compatible programs only.
const License = "Dual BSD/GPL"

// RaiseMemlock lets this process load maps and programs: before Linux 5.11 they count as
// locked memory of their user, whose other domains may have used up a small limit.
func RaiseMemlock() error {
	if err := rlimit.RemoveMemlock(); err != nil {
		return fault.Unsupported.Errorf("raise the limit of locked memory (this kernel counts maps against it; ulimit -l unlimited, or CAP_SYS_RESOURCE): %w", err)
	}
	return nil
}
