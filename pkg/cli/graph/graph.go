// SPDX-License-Identifier: Apache-2.0

// Package graph draws networks as text that others render: Mermaid flowcharts
// (which Markdown pages show as they are) and Graphviz's DOT. It knows shapes and
// escaping, and nothing of radar: names may hold any character.
package graph

import "strings"

// Kind is what a vertex stands for. Each has a shape of its own.
type Kind string

// The kinds of a vertex.
const (
	Node    Kind = "node"    // a network function
	Auto    Kind = "auto"    // a node that was found, not named
	Bridge  Kind = "bridge"  // a link with any number of ends
	Outside Kind = "outside" // what lies beyond
)

// Graph is a network. The vertex of an Edge is its index in Vertices.
type Graph struct {
	Name     string
	Vertices []Vertex
	Edges    []Edge
}

// Vertex is one node, or one link with several ends.
type Vertex struct {
	Label string   // first line
	More  []string // further lines
	Kind  Kind
}

// Edge joins two vertices; it has no direction.
type Edge struct {
	From, To         int
	FromPort, ToPort string // interfaces at the two ends, "" if there is none to name
	More             []string
	Dashed           bool // what passes here is outside of what is drawn
}

// Add appends a vertex and returns its index.
func (g *Graph) Add(v Vertex) int {
	g.Vertices = append(g.Vertices, v)
	return len(g.Vertices) - 1
}

// Connect appends an edge.
func (g *Graph) Connect(e Edge) { g.Edges = append(g.Edges, e) }

// printable replaces what no renderer can show: bytes that are no UTF-8 and
// control characters.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return '\ufffd'
		}
		return r
	}, strings.ToValidUTF8(s, "\ufffd"))
}
