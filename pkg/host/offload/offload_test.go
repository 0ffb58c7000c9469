// SPDX-License-Identifier: Apache-2.0

package offload

import (
	"slices"
	"strings"
	"testing"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/host"
)

// TestSwitch: ethtool shows what is switched off, and the same as before when it is on again.
func TestSwitch(t *testing.T) {
	need.Programs(t, "ethtool")
	n := nstest.New(t, "a", "b")
	n.Veth("a", "e0", "b", "e0")
	show := func() string { return n.Run("a", "ethtool", "-k", "e0") }
	before := show()
	in := func(f func() error) {
		t.Helper()
		ns, _, err := host.OpenNetns(n.Path("a"))
		if err == nil {
			err = host.InNetns(ns, f)
			ns.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	var names []string
	in(func() (err error) {
		if names, err = On("e0", IsSegments); err != nil {
			return err
		}
		return Set("e0", names, false)
	})
	off := show()
	for _, line := range []string{"tcp-segmentation-offload: off", "generic-segmentation-offload: off", "tx-checksum-ip-generic: off", "tx-udp-segmentation: off"} {
		if !strings.Contains(off, line) || strings.Contains(before, line) {
			t.Errorf("%q: before\n%s\nswitched off\n%s", line, before, off)
		}
	}
	if !slices.Contains(names, "tx-generic-segmentation") {
		t.Errorf("switched off: %q", names)
	}
	in(func() error {
		if left, err := On("e0", IsSegments); err != nil || len(left) > 0 {
			t.Errorf("still on: %q, %v", left, err)
		}
		return Set("e0", append(names, "no-such-feature"), true)
	})
	if after := show(); after != before {
		t.Errorf("before\n%s\nafter\n%s", before, after)
	}
	if _, err := On("none", IsSegments); err == nil {
		t.Error("an interface that is not there")
	}
}
