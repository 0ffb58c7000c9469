// SPDX-License-Identifier: Apache-2.0

package assertion

import (
	"fmt"
	"slices"
	"strings"

	"github.com/vnetradar/radar/pkg/answer/explain"
	"github.com/vnetradar/radar/pkg/answer/wording"
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/words"
)

// CauseName is a cause of a slow flow, by its name in docs/explain.md.
type CauseName string

// UnmarshalText implements value.
func (c *CauseName) UnmarshalText(b []byte) error {
	*c = CauseName(b)
	return unless(slices.Contains(explain.Causes, explain.Cause(*c)))
}

func (*CauseName) allowed() string {
	var names []string
	for _, c := range explain.Causes {
		names = append(names, string(c))
	}
	return "a cause: " + strings.Join(names, ", ")
}

func (*CauseName) schema() jsonValue {
	var names []any
	for _, c := range explain.Causes {
		names = append(names, c)
	}
	return jsonValue{"enum": names}
}

// Explains reports whether the assertion is about what held flows: its trial takes all packets of the flows that were
// selected, too, by Trial.Explain.
func (a *Assertion) Explains() bool { return a.Cause != nil || a.NeverCause != nil }

// mostExplained is how many flows are explained for one assertion, those with most bytes.
const mostExplained = 16

// causeMeasure explains the flows that packets are of.
type causeMeasure struct {
	among, never []CauseName
	flows        explain.Candidates
	analyzers    []*explain.Analyzer
	explained    []explain.Candidate
}

func (m *causeMeasure) add(r *record.Record) { m.flows.Add(r) }

// Explain begins to explain the flows that the packets of the trial are of. The returned function takes all packets of the
// same time, of both directions, oldest first.
func (t *Trial) Explain(analyzer func(explain.Flow) *explain.Analyzer) func(*record.Record) {
	m, is := t.measure.(*causeMeasure)
	if !is {
		return func(*record.Record) {}
	}
	list := m.flows.List()
	m.explained = list[:min(len(list), mostExplained)]
	for _, c := range m.explained {
		m.analyzers = append(m.analyzers, analyzer(c.Flow))
	}
	return func(r *record.Record) {
		for _, a := range m.analyzers {
			a.Add(r)
		}
	}
}

// countCauses says how many flows have each cause.
func (to *Result) countCauses(counts map[explain.Cause]int) {
	for _, c := range explain.Causes {
		if counts[c] > 0 {
			to.Measured = and(to.Measured, fmt.Sprintf("%s: %s", c, words.Plural(counts[c], "flow")))
			to.Values[string(c)] = float64(counts[c])
		}
	}
}

func (m *causeMeasure) judge(to *Result) {
	if m.among != nil {
		to.Promised = "a cause among " + names(m.among)
	} else {
		to.Promised = "no cause among " + names(m.never)
	}
	counts := make(map[explain.Cause]int)
	broken, unsure, gone := 0, 0, 0
	for i, a := range m.analyzers {
		ans, ok := a.Finish()
		if !ok {
			gone++
			continue
		}
		counts[ans.Cause]++
		switch {
		case !m.allows(CauseName(ans.Cause)):
			if broken++; len(to.Evidence) < mostEvidence {
				to.Evidence = append(to.Evidence, Evidence{m.explained[i].Text(), wording.Explained(ans)})
			}
		case ans.Cause == explain.NotEnough:
			unsure++
		}
	}
	to.countCauses(counts)
	all := len(m.flows.List())
	if all == 0 {
		to.Measured, to.Verdict, to.Undecided, to.Cause = "no flow", Fails, true, "no packet of TCP or UDP with ports was selected"
		return
	}
	// A flow that nobody has looked at may be the one that breaks it.
	why := ""
	if unsure > 0 && m.never != nil {
		why = fmt.Sprintf("of %s there is too little to tell", words.Plural(unsure, "flow"))
	}
	if gone > 0 {
		if gone == len(m.analyzers) {
			to.Measured = "no flow"
		}
		why = and(why, fmt.Sprintf("of %s no packet is there any more", words.Plural(gone, "flow")))
	}
	switch explained := len(m.analyzers); {
	case explained == 0:
		to.Measured = "no flow"
		why = and(why, fmt.Sprintf("of %s none was explained", words.Plural(all, "flow")))
	case all > explained:
		why = and(why, fmt.Sprintf("only the %d flows with most bytes of %d were explained: select fewer", explained, all))
	}
	if m.flows.Full > 0 {
		why = and(why, fmt.Sprintf("there was no room for all flows, %s of the smallest are left out: select fewer", packets(m.flows.Full)))
	}
	if to.Cause = why; broken > 0 || why != "" {
		to.Verdict, to.Undecided = Fails, broken == 0
	} else {
		to.Verdict = Holds
	}
}

// allows reports whether a flow may have been held by that.
func (m *causeMeasure) allows(c CauseName) bool {
	if m.among != nil {
		return slices.Contains(m.among, c)
	}
	return !slices.Contains(m.never, c)
}

func names(list []CauseName) string {
	var texts []string
	for _, c := range list {
		texts = append(texts, string(c))
	}
	return strings.Join(texts, ", ")
}
