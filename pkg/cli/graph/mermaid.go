// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode"
)

// mermaidShapes are the brackets around a label.
var mermaidShapes = map[Kind][2]string{
	Node:    {"[", "]"},
	Auto:    {"[", "]"},
	Bridge:  {"{{", "}}"},
	Outside: {"([", "])"},
}

// Mermaid writes the graph as a Mermaid flowchart, from left to right.
func (g *Graph) Mermaid(w io.Writer) error {
	b := bufio.NewWriter(w)
	title, err := json.Marshal(printable(g.Name)) // the head is YAML, which JSON is part of
	if err != nil {
		return fmt.Errorf("write title: %w", err)
	}
	fmt.Fprintf(b, "---\ntitle: %s\n---\nflowchart LR\n", title)
	for i, v := range g.Vertices {
		shape := mermaidShapes[v.Kind]
		fmt.Fprintf(b, "  n%d%s\"%s\"%s%s\n", i, shape[0], mermaidLines(append([]string{v.Label}, v.More...)), shape[1], mermaidClass(v.Kind))
	}
	for _, e := range g.Edges {
		line := "---"
		if e.Dashed {
			line = "-.-"
		}
		label := ""
		if text := mermaidLines(append(endsOf(e), e.More...)); text != "" {
			label = "|\"" + text + "\"|"
		}
		fmt.Fprintf(b, "  n%d %s%s n%d\n", e.From, line, label, e.To)
	}
	// The fill is left to the reader's theme, light or dark.
	fmt.Fprintf(b, "  classDef auto stroke-dasharray: 4 3\n  classDef outside stroke-dasharray: 2 3\n")
	return b.Flush()
}

// endsOf names the interfaces of an edge, which a flowchart cannot put at its ends.
func endsOf(e Edge) []string {
	switch {
	case e.FromPort == "" && e.ToPort == "":
		return nil
	case e.FromPort == "" || e.ToPort == "":
		return []string{e.FromPort + e.ToPort}
	}
	return []string{e.FromPort + " - " + e.ToPort}
}

func mermaidClass(k Kind) string {
	if k == Auto || k == Outside {
		return ":::" + string(k)
	}
	return ""
}

func mermaidLines(lines []string) string {
	text := make([]string, len(lines))
	for i, l := range lines {
		text[i] = mermaidText(l)
	}
	return strings.Join(text, "<br/>")
}

// mermaidText writes every character that means something to Mermaid, to the
// Markdown in its labels or to HTML as its number. "1. x" and "- x" would
// be lists.
func mermaidText(s string) string {
	var b strings.Builder
	runes := []rune(printable(s))
	for i, r := range runes {
		list := strings.ContainsRune(".-", r) && i+1 < len(runes) && runes[i+1] == ' ' && (i == 0 || runes[i-1] != ' ')
		if !list && (unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune(" .:/,-()", r)) {
			b.WriteRune(r)
			continue
		}
		fmt.Fprintf(&b, "#%d;", r)
	}
	return b.String()
}
