// SPDX-License-Identifier: Apache-2.0

package transparency

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Mode is how radar is attached; see attach --carry.
type Mode string

// The modes. Without is the run that the others are held against.
const (
	Without Mode = "without"
	Mark    Mode = "mark"
	Header  Mode = "header"
)

// Case is one network and what is sent through it; see the package comment.
type Case struct {
	Name  string // "area/what", unique
	Point int    // cases about one subject have the same: a column of the table in docs/transparency.md
	Shows string // one line: what nobody may notice

	Needs []string // features of the kernel or tools, see needs_test.go
	Flags []string // more flags of radar attach
	// Fresh: a domain that is attached with this case's nodes and not one that they
	// join, where attach has to look at them (marks that are taken, ...).
	Fresh bool
	Modes []Mode // nil: mark and header

	Build func(w *World)
	Send  func(w *World)
	Check func(r *Run) // what else must hold of a run; nil: nothing

	Rules []Rule // besides the default ones, see rules_test.go
	// Seen are frames that are compared, whatever rules would leave out.
	Seen func(s *sighting) bool
	// Counters that are not 0 at the end, besides seen and marked: exact, or some, or any
	// number, also 0.
	Counters map[string]int
	Limits   []Limit
	// LocalDrops: packets are dropped after delivery (no socket, a full one).
	LocalDrops bool
	// SentAnew are places and reasons ("r1 PKT_TOO_BIG") for which packets without a
	// token may be lost: TCP sends them again.
	SentAnew []string
	// Loose: records are not held against captures, because the kernel makes the
	// packets as it likes (TCP); what is sent by tokens is checked.
	Loose bool
}

// Limit is a difference that is known and accepted. Text is for docs/transparency.md; Match
// finds it in the messages of the run.
type Limit struct {
	Modes []Mode // nil: all
	Text  string
	Match string // regular expression
	// Times is how many findings match, in each mode: one more is not known. 0: chance says.
	Times int
}

// What stands for a number in Case.Counters.
const (
	some   = -1
	orNone = -2
)

var cases []Case

// add enters a case into the list.
func add(c Case) struct{} {
	if len(c.Modes) == 0 {
		c.Modes = []Mode{Mark, Header}
	}
	if slices.ContainsFunc(cases, func(o Case) bool { return o.Name == c.Name }) {
		panic(fmt.Sprintf("two cases named %s", c.Name))
	}
	cases = append(cases, c)
	return struct{}{}
}

// finding is one thing that is not as it should be.
type finding struct {
	kind findingKind
	text string
}

type findingKind string

const (
	difference findingKind = "difference" // from the run without radar
	wrong      findingKind = "wrong"      // a record, or a counter
)

// sift takes known limits out of a list of findings. Limits that did not show are
// findings of their own.
func (c *Case) sift(mode Mode, list []finding) (left []finding, known []string) {
	left = list
	for _, l := range c.Limits {
		if len(l.Modes) > 0 && !slices.Contains(l.Modes, mode) {
			continue
		}
		match := regexp.MustCompile(l.Match)
		n := len(left)
		left = slices.DeleteFunc(slices.Clone(left), func(f finding) bool { return match.MatchString(f.text) })
		switch found := n - len(left); {
		case found == 0:
			left = append(left, finding{wrong, "the known limit is gone, remove it here and in docs/transparency.md: " + l.Text})
			continue
		case l.Times > 0 && found != l.Times:
			left = append(left, finding{wrong, fmt.Sprintf("%d findings, not %d, are what is known: %s", found, l.Times, l.Text)})
		}
		known = append(known, l.Text)
	}
	return left, known
}

func describe(list []finding, max int) string {
	var b strings.Builder
	for i, f := range list {
		if i == max {
			fmt.Fprintf(&b, "... and %d more\n", len(list)-max)
			break
		}
		fmt.Fprintf(&b, "%s: %s\n", f.kind, f.text)
	}
	return b.String()
}
