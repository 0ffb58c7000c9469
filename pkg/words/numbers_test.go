// SPDX-License-Identifier: Apache-2.0

package words

import (
	"math"
	"math/rand/v2"
	"strconv"
	"testing"
)

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

// TestAppendFixed: what is written without package strconv is what that would write.
func TestAppendFixed(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	check := func(v float64) {
		for decimals, scale := range []float64{1, 10, 100} {
			if got, want := string(appendFixed(nil, v, decimals, scale)), strconv.FormatFloat(v, 'f', decimals, 64); got != want {
				t.Fatalf("%v with %d decimals: %s, want %s", v, decimals, got, want)
			}
		}
	}
	for n := range 200_000 { // with every number that lies in the middle between two
		check(float64(n) / 1e3)
	}
	for range 200_000 {
		check(rng.Float64() * math.Pow(10, float64(rng.IntN(14)-3)))
	}
	for _, v := range []float64{-1.25, math.Copysign(0, -1), -0.001, math.NaN(), math.Inf(1), math.Inf(-1), 1e300, 999.995, math.MaxInt64} {
		check(v)
	}
}
