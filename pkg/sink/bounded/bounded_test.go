// SPDX-License-Identifier: Apache-2.0

package bounded

import (
	"strings"
	"testing"
)

func TestText(t *testing.T) {
	for _, c := range []struct {
		s, want string
		most    int
	}{
		{"eth0", "eth0", 10}, {"eth0", "et", 2}, {"aäb", "aäb", 4}, {"aäb", "a", 2}, {"a\xffb", "a?b", 3},
		{strings.Repeat("\x80", 9), "?", 5}, {"", "", 0}, {"ä", "", 1},
	} {
		if got := Text(c.s, c.most); got != c.want || len(got) > c.most {
			t.Errorf("%q at most %d: %q, want %q", c.s, c.most, got, c.want)
		}
	}
}
