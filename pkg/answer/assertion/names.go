// SPDX-License-Identifier: Apache-2.0

package assertion

import (
	"strings"

	"github.com/vnetradar/radar/pkg/filter"
)

// Nodes are the names of nodes that an assertion speaks of beyond its selection. One that does not exist would
// never be crossed.
func (a *Assertion) Nodes() (list []string) {
	list = append(append(append(list, a.Path...), a.Crosses...), a.NeverCrosses...)
	for _, place := range a.Places() {
		node, _, _ := strings.Cut(place, "/")
		list = append(list, node)
	}
	if a.Balance != nil && a.Balance.At != "" {
		list = append(list, a.Balance.At)
		for node := range a.Balance.Weights {
			list = append(list, node)
		}
	}
	return list
}

// Places are nodes and ports, NODE/PORT, that it speaks of.
func (a *Assertion) Places() (list []string) {
	all := []string{}
	if l := a.Latency; l != nil {
		all = append(all, l.Node, l.Link, l.Queue, l.Hop)
	}
	if a.Loss != nil {
		all = append(all, a.Loss.At)
	}
	for _, place := range all {
		if place != "" {
			list = append(list, place)
		}
	}
	return list
}

// Spec is the selection without its filter expression.
func (s *Select) Spec() filter.Spec {
	list := func(values []string) string { return strings.Join(values, ",") }
	return filter.Spec{
		Src: list(s.Src), Dst: list(s.Dst), Proto: list(s.Proto), Sport: list(s.Sport), Dport: list(s.Dport),
		Node: list(s.Node), State: list(s.State),
	}
}

// ErrorAt is an error at an assertion's place in its file.
func (a *Assertion) ErrorAt(file, text string) error {
	return &PlaceError{File: file, Line: a.Line, Column: a.Column, Field: a.Name, Text: text}
}
