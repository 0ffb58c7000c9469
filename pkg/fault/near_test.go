// SPDX-License-Identifier: Apache-2.0

package fault_test

import (
	"testing"

	"github.com/vnetradar/radar/pkg/fault"
)

// What is misspelled is guessed where it is near.
func TestNearest(t *testing.T) {
	for word, want := range map[string]string{"sinse": "since", "Since": "since", "sicne": "since", "lost": "last", "proto": "proto", "x": "", "zzzzz": "", "": ""} {
		if got := fault.Nearest(word, []string{"since", "last", "proto", "dport"}); got != want {
			t.Errorf("%q: %q is near, want %q", word, got, want)
		}
	}
}
