// SPDX-License-Identifier: Apache-2.0

package record_test

import (
	"testing"

	"github.com/vnetradar/radar/pkg/record"
)

func TestPathText(t *testing.T) {
	step := func(text string, prev int) record.Step { return record.Step{Text: text, Prev: prev, Same: -1} }
	timed := func(text, arrow string, prev int) record.Step {
		return record.Step{Text: text, Arrow: arrow, Prev: prev, Same: -1}
	}
	for want, steps := range map[string][]record.Step{
		"":                          nil,
		"h1":                        {step("h1", -1)},
		"h1 > r1 > h2":              {step("h1", -1), step("r1", 0), step("h2", 1)},
		"h1 > {h2, h3}":             {step("h1", -1), step("h2", 0), step("h3", 0)},
		"h1 > s > {h2, r > h4, h3}": {step("h1", -1), step("s", 0), step("h2", 1), step("r", 1), step("h3", 1), step("h4", 3)},
		"h1 > s > {h2, h3}":         {step("h1", -1), step("s", 0), {Text: "s", Prev: 0, Same: 1}, step("h2", 1), step("h3", 2)},
		"h1 -2us> h2":               {step("h1", -1), timed("h2", " -2us> ", 0)},
		"h1 {-2us> h2, -3us> h3 > h4}": {step("h1", -1), timed("h2", " -2us> ", 0), timed("h3", " -3us> ", 0),
			step("h4", 2)},
		"h1 > h2, h3 > h4": {step("h1", -1), step("h2", 0), step("h3", -1), step("h4", 2)},
		// Whatever a file may say: no endless way.
		"a, b": {step("a", 1), step("b", 5)},
	} {
		if got := record.PathText(steps); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
