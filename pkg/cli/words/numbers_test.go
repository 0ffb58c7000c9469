// SPDX-License-Identifier: Apache-2.0

package words

import "testing"

func TestHumanDuration(t *testing.T) {
	for _, c := range []struct {
		ns   float64
		want string
	}{
		{0, "0ns"}, {1, "1ns"}, {812, "812ns"}, {999, "999ns"}, {999.6, "1.00us"},
		{1000, "1.00us"}, {12345, "12.3us"}, {99_949, "99.9us"}, {99_960, "100us"},
		{123_456, "123us"}, {999_499, "999us"}, {999_500, "1.00ms"}, {4_560_000, "4.56ms"},
		{1_200_000_000, "1.20s"}, {75_000_000_000, "75.0s"}, {1_800_000_000_000, "1800s"}, {-1500, "-1.50us"},
	} {
		if got := Duration(c.ns); got != c.want {
			t.Errorf("humanDuration(%v) = %q, want %q", c.ns, got, c.want)
		}
	}
}
