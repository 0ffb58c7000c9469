// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"bufio"
	"fmt"
	"io"
	"strings"
)

var dotShapes = map[Kind]string{
	Node:    `shape=box`,
	Auto:    `shape=box, style=dashed`,
	Bridge:  `shape=hexagon`,
	Outside: `shape=oval, style=dotted`,
}

// DOT writes the graph in Graphviz's language.
func (g *Graph) DOT(w io.Writer) error {
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "graph %s {\n", dotQuote(g.Name))
	fmt.Fprintf(b, "  graph [rankdir=LR, label=%s, labelloc=t]\n", dotLines([]string{g.Name}))
	fmt.Fprintf(b, "  node [fontname=\"sans-serif\"]\n  edge [fontname=\"sans-serif\", fontsize=10]\n")
	for i, v := range g.Vertices {
		fmt.Fprintf(b, "  n%d [label=%s, %s]\n", i, dotLines(append([]string{v.Label}, v.More...)), dotShapes[v.Kind])
	}
	for _, e := range g.Edges {
		var attrs []string
		for _, a := range []struct {
			name  string
			lines []string
		}{{"taillabel", nonEmpty(e.FromPort)}, {"headlabel", nonEmpty(e.ToPort)}, {"label", e.More}} {
			if len(a.lines) > 0 {
				attrs = append(attrs, a.name+"="+dotLines(a.lines))
			}
		}
		if e.Dashed {
			attrs = append(attrs, "style=dashed")
		}
		fmt.Fprintf(b, "  n%d -- n%d [%s]\n", e.From, e.To, strings.Join(attrs, ", "))
	}
	fmt.Fprintln(b, "}")
	return b.Flush()
}

func nonEmpty(s string) []string {
	if s == "" {
		return nil
	}
	return []string{s}
}

// dotQuote makes an identifier of any text: in it only the quote is special.
func dotQuote(s string) string {
	s = strings.ReplaceAll(printable(s), `\`, `\\`)
	return `"` + strings.ReplaceAll(s, `"`, `\"`) + `"`
}

// dotLines makes a label, in which a backslash begins an escape and an ampersand
// an HTML entity.
func dotLines(lines []string) string {
	text := make([]string, len(lines))
	for i, l := range lines {
		l = strings.ReplaceAll(printable(l), "&", "&amp;")
		l = strings.ReplaceAll(l, `\`, `\\`)
		text[i] = strings.ReplaceAll(l, `"`, `\"`)
	}
	return `"` + strings.Join(text, `\n`) + `"`
}
