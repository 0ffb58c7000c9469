// SPDX-License-Identifier: Apache-2.0

package loader

import (
	"testing"

	"github.com/vnetradar/radar/pkg/hook"
)

func TestChooseHook(t *testing.T) {
	for _, c := range []struct {
		want        string
		tcx, clsact bool
		got         string
	}{
		{HookAuto, true, true, hook.ByTCX},
		{HookAuto, false, true, hook.ByClsact},
		{HookAuto, false, false, ""},
		{hook.ByTCX, true, false, hook.ByTCX},
		{hook.ByTCX, false, true, ""},
		{hook.ByClsact, true, true, hook.ByClsact},
		{hook.ByClsact, true, false, ""},
	} {
		got, err := ChooseHook(c.want, hook.Support{TCX: c.tcx, Clsact: c.clsact}, "6.1")
		if got != c.got || (err == nil) != (c.got != "") {
			t.Errorf("%+v: %q, %v", c, got, err)
		}
	}
}
