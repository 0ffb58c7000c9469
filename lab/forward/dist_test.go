// SPDX-License-Identifier: Apache-2.0

package forward

import (
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const ms = time.Millisecond

// TestDistributions draws from each and compares mean, median and range with
// what the textbook says.
func TestDistributions(t *testing.T) {
	path := filepath.Join(t.TempDir(), "samples")
	if err := os.WriteFile(path, []byte("# of a link\n1ms\n\n3ms\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		text                   string
		mean, median, low, top time.Duration
	}{
		{"5ms", 5 * ms, 5 * ms, 5 * ms, 5 * ms},
		{"constant:250us", ms / 4, ms / 4, ms / 4, ms / 4},
		{"uniform:1ms,5ms", 3 * ms, 3 * ms, ms, 5 * ms},
		{"normal:5ms,1ms", 5 * ms, 5 * ms, 0, 11 * ms},
		{"exponential:2ms", 2 * ms, 1386294 * time.Nanosecond, 0, 100 * ms},
		// Mean a/(a-1), median 2^(1/a).
		{"pareto:1ms,3", 3 * ms / 2, time.Duration(math.Cbrt(2) * float64(ms)), ms, MaxDelay},
		{"normal:1ms,0s", ms, ms, ms, ms},
		{"pareto:5s,0.1", MaxDelay, MaxDelay, 5 * time.Second, MaxDelay},
	} {
		d, err := ParseDist(tc.text)
		if err != nil {
			t.Errorf("%s: %v", tc.text, err)
			continue
		}
		list := draw(d, 1, 50_000)
		var sum time.Duration
		for _, v := range list {
			sum += v
		}
		slices.Sort(list)
		mean, median := sum/time.Duration(len(list)), list[len(list)/2]
		if far(mean, tc.mean) || far(median, tc.median) {
			t.Errorf("%s: mean %v, median %v, want %v and %v", tc.text, mean, median, tc.mean, tc.median)
		}
		if list[0] < tc.low || list[len(list)-1] > tc.top {
			t.Errorf("%s: from %v to %v, want within %v and %v", tc.text, list[0], list[len(list)-1], tc.low, tc.top)
		}
	}
	d, err := ParseDist("file:" + path)
	if err != nil {
		t.Fatal(err)
	}
	list := draw(d, 1, 1000)
	slices.Sort(list)
	if got := slices.Compact(list); !slices.Equal(got, []time.Duration{ms, 3 * ms}) {
		t.Errorf("file with 1ms and 3ms gives %v", got)
	}
}

func draw(d Dist, seed uint64, n int) []time.Duration {
	r := rand.New(rand.NewPCG(seed, 0))
	list := make([]time.Duration, n)
	for i := range list {
		list[i] = d.Sample(r)
	}
	return list
}

// far says whether got is more than 5 % off.
func far(got, want time.Duration) bool {
	return math.Abs(float64(got-want)) > 0.05*float64(want)
}

func TestSeed(t *testing.T) {
	d, err := ParseDist("exponential:2ms")
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(draw(d, 7, 100), draw(d, 7, 100)) {
		t.Error("the same seed gives other delays")
	}
	if slices.Equal(draw(d, 7, 100), draw(d, 8, 100)) {
		t.Error("another seed gives the same delays")
	}
}

func TestParseDistErrors(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, []byte("# none\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"":                  `"" is no duration`,
		"5":                 `"5" is no duration`,
		"gauss:1ms,2ms":     `unknown distribution "gauss"`,
		"uniform:1ms":       "use uniform:MIN,MAX",
		"uniform:5ms,1ms":   "1ms is less than 5ms",
		"constant:-1ms":     "not within 0 and 10s",
		"constant:1m":       "not within 0 and 10s",
		"normal:1ms,x":      `"x" is no duration`,
		"pareto:1ms,0":      `shape "0"`,
		"pareto:1ms,NaN":    `shape "NaN"`,
		"file:" + empty:     "no sample",
		"file:/nonexistent": "open samples",
	} {
		if _, err := ParseDist(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseDist(%q) = %v, want %q in the error", text, err, want)
		}
	}
}
