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
// says happened where, its times, which are the record's, and, in a row for itself, these
// with the captures. Packets of every end that came about must be among them. Stories are
// compared of packets that were never in a train, queues as in CheckLatency.
func (c *Comparison) CheckTraces(answers []TraceAnswer, b Bounds) []*Row {
	records := &Row{Check: "radar trace: header, path, end"}
	stories := &Row{Check: "radar trace: the story's steps, words, times by the record"}
	times := newTimeRow("radar trace: the story's times by captures", b)
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
		if !slices.EqualFunc(p.r.Hops, a.Hops, sameTimes) {
			records.bad("%s: %s: other times than in radar packets", a.ID, describe(p.j))
		}
		p.r = &a.Record
		records.Compared++
		if s := c.recordProblem(p); s != "" {
			records.bad("%s: %s: %s", a.ID, describe(p.j), s)
		}
		if way := (passage{fate: p.fate}); !way.sight() || len(p.r.Hops) != len(p.fate.hops) {
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

// sameTimes says whether two records tell the same times of a hop.
func sameTimes(a, b record.Hop) bool {
	return told(a.AtNs) == told(b.AtNs) && told(a.NodeNs) == told(b.NodeNs) && told(a.QueueNs) == told(b.QueueNs) && told(a.LinkNs) == told(b.LinkNs)
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
