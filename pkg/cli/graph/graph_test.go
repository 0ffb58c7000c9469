// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/vnetradar/radar/lab/test/need"
)

// evil names hold what is special in one of the languages.
var evil = []string{
	`plain`, `quote"in it`, `back\slash`, `\N \G`, `a&lt;b`, `a&b;c`, `#35;`, `x]--y`, `{{z}}`, `a|b`,
	"tick`tick", `<b>bold</b>`, `end`, `1. list`, `- item`, `_low_`, `*star*`, `%% comment`, `n0 --- n1`,
	`café ☕`, `web.1:eth0`, `subgraph`, `--> x`, "trailing\\",
}

// sample has every kind, and every evil name as a node, a port and a further line.
func sample() *Graph {
	g := &Graph{Name: `lab "x" & \y`}
	bridge := g.Add(Vertex{Label: "host/docker0", Kind: Bridge})
	auto := g.Add(Vertex{Label: "host", Kind: Auto})
	g.Connect(Edge{From: bridge, To: auto, ToPort: "docker0"})
	out := g.Add(Vertex{Label: "outside", Kind: Outside})
	g.Connect(Edge{From: bridge, To: out, Dashed: true})
	for _, name := range evil {
		v := g.Add(Vertex{Label: name, Kind: Node, More: []string{"more " + name}})
		g.Connect(Edge{From: v, To: bridge, FromPort: name, More: []string{"load " + name}})
	}
	return g
}

// wanted are all the lines of text that a drawing of sample shows.
func wanted() []string {
	lines := []string{`lab "x" & \y`, "host/docker0", "host", "docker0", "outside"}
	for _, name := range evil {
		lines = append(lines, name, name, "more "+name, "load "+name)
	}
	slices.Sort(lines)
	return lines
}

// Graphviz itself reads the DOT, and shows every name as it is.
func TestDOT(t *testing.T) {
	need.Programs(t, "dot:graphviz")
	var text bytes.Buffer
	if err := sample().DOT(&text); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("dot", "-Tsvg")
	cmd.Stdin = &text
	var svg, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &svg, &stderr
	if err := cmd.Run(); err != nil || stderr.Len() > 0 {
		t.Fatalf("dot: %v: %s", err, stderr.String())
	}
	if got := svgTexts(t, strings.NewReader(svg.String())); !slices.Equal(got, wanted()) {
		t.Errorf("the drawing says\n%q, want\n%q", got, wanted())
	}
	// Dashed: the node found and the edge to outside. Dotted: the outside.
	for style, want := range map[string]int{`stroke-dasharray="5,2"`: 2, `stroke-dasharray="1,5"`: 1} {
		if got := strings.Count(svg.String(), style); got != want {
			t.Errorf("%d shapes with %s in the drawing, want %d", got, style, want)
		}
	}
}

// svgTexts returns the texts of an SVG picture, sorted.
func svgTexts(t *testing.T, r io.Reader) []string {
	t.Helper()
	var texts []string
	inside := false
	for dec := xml.NewDecoder(r); ; {
		token, err := dec.Token()
		if errors.Is(err, io.EOF) {
			slices.Sort(texts)
			return texts
		}
		if err != nil {
			t.Fatal(err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			if inside = token.Name.Local == "text"; inside {
				texts = append(texts, "")
			}
		case xml.EndElement:
			inside = false
		case xml.CharData:
			if inside {
				// Graphviz keeps spaces apart by making them hard.
				texts[len(texts)-1] += strings.ReplaceAll(string(token), "\u00a0", " ")
			}
		}
	}
}

// What Mermaid output may consist of; the quoted text is checked apart.
var (
	mermaidVertex = regexp.MustCompile(`^  n\d+(?:\["([^"]*)"\]|\["([^"]*)"\]:::auto|\{\{"([^"]*)"\}\}|\(\["([^"]*)"\]\):::outside)$`)
	mermaidEdge   = regexp.MustCompile(`^  n\d+ (?:---|-\.-)(?:\|"([^"]*)"\|)? n\d+$`)
	mermaidFixed  = regexp.MustCompile(`^(---|flowchart LR|  classDef (auto|outside) stroke-dasharray: \d \d)$`)
	mermaidEntity = regexp.MustCompile(`#(\d+);`)
	mermaidPlain  = regexp.MustCompile(`^[\pL\p{Nd} .:/,()-]*$`)
)

// Mermaid's own parser needs a browser's functions; this holds the output to the
// small part of its grammar that the package uses.
func TestMermaid(t *testing.T) {
	var text bytes.Buffer
	if err := sample().Mermaid(&text); err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(text.String()) {
		line = strings.TrimSuffix(line, "\n")
		if mermaidFixed.MatchString(line) {
			continue
		}
		var title string
		if text, isTitle := strings.CutPrefix(line, "title: "); isTitle && json.Unmarshal([]byte(text), &title) == nil {
			got = append(got, title)
			continue
		}
		quoted, ok := "", false
		for _, re := range []*regexp.Regexp{mermaidVertex, mermaidEdge} {
			if m := re.FindStringSubmatch(line); m != nil {
				quoted, ok = strings.Join(m[1:], ""), true
			}
		}
		if !ok {
			t.Errorf("not Mermaid: %s", line)
		}
		for part := range strings.SplitSeq(quoted, "<br/>") {
			if !mermaidPlain.MatchString(mermaidEntity.ReplaceAllString(part, "")) {
				t.Errorf("not escaped: %s", part)
			}
			if part != "" {
				got = append(got, decodeEntities(part))
			}
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, wanted()) {
		t.Errorf("the chart says\n%q, want\n%q", got, wanted())
	}
}

func decodeEntities(s string) string {
	return mermaidEntity.ReplaceAllStringFunc(s, func(e string) string {
		n, _ := strconv.Atoi(e[1 : len(e)-1])
		return string(rune(n))
	})
}

// What cannot be shown is replaced, not passed on.
func TestPrintable(t *testing.T) {
	if got, want := printable("a\x00b\xffc\nd\x1b[31m"), "a\ufffdb\ufffdc\ufffdd\ufffd[31m"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// An empty graph is a graph.
func TestEmpty(t *testing.T) {
	var mermaid, dot bytes.Buffer
	g := &Graph{}
	if err := errors.Join(g.Mermaid(&mermaid), g.DOT(&dot)); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(mermaid.String(), "flowchart") || !strings.HasSuffix(dot.String(), "}\n") {
		t.Errorf("%s%s", mermaid.String(), dot.String())
	}
}
