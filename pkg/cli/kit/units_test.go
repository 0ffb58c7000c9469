// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"testing"
)

func TestParseCount(t *testing.T) {
	for _, c := range []struct {
		in   string
		want uint32
		ok   bool
	}{
		{"0", 0, true}, {"1048576", 1 << 20, true}, {"1M", 1 << 20, true}, {"64k", 65536, true},
		{"2G", 1 << 31, true}, {"2^20", 1 << 20, true}, {"2^0", 1, true}, {"2^31", 1 << 31, true},
		{"4G", 0, false}, {"2^32", 0, false}, {"3^2", 0, false}, {"2^", 0, false}, {"2^-1", 0, false}, {"", 0, false},
		{"M", 0, false}, {"1MM", 0, false}, {"1T", 0, false}, {"-1", 0, false}, {"1.5M", 0, false},
		{"4294967295", 1<<32 - 1, true}, {"4294967296", 0, false}, {"4294967295G", 0, false},
	} {
		got, err := parseCount(c.in)
		if (err == nil) != c.ok || got != c.want {
			t.Errorf("parseCount(%q) = %d, %v; want %d, ok %v", c.in, got, err, c.want, c.ok)
		}
	}
}
