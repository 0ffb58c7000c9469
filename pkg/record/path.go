// SPDX-License-Identifier: Apache-2.0

package record

import "strings"

// Step is one hop in the text of a path.
type Step struct {
	Text  string
	Arrow string // before it: Arrow if ""
	Prev  int    // index of the hop before, -1: it is the first
	// Same is the index of the earlier step that this one is shown as, -1: it is shown
	// itself. What leads on from it leads on from that one.
	Same int
}

// PrevOf returns the index of the hop from which the packet came to hop i, -1 if it
// began there.
func (r *Record) PrevOf(i int) int {
	if p := r.Hops[i].Prev; p != nil && *p >= -1 && *p < i {
		return *p
	}
	return i - 1
}

// LossHop returns the index of the hop at which the packet was lost; -1: none is known, or each copy has its own (Losses).
// In an ordered packet it is the last visit of the loss's node. In another one any hop can be it, and the port separates
// visits of one node.
func (r *Record) LossHop() int {
	if r.Loss == nil || len(r.Losses) > 0 {
		return -1
	}
	at := -1
	for i := len(r.Hops) - 1; i >= 0; i-- {
		h := &r.Hops[i]
		switch {
		case h.Node != r.Loss.Node:
		case !r.Unordered:
			return i
		case at >= 0 && h.Node == unknownNode: // two nodes without a name are different ones
			return -1
		case h.Node != unknownNode && r.Loss.Port != "" && (h.Port == r.Loss.Port || h.InPort == r.Loss.Port):
			return i
		case at < 0:
			at = i
		}
	}
	return at
}

// unknownNode stands for a node whose name is not known.
const unknownNode = "?"

// SameAs returns the earlier hop of which hop i is another copy, -1 if it is none.
func (r *Record) SameAs(i int) int {
	h := &r.Hops[i]
	for j := 0; h.Copy && j < i; j++ {
		if first := &r.Hops[j]; !first.Copy && first.Node == h.Node && first.InPort == h.InPort && r.PrevOf(j) == r.PrevOf(i) {
			return j
		}
	}
	return -1
}

// Straight reports whether each hop leads to the next one.
func (r *Record) Straight() bool {
	for i := range r.Hops {
		if r.PrevOf(i) != i-1 {
			return false
		}
	}
	return true
}

// IncompleteMark stands behind paths of which hops may be missing.
const IncompleteMark = " ... (incomplete)"

// Arrow leads to a step, GapArrow to one before which others may be missing.
const (
	Arrow    = " > "
	GapArrow = " > ... > "
)

// PathText writes steps in one line: "h1 > r1 > h2"; where the path branches, the
// branches in braces: "h1 > sw > {h2, r1 > h3}".
func PathText(steps []Step) string {
	next := make([][]int, len(steps))
	var first []int
	shown := func(i int) int {
		for i >= 0 && steps[i].Same >= 0 && steps[i].Same < i {
			i = steps[i].Same
		}
		return i
	}
	for i, s := range steps {
		switch {
		case shown(i) != i:
		case s.Prev < 0 || s.Prev >= i:
			first = append(first, i)
		default:
			next[shown(s.Prev)] = append(next[shown(s.Prev)], i)
		}
	}
	var b strings.Builder
	var write func(list []int)
	write = func(list []int) {
		for n, i := range list {
			arrow := steps[i].Arrow
			if arrow == "" {
				arrow = Arrow
			}
			switch {
			case len(list) == 1:
				b.WriteString(arrow)
			case n > 0:
				b.WriteString(", ")
			case arrow == Arrow:
				b.WriteString(" > {")
			default:
				b.WriteString(" {")
			}
			if len(list) > 1 && arrow != Arrow {
				b.WriteString(strings.TrimLeft(arrow, " "))
			}
			b.WriteString(steps[i].Text)
			write(next[i])
		}
		if len(list) > 1 {
			b.WriteByte('}')
		}
	}
	for n, i := range first {
		if n > 0 {
			b.WriteString(", ")
		}
		b.WriteString(steps[i].Text)
		write(next[i])
	}
	return b.String()
}
