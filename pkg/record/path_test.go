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
		// Whatever a file may say: no endless path.
		"a, b": {step("a", 1), step("b", 5)},
	} {
		if got := record.PathText(steps); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// A loss is at the hop that its node and its port name; of ordered packets it is the last visit.
func TestLossHop(t *testing.T) {
	hops := []record.Hop{{Node: "s1", InPort: "1", Port: "2"}, {Node: "s2"}, {Node: "s1", InPort: "3", Port: "4"}, {Node: "?"}}
	at := func(node, port string) *record.Loss { return &record.Loss{Node: node, Port: port} }
	for name, c := range map[string]struct {
		r    record.Record
		want int
	}{
		"none":              {record.Record{Hops: hops}, -1},
		"no hops":           {record.Record{Loss: at("s1", "")}, -1},
		"elsewhere":         {record.Record{Hops: hops, Loss: at("s9", "")}, -1},
		"the last visit":    {record.Record{Hops: hops, Loss: at("s1", "2")}, 2},
		"by port":           {record.Record{Hops: hops, Unordered: true, Loss: at("s1", "2")}, 0},
		"by port in":        {record.Record{Hops: hops, Unordered: true, Loss: at("s1", "3")}, 2},
		"any":               {record.Record{Hops: hops, Unordered: true, Loss: at("s2", "9")}, 1},
		"one without name":  {record.Record{Hops: hops, Unordered: true, Loss: at("?", "")}, 3},
		"two without names": {record.Record{Hops: []record.Hop{{Node: "?"}, {Node: "?"}}, Unordered: true, Loss: at("?", "")}, -1},
		"of each copy":      {record.Record{Hops: hops, Loss: at("s1", ""), Losses: []record.BranchLoss{{Hop: 2}}}, -1},
	} {
		if got := c.r.LossHop(); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}
