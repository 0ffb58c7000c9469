// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"testing"
	"time"

	"github.com/vnetradar/radar/pkg/record"
)

// TestSelection: answers about the selected packets pass. Answers about others, or about one
// packet more, are found.
func TestSelection(t *testing.T) {
	c := comparison(t)
	list := c.transits()
	for _, s := range []struct {
		right, wrong Selection
	}{
		{Selection{Since: list[20].from.at}, Selection{Since: list[19].from.at}},
		{Selection{Last: 30}, Selection{Last: 31}},
		{Selection{Last: 1000}, Selection{Last: len(list) - 1}},
		{Selection{TTLBelow: 80}, Selection{TTLBelow: 81}},
		{Selection{Node: "r2"}, Selection{}},
		{Selection{State: record.Lost}, Selection{State: record.Delivered}},
		{Selection{Node: "r2", State: record.Lost}, Selection{State: record.Lost}},
	} {
		only := c.Select(s.right)
		if n, m := len(only.transits()), len(c.Select(s.wrong).transits()); n == 0 || n == m {
			t.Fatalf("%+v and %+v: %d and %d packets", s.right, s.wrong, n, m)
		}
		check := func(a *Answers) []*Row { return only.CheckSelected(a, Bounds{P99: 100 * time.Microsecond}) }
		rows := check(fillAnswers(only))
		if s.right.State == record.Lost { // there is no latency to compare
			rows = rows[:1]
		}
		for _, row := range rows {
			if !row.OK() {
				t.Errorf("%+v: %+v", s.right, row)
			}
		}
		if row := check(fillAnswers(c.Select(s.wrong)))[0]; row.Wrong == 0 {
			t.Errorf("%+v: the answers about %+v are found right", s.right, s.wrong)
		}
	}
}
