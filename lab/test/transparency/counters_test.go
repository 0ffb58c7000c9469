// SPDX-License-Identifier: Apache-2.0

package transparency

import (
	"fmt"
	"strings"
)

// What neighbour and listener discovery raise whenever they please.
var noise = []string{"not_measured_neighbour", "not_measured_multicast"}

// trouble are counters of things that should not happen.
var trouble = map[string]bool{
	"stale": true, "foreign_mark": true, "mark_busy": true, "event_full": true, "ttl_underflow": true,
	"key_lost": true, "restore_failed": true, "local_drop": true,
}

// notMeasured is how many packets the case says are not measured, or some.
func (c *Case) notMeasured() int {
	sum := 0
	for name, n := range c.Counters {
		if !strings.HasPrefix(name, "not_measured") {
			continue
		}
		if n < 0 {
			return some
		}
		sum += n
	}
	return sum
}

// counter by name.
func (r *Run) counter(name string) int {
	for _, c := range r.Status.Counters {
		if c.Name == name {
			return c.Value
		}
	}
	return 0
}

// checkCounters returns how many packets were not measured, why, and what is wrong.
func (r *Run) checkCounters() (unmeasured int, why []string, list []finding) {
	complain := func(format string, args ...any) {
		list = append(list, finding{wrong, fmt.Sprintf(format, args...)})
	}
	for _, c := range r.Status.Counters {
		want, named := r.c.Counters[c.Name]
		isNoise := false
		for _, n := range noise {
			isNoise = isNoise || n == c.Name
		}
		if c.Group == "not_measured" && c.Value > 0 && (named || !isNoise) {
			unmeasured += c.Value
			why = append(why, fmt.Sprintf("%s %d", strings.TrimPrefix(c.Name, "not_measured_"), c.Value))
		}
		switch {
		case named && want == some && c.Value == 0, named && want >= 0 && c.Value != want:
			complain("counter %s is %d, want %d", c.Name, c.Value, want)
		case named:
		case c.Group == "not_measured" && c.Value > 0 && !isNoise, trouble[c.Name] && c.Value > 0:
			complain("counter %s is %d: %s", c.Name, c.Value, c.Help)
		}
	}
	if n := r.counter("passed"); r.fromInside > n {
		complain("%d packets come from nodes in the domain that are not attached, %d passed", r.fromInside, n)
	}
	if r.unmeasured > unmeasured {
		complain("%d packets have no record, the counters explain %d", r.unmeasured, unmeasured)
	}
	if n := r.Status.Totals.Unaccounted; n != 0 {
		complain("%d packets are unaccounted for", n)
	}
	return unmeasured, why, list
}
