// SPDX-License-Identifier: Apache-2.0

package port

import (
	"testing"

	"github.com/vnetradar/radar/pkg/vnet/datapath/program"
)

func TestChooseHook(t *testing.T) {
	for _, c := range []struct {
		want        string
		tcx, clsact bool
		got         string
	}{
		{program.HookAuto, true, true, program.HookTCX},
		{program.HookAuto, false, true, program.HookClsact},
		{program.HookAuto, false, false, ""},
		{program.HookTCX, true, false, program.HookTCX},
		{program.HookTCX, false, true, ""},
		{program.HookClsact, true, true, program.HookClsact},
		{program.HookClsact, true, false, ""},
	} {
		got, err := ChooseHook(c.want, program.Features{TCX: c.tcx, Clsact: c.clsact})
		if got != c.got || (err == nil) != (c.got != "") {
			t.Errorf("%+v: %q, %v", c, got, err)
		}
	}
}
