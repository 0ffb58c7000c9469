// SPDX-License-Identifier: Apache-2.0

package system

import (
	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/hook"
	"github.com/vnetradar/radar/pkg/host/kernel"
	"github.com/vnetradar/radar/pkg/loader"
)

// IsTooOld reports whether a kernel of that release can take no program of ours.
func IsTooOld(release string) bool { return kernel.Older(release, 5, 10) }

// CheckKernel refuses a kernel that is too old, and a process that may not attach programs.
func CheckKernel() error {
	if release := kernel.Release(); IsTooOld(release) {
		return fault.Unsupported.Errorf("radar needs Linux 5.10 or newer, this is %s", release)
	}
	if kernel.LacksRights() {
		return fault.Unsupported.Errorf("programs cannot be attached: %s", kernel.MissingRights())
	}
	return nil
}

// ChooseHook is CheckKernel, and says by which hook a new domain is attached: want, or what the kernel has if that is
// loader.HookAuto or nothing.
func ChooseHook(want string) (by string, err error) {
	if err := CheckKernel(); err != nil {
		return "", err
	}
	if want == "" {
		want = loader.HookAuto
	}
	return loader.ChooseHook(want, hook.Probe(), kernel.Release())
}
