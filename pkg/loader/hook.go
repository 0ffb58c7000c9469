// SPDX-License-Identifier: Apache-2.0

package loader

import (
	"errors"
	"fmt"

	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/hook"
	"github.com/vnetradar/radar/pkg/host/kernel"
)

// HookAuto leaves the choice between hook.ByTCX and hook.ByClsact to radar.
const HookAuto = "auto"

// ChooseHook settles HookAuto and refuses what the kernel lacks, whose release is for the text.
func ChooseHook(want string, has hook.Support, release string) (string, error) {
	switch {
	case want == hook.ByTCX && !has.TCX:
		return "", fault.Unsupported.Errorf("this kernel (%s) has no TCX, which came with Linux 6.6: use ‹hook› auto or clsact", release)
	case want == hook.ByClsact && !has.Clsact:
		return "", fault.Unsupported.Errorf("this kernel (%s) has no clsact with BPF: modprobe sch_ingress cls_bpf, or use ‹hook› auto", release)
	case want == hook.ByTCX, want == HookAuto && has.TCX:
		return hook.ByTCX, nil
	case has.Clsact:
		return hook.ByClsact, nil
	}
	return "", fault.Unsupported.Errorf("this kernel (%s) has neither TCX nor clsact with BPF: see «check»", release)
}

// QdiscError is what an error of making the qdisc for filters means to the user.
func QdiscError(err error) error {
	if errors.Is(err, hook.ErrBusy) {
		return fault.Usage.Errorf("an ingress qdisc is in the place of clsact: remove it (tc qdisc del dev IF ingress), or use ‹hook› tcx")
	}
	return HookError("", "", err)
}

// HookError is what an error of one of a port's hooks means to the user. prog is the program, side the
// hook as texts call it.
func HookError(prog, side string, err error) error {
	e, ok := errors.AsType[*hook.Error](err)
	switch {
	case !ok:
		return err
	case e.Step == "attach", e.Step == "pin link":
		return LinkError(prog, err)
	case e.Step == "remove pin":
		return err
	}
	text := e.Step
	if e.Subject != "" {
		text += " " + prog
	}
	switch e.Kind {
	case hook.ErrBusy:
		return fault.Usage.Errorf("the %s hook already has a filter of priority %d (%s): give that one another priority, or use ‹hook› tcx", side, hook.FilterPriority, e.By)
	case hook.ErrPermission:
		return fault.Unsupported.Errorf("%s: %s: %w", text, kernel.MissingRights(), e.Cause)
	case hook.ErrUnsupported:
		return fault.Unsupported.Errorf("%s (modprobe sch_ingress cls_bpf): %w", text, e.Cause)
	}
	return fmt.Errorf("%s: %w", text, e.Cause)
}

// MountPins mounts the BPF file system where it is missing. It stays: other
// programs may come to use it.
func MountPins() error {
	err := hook.Mount()
	if errors.Is(err, hook.ErrFleeting) {
		return fault.Unsupported.Errorf("no BPF file system at %s, and one mounted here would end with this mount namespace: run outside `ip netns exec`; in a container, bind-mount the host's %s", hook.BPFFS, hook.BPFFS)
	}
	if failed, ok := errors.AsType[*hook.Error](err); ok {
		return fault.Unsupported.Errorf("%s %s: %w", failed.Step, failed.Subject, failed.Cause)
	}
	return nil
}
