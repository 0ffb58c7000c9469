// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/vnetradar/radar/pkg/record"
)

// TraceAnswer is what "radar trace" prints as JSON: the record, and the lines of its story.
type TraceAnswer struct {
	record.Record
	Story []string `json:"story"`
}

// CheckTraces compares traced packets with their paths: the record, the events of the story,
// and its times with the record's. A row of its own compares the times with the captures.
// There must be a packet for each kind of end that occurred. Stories are compared of packets
// that were never in a train; queues as in CheckLatency.
func (c *Comparison) CheckTraces(answers []TraceAnswer, b Bounds) []*Row {
	records := &Row{Check: "radar trace: header, path, end"}
	stories := &Row{Check: "radar trace: the story's steps, words, times by the record"}
	times := newTimeRow("radar trace: the story's times by captures", b)
	byID, ends := map[string]pair{}, map[string]int{}
	for _, p := range c.pairs {
		byID[p.r.ID] = p
		ends[endOf(p.outcome)] = 0
	}
	for i := range answers {
		a := &answers[i]
		p, ok := byID[a.ID]
		if !ok { // with c.taken it may be one that Unseen took out
			if len(c.taken) == 0 {
				records.bad("%s: there was no such packet", a.ID)
			}
			continue
		}
		ends[endOf(p.outcome)]++
		if !slices.EqualFunc(p.r.Hops, a.Hops, sameTimes) {
			records.bad("%s: %s: other times than in radar packets", a.ID, describe(p.path))
		}
		p.r = &a.Record
		records.Compared++
		if s := c.recordProblem(p); s != "" {
			records.bad("%s: %s: %s", a.ID, describe(p.path), s)
		}
		if seen := (transit{outcome: p.outcome}); !seen.sight() || len(p.r.Hops) != len(p.outcome.hops) {
			continue
		}
		stories.Compared++
		if s := c.storyProblem(p, a.Story, times); s != "" {
			stories.bad("%s: %s: %s\n    %s", a.ID, describe(p.path), s, strings.Join(a.Story, "\n    "))
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

// sameTimes reports whether two records have the same times of a hop.
func sameTimes(a, b record.Hop) bool {
	return recorded(a.AtNs) == recorded(b.AtNs) && recorded(a.NodeNs) == recorded(b.NodeNs) && recorded(a.QueueNs) == recorded(b.QueueNs) && recorded(a.LinkNs) == recorded(b.LinkNs)
}

// endOf names the kind of end.
func endOf(o outcome) string {
	if o.drop != nil {
		return "lost by " + o.drop.Name
	}
	return string(o.state)
}

// recordProblem checks one record as Rows does.
func (c *Comparison) recordProblem(p pair) string {
	if s := c.header(p); s != "" {
		return s
	}
	if got, want := pathOfRecord(p.r), c.pathOf(p.outcome); got != want {
		return fmt.Sprintf("path %s, really %s", got, want)
	}
	if p.r.State != p.outcome.state {
		return fmt.Sprintf("%s, really %s", p.r.State, p.outcome)
	}
	if p.outcome.state == record.Lost || p.r.Loss != nil {
		return lossProblem(p.outcome, p.r.Loss)
	}
	return ""
}
