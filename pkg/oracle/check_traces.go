// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/vnetradar/radar/pkg/record"
)

// TraceAnswer is what "radar trace" prints as JSON: the record, and the story's lines.
type TraceAnswer struct {
	record.Record
	Story []string `json:"story"`
}

// CheckTraces compares traced packets with their journeys: the record, what the story
// says happened where, and its times. Packets of every end that came about must be among
// them. Stories are compared of packets that were never in a train, queues as in
// CheckLatency.
func (c *Comparison) CheckTraces(answers []TraceAnswer, b Bounds) []*Row {
	records := &Row{Check: "radar trace: header, path, end"}
	stories := &Row{Check: "radar trace: the story's steps and words"}
	times := newTimeRow("radar trace: the story's times", b)
	byID, ends := map[string]pair{}, map[string]int{}
	for _, p := range c.pairs {
		byID[p.r.ID] = p
		ends[endOf(p.fate)] = 0
	}
	for i := range answers {
		a := &answers[i]
		p, ok := byID[a.ID]
		if !ok { // or its loss is among the unseen
			if len(c.taken) == 0 {
				records.bad("%s: there was no such packet", a.ID)
			}
			continue
		}
		ends[endOf(p.fate)]++
		p.r = &a.Record
		records.Compared++
		if s := c.recordProblem(p); s != "" {
			records.bad("%s: %s: %s", a.ID, describe(p.j), s)
		}
		if way := (passage{fate: p.fate}); !way.sight() {
			continue
		}
		stories.Compared++
		if s := c.storyProblem(p, a.Story, times); s != "" {
			stories.bad("%s: %s: %s\n    %s", a.ID, describe(p.j), s, strings.Join(a.Story, "\n    "))
		}
	}
	for _, end := range slices.Sorted(maps.Keys(ends)) {
		if ends[end] == 0 {
			records.bad("no packet traced that was %s", end)
		}
	}
	records.Note = fmt.Sprint(ends)
	return []*Row{records, stories, times.done()}
}

// endOf names the kind of end.
func endOf(f fate) string {
	if f.drop != nil {
		return "lost by " + f.drop.Name
	}
	return string(f.state)
}

// recordProblem is what the rows of all records compare.
func (c *Comparison) recordProblem(p pair) string {
	if s := c.header(p); s != "" {
		return s
	}
	if got, want := pathOfRecord(p.r), c.pathOf(p.fate); got != want {
		return fmt.Sprintf("path %s, really %s", got, want)
	}
	if p.r.State != p.fate.state {
		return fmt.Sprintf("%s, really %s", p.r.State, p.fate)
	}
	if p.fate.state == record.Lost || p.r.Loss != nil {
		return lossProblem(p.fate, p.r.Loss)
	}
	return ""
}
