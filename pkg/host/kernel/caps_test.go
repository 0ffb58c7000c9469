// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"testing"

	"golang.org/x/sys/unix"
)

func TestParseCaps(t *testing.T) {
	caps, err := parseCaps("Name:\tx\nCapInh:\t0000000000000000\nCapEff:\t000001fffeffffff\nCapBnd:\t0\n")
	if err != nil || caps != 0x1fffeffffff {
		t.Errorf("%#x, %v", caps, err)
	}
	if missing := MissingCaps(caps); len(missing) != 0 {
		t.Errorf("missing %v", missing)
	}
	if missing := MissingCaps(1 << unix.CAP_NET_ADMIN); len(missing) != 2 || missing[0].Name != "CAP_SYS_ADMIN" || missing[1].Name != "CAP_NET_BROADCAST" {
		t.Errorf("missing %v", missing)
	}
	for _, bad := range []string{"", "CapEff:\tx\n"} {
		if _, err := parseCaps(bad); err == nil {
			t.Errorf("parseCaps(%q) takes it", bad)
		}
	}
}
