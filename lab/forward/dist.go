// SPDX-License-Identifier: Apache-2.0

package forward

import (
	"bufio"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"time"
)

// MaxDelay bounds every delay: a sample above it counts as MaxDelay.
const MaxDelay = 10 * time.Second

// Dist is a distribution of delays. The zero value is no delay. Samples lie
// within 0 and MaxDelay; what falls outside is put on the border.
type Dist struct {
	text   string
	sample func(*rand.Rand) float64 // ns
}

func (d Dist) String() string {
	if d.sample == nil {
		return "constant:0s"
	}
	return d.text
}

// Sample draws one delay.
func (d Dist) Sample(r *rand.Rand) time.Duration {
	if d.sample == nil {
		return 0
	}
	return time.Duration(min(max(d.sample(r), 0), float64(MaxDelay)))
}

// kinds are the distributions by name, with their parameters in words.
var kinds = map[string]struct {
	usage string
	make  func(args []string) (func(*rand.Rand) float64, error)
}{
	"constant":    {"constant:DELAY", constant},
	"uniform":     {"uniform:MIN,MAX", uniform},
	"normal":      {"normal:MEAN,DEVIATION", normal},
	"exponential": {"exponential:MEAN", exponential},
	"pareto":      {"pareto:MIN,SHAPE", pareto},
	"file":        {"file:PATH", samples},
}

// ParseDist reads a distribution: constant:5ms (or 5ms alone), uniform:1ms,5ms,
// normal:MEAN,DEVIATION, exponential:MEAN, pareto:MIN,SHAPE (SHAPE is a number,
// such as 2.5), or file:PATH with one duration a line, of which each frame gets
// one at random.
func ParseDist(s string) (Dist, error) {
	name, rest, ok := strings.Cut(s, ":")
	if !ok {
		name, rest = "constant", s
	}
	kind, known := kinds[name]
	if !known {
		return Dist{}, fmt.Errorf("delay %q: unknown distribution %q: use constant, uniform, normal, exponential, pareto or file", s, name)
	}
	args := []string{rest}
	if name != "file" {
		args = strings.Split(rest, ",")
	}
	if want := strings.Count(kind.usage, ",") + 1; len(args) != want {
		return Dist{}, fmt.Errorf("delay %q: use %s", s, kind.usage)
	}
	sample, err := kind.make(args)
	if err != nil {
		return Dist{}, fmt.Errorf("delay %q: %w: use %s", s, err, kind.usage)
	}
	return Dist{text: name + ":" + rest, sample: sample}, nil
}

// durations reads delays in Go's notation: 5ms, 250us.
func durations(args ...string) ([]float64, error) {
	out := make([]float64, len(args))
	for i, a := range args {
		d, err := time.ParseDuration(strings.TrimSpace(a))
		if err != nil {
			return nil, fmt.Errorf("%q is no duration such as 5ms", a)
		}
		if d < 0 || d > MaxDelay {
			return nil, fmt.Errorf("%v is not within 0 and %v", d, MaxDelay)
		}
		out[i] = float64(d)
	}
	return out, nil
}

func constant(args []string) (func(*rand.Rand) float64, error) {
	d, err := durations(args...)
	if err != nil {
		return nil, err
	}
	return func(*rand.Rand) float64 { return d[0] }, nil
}

func uniform(args []string) (func(*rand.Rand) float64, error) {
	d, err := durations(args...)
	if err != nil {
		return nil, err
	}
	if d[1] < d[0] {
		return nil, fmt.Errorf("%s is less than %s", args[1], args[0])
	}
	return func(r *rand.Rand) float64 { return d[0] + r.Float64()*(d[1]-d[0]) }, nil
}

func normal(args []string) (func(*rand.Rand) float64, error) {
	d, err := durations(args...)
	if err != nil {
		return nil, err
	}
	return func(r *rand.Rand) float64 { return d[0] + r.NormFloat64()*d[1] }, nil
}

func exponential(args []string) (func(*rand.Rand) float64, error) {
	d, err := durations(args...)
	if err != nil {
		return nil, err
	}
	return func(r *rand.Rand) float64 { return r.ExpFloat64() * d[0] }, nil
}

func pareto(args []string) (func(*rand.Rand) float64, error) {
	d, err := durations(args[0])
	if err != nil {
		return nil, err
	}
	shape, err := strconv.ParseFloat(args[1], 64)
	if err != nil || !(shape > 0) || math.IsInf(shape, 0) {
		return nil, fmt.Errorf("shape %q is no number above 0", args[1])
	}
	// 1-Float64() is never 0.
	return func(r *rand.Rand) float64 { return d[0] / math.Pow(1-r.Float64(), 1/shape) }, nil
}

// maxSamples bounds the memory for a file of samples.
const maxSamples = 1 << 20

func samples(args []string) (func(*rand.Rand) float64, error) {
	file, err := os.Open(args[0])
	if err != nil {
		return nil, fmt.Errorf("open samples: %w", err)
	}
	defer file.Close()
	var list []float64
	lines := bufio.NewScanner(file)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		d, err := durations(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if list = append(list, d[0]); len(list) > maxSamples {
			return nil, fmt.Errorf("more than %d samples", maxSamples)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read samples: %w", err)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("no sample in it")
	}
	return func(r *rand.Rand) float64 { return list[r.IntN(len(list))] }, nil
}
