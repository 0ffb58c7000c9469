// SPDX-License-Identifier: Apache-2.0

package wording

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/host/symbols"
)

// Every reason that has words is one of the running kernel's, and each of those has words.
func TestReasons(t *testing.T) {
	table := symbols.Load()
	known := make(map[string]bool)
	for code := range uint32(512) {
		known[table.Reason(code)] = true
	}
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		t.Fatal(err)
	}
	var major, minor int
	if _, err := fmt.Sscanf(unix.ByteSliceToString(u.Release[:]), "%d.%d", &major, &minor); err != nil {
		t.Fatal(err)
	}
	unknown := 0
	for name := range Reasons {
		if known[name] || strings.HasPrefix(name, "OVS_") { // those have numbers of their own
			continue
		}
		if unknown++; major > 6 || major == 6 && minor >= 18 {
			t.Errorf("this kernel has no reason %s", name)
		}
	}
	for name := range known {
		if name == "" || regexp.MustCompile(`^\d+$`).MatchString(name) || name == "NOT_DROPPED_YET" || name == "NOT_SPECIFIED" {
			continue
		}
		if Reasons[name] == "" || Why(name, "") == "" {
			t.Errorf("no words for the reason %s of this kernel: %q, in short %q", name, Reasons[name], Why(name, ""))
		}
	}
	// Older kernels lack some.
	if unknown > len(Reasons)/2 {
		t.Errorf("this kernel has only %d of %d reasons: %v", len(Reasons)-unknown, len(Reasons), table.Err())
	}
}
