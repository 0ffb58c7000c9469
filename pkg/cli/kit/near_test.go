// SPDX-License-Identifier: Apache-2.0

package kit

import "testing"

// What is misspelled is guessed where it is near.
func TestNearest(t *testing.T) {
	for word, want := range map[string]string{"sinse": "since", "Since": "since", "sicne": "since", "lost": "last", "proto": "proto", "x": "", "zzzzz": "", "": ""} {
		if got := Nearest(word, []string{"since", "last", "proto", "dport"}); got != want {
			t.Errorf("%q: %q is near, want %q", word, got, want)
		}
	}
}
