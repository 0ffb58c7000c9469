// SPDX-License-Identifier: Apache-2.0

package plot_test

import (
	"bytes"
	"encoding/binary"
	"encoding/xml"
	"errors"
	"fmt"
	"image/png"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/pkg/cli/clitest"
	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/record"
)

// parsed is an SVG as somebody else reads it.
type parsed struct {
	texts []string
	paths int
	uses  map[string]bool
	ids   map[string]bool
}

func parse(t *testing.T, file []byte) (p parsed) {
	t.Helper()
	p.uses, p.ids = make(map[string]bool), make(map[string]bool)
	for d := xml.NewDecoder(bytes.NewReader(file)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		e, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		if e.Name.Local == "path" {
			p.paths++
		}
		if e.Name.Local == "text" || e.Name.Local == "image" {
			t.Errorf("<%s> depends on the machine", e.Name.Local)
		}
		for _, a := range e.Attr {
			switch {
			case strings.Contains(a.Value, "NaN") || strings.Contains(a.Value, "Inf"):
				t.Errorf("%s has %s", e.Name.Local, a.Value)
			case a.Name.Local == "aria-label":
				p.texts = append(p.texts, a.Value)
			case a.Name.Local == "href":
				p.uses[strings.TrimPrefix(a.Value, "#")] = true
			case a.Name.Local == "id":
				p.ids[a.Value] = true
			}
		}
	}
	for id := range p.uses {
		if !p.ids[id] {
			t.Errorf("glyph %s is not there", id)
		}
	}
	return p
}

// kinds are all figures, with a text that each has.
var kinds = map[string][]string{
	"Share of packets":                  {"latency"},
	"Share of packets that took longer": {"latency", "--kind", "ccdf"},
	"25th to 75th percentile":           {"latency", "--kind", "box", "--by", "link"},
	"Mean latency (ms)":                 {"paths"},
	"Share of mean latency (%)":         {"paths", "--kind", "shares"},
	"r2/2 queue: QDISC_DROP (tbf)":      {"loss"},
	"Lost packets per second":           {"loss", "--kind", "time"},
	"Wait (ms)":                         {"queue"},
	"in a queue":                        {"timeline"},
}

// TestFiles: each figure is a file that others read, of the size that was asked for, and the same each time.
func TestFiles(t *testing.T) {
	dir := twoPaths(400).recorded(t)
	for text, args := range kinds {
		args = append(args, "-r", dir)
		file, _, _ := drawn(t, "svg", args...)
		if p := parse(t, file); p.paths < 10 || !strings.Contains(strings.Join(p.texts, "\n"), text) {
			t.Errorf("%v: %d paths, no %q in %q", args, p.paths, text, p.texts)
		}
		if again, _, _ := drawn(t, "svg", args...); !bytes.Equal(file, again) {
			t.Errorf("%v: two files differ", args)
		}
		if args[0] != "timeline" && args[0] != "paths" { // they have each mark, and boxes with texts
			continue
		}
		for _, format := range []string{"pdf", "png"} {
			one, _, _ := drawn(t, format, append(args, "--dpi", "100")...)
			other, _, _ := drawn(t, format, append(args, "--dpi", "100")...)
			if !bytes.Equal(one, other) || format == "pdf" && !bytes.Contains(one, []byte("/CreationDate (D:19700101000000")) {
				t.Errorf("%v: two %s differ", args, format)
			}
		}
	}
	file, _, _ := drawn(t, "png", "latency", "-r", dir, "--width", "4in", "--height", "5.08cm", "--dpi", "100", "--title", "A title")
	c, err := png.DecodeConfig(bytes.NewReader(file))
	if err != nil || c.Width != 400 || c.Height != 200 {
		t.Errorf("%+v, %v", c, err)
	}
	if _, err := png.Decode(bytes.NewReader(file)); err != nil {
		t.Error(err)
	}
	if at := bytes.Index(file, []byte("pHYs")); at < 0 || binary.BigEndian.Uint32(file[at+4:]) != 3937 || file[at+12] != 1 {
		t.Errorf("the resolution is not in the file: %d", at)
	}
	svg, _, _ := drawn(t, "svg", "latency", "-r", dir, "--width", "100pt", "--height", "72pt", "--title", `<A & "B">`)
	if p := parse(t, svg); !bytes.Contains(svg, []byte(`width="100pt" height="72pt"`)) || p.texts[0] != `<A & "B">` {
		t.Errorf("%q", p.texts)
	}
}

// TestPDF: another program finds the texts in it, and its fonts inside.
func TestPDF(t *testing.T) {
	need.Programs(t, "pdftotext:poppler-utils", "pdffonts:poppler-utils")
	dir := twoPaths(400).recorded(t)
	file, _, _ := drawn(t, "pdf", "latency", "-r", dir, "--title", "Größe → 5 µs")
	name := filepath.Join(t.TempDir(), "a.pdf")
	if err := os.WriteFile(name, file, 0o600); err != nil {
		t.Fatal(err)
	}
	text, err := exec.Command("pdftotext", name, "-").CombinedOutput()
	for _, want := range []string{"Latency (µs)", "h1 > r1 > h2", "h1 > r2 > h2", "p99", "Share of packets"} {
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("no %q: %v, %s", want, err, text)
		}
	}
	fonts, err := exec.Command("pdffonts", name).CombinedOutput()
	lines := strings.Split(strings.TrimSpace(string(fonts)), "\n")
	if err != nil || len(lines) != 3 || !strings.Contains(lines[2], "LiberationSans") || !strings.Contains(lines[2], " yes ") {
		t.Errorf("%v: %s", err, fonts)
	}
}

// TestUgly: whatever is drawn, texts are within the figure, and nothing is left out without a word.
func TestUgly(t *testing.T) {
	one, forty, wide, lost, ints, none := new(made), new(made), new(made), new(made), new(made), new(made)
	path := []string{"h1", "r1", "h2"}
	one.send(walk{nodes: path, link: 1000, node: 100, waits: 1, queue: 50})
	for i := range 400 {
		long := fmt.Sprintf("a-router-with-a-very-long-name-in-building-%d-rack-7.example.net", i%40)
		forty.send(walk{nodes: []string{"host-in-the-first-datacentre", long, "ナノ-h2"}, at: int64(i) * 1e6, link: int64(1000 + i), node: 100, waits: 1, queue: int64(i), ipv6: true, flow: uint16(i % 40)})
		wide.send(walk{nodes: path, at: int64(i) * 3e10, link: 500, node: 1, waits: 1, queue: int64(1000 * 1.04e1 * float64(i*i) * 60), flow: uint16(i)})
		lost.send(walk{nodes: path[:2], at: int64(i) * 1e6, link: 1000, node: 1, waits: 1, lost: true})
		ints.send(walk{nodes: []string{"int-1", "int-2"}, at: int64(i) * 1e6, link: 1000, node: 0, queue: -1, report: true})
	}
	none.send(walk{nodes: path[:1], queue: -1})
	all := [][]string{{"latency"}, {"latency", "--kind", "ccdf"}, {"latency", "--kind", "box"}, {"latency", "--by", "flow", "--top", "0"}, {"latency", "--by", "queue", "--legend", "inside"}, {"paths"}, {"paths", "--top", "0"}, {"loss"}, {"loss", "--kind", "time"}, {"queue"}, {"queue", "--top", "0"}, {"timeline"}, {"timeline", "--of", "tcp"}}
	for name, m := range map[string]*made{"one packet": one, "forty paths": forty, "1 µs to 10 s": wide, "all lost": lost, "INT": ints, "no times": none} {
		dir := m.recorded(t)
		for _, args := range all {
			figure := filepath.Join(t.TempDir(), "a.svg")
			_, stderr, code := clitest.Radar(t, append(append([]string{"plot"}, args...), "-r", dir, "-o", figure)...)
			if code == kit.ExitFailure && strings.Contains(stderr, "radar: nothing to draw: ") {
				if _, err := os.Stat(figure); err == nil {
					t.Errorf("%s, %v: nothing to draw, and a file", name, args)
				}
				continue
			}
			file, err := os.ReadFile(figure)
			if code != kit.ExitOK || err != nil {
				t.Errorf("%s, %v: code %d, %s, %v", name, args, code, stderr, err)
				continue
			}
			parse(t, file)
		}
	}
	dir := forty.recorded(t)
	if _, _, said := drawn(t, "svg", "latency", "-r", dir); !strings.Contains(said, "32 rows more with fewer packets are not drawn: --top 0 draws all") {
		t.Errorf("%q", said)
	}
	if _, rows, said := drawn(t, "svg", "latency", "-r", dir, "--top", "0", "--height", "60mm"); !strings.Contains(said, "the legend has no room for all entries") || len(rows) < 40 {
		t.Errorf("%q", said)
	}
}

// TestManyPackets: a diagram of packets is bounded, and says so.
func TestManyPackets(t *testing.T) {
	dir := twoPaths(1200).recorded(t)
	_, rows, said := drawn(t, "svg", "timeline", "-r", dir)
	ids := make(map[string]bool)
	for _, row := range rows {
		ids[row["id"]] = true
	}
	shown, more := 0, 0
	for _, r := range records(t, "-r", dir) {
		if ids[r.ID] {
			shown += r.Segs
		} else {
			more += r.Segs
		}
	}
	if !strings.Contains(said, fmt.Sprintf("only the first %d packets are drawn, as 500 lines (a train is one), not the %d after them", shown, more)) || len(ids) != 500 || shown < 600 {
		t.Errorf("%d lines of %d packets, and %d more, %q", len(ids), shown, more, said)
	}
}

// TestRefused: what makes no figure is refused before packets are read, and an empty answer says why.
func TestRefused(t *testing.T) {
	dir := twoPaths(50).recorded(t)
	for args, want := range map[string]string{
		"latency":                              "say where the figure is to go: -o NAME.svg",
		"latency -o a.jpg":                     "-o a.jpg: use a name that ends in .svg, .pdf or .png",
		"latency -o a":                         "-o a: use a name that ends in .svg, .pdf or .png",
		"latency -o a.svg --format png":        "the name says another format",
		"latency -o -":                         "-o -: say in which format",
		"latency -o - --format gif":            "--format gif: use svg, pdf or png",
		"latency -o - --format svg --data -":   "standard output takes one of them",
		"latency -o a.png --dpi 3":             "--dpi 3: use 20 to 2400",
		"latency -o a.svg --width 84":          `"84" is no length: use a number with mm, cm, in or pt`,
		"latency -o a.svg --width 1mm":         "a side is from 20mm to 2000mm long",
		"latency -o a.svg --size huge":         "use column, page, slide",
		"latency -o a.svg --kind pie":          "use cdf, ccdf, box",
		"latency -o a.svg --data ./x/../a.svg": "the figure would replace the numbers",
		"latency -o a.svg --state in_flight":   "packets in flight are in no figure",
	} {
		if _, stderr, code := clitest.Radar(t, append([]string{"plot"}, strings.Fields(args)...)...); code != kit.ExitUsage || !strings.Contains(stderr, want) {
			t.Errorf("%s: code %d, %q, want %q", args, code, stderr, want)
		}
	}
	for args, want := range map[string]string{
		"latency --dport 99":           "no packet matches; the recording ",
		"timeline --dport 99":          "no packet matches; the recording ",
		"loss --state delivered":       "nothing to draw: none of ",
		"queue --node r1":              "is known to have waited in a queue",
		"timeline --of tcp":            "no packet of TCP matches",
		"latency --by queue --node r1": "no packet that matches has a latency by queue",
	} {
		if _, stderr, code := clitest.Radar(t, append(append([]string{"plot"}, strings.Fields(args)...), "-r", dir, "-o", filepath.Join(t.TempDir(), "a.svg"))...); code != kit.ExitFailure || !strings.Contains(stderr, want) {
			t.Errorf("%s: code %d, %q, want %q", args, code, stderr, want)
		}
	}
	folder := t.TempDir()
	file, link := filepath.Join(folder, "a.svg"), filepath.Join(folder, "a.csv")
	if err := errors.Join(os.WriteFile(file, nil, 0o600), os.Symlink(file, link)); err != nil {
		t.Fatal(err)
	}
	if _, stderr, code := clitest.Radar(t, "plot", "latency", "-r", dir, "-o", file, "--data", link); code != kit.ExitUsage {
		t.Errorf("two names of one file: code %d, %q", code, stderr)
	}
	_, stderr, code := clitest.Radar(t, "plot", "latency", "-r", dir, "-o", filepath.Join(t.TempDir(), "a.png"), "--dpi", "2400", "--width", "2000mm")
	if code != kit.ExitFailure || !strings.Contains(stderr, "megapixels is too large") {
		t.Errorf("a picture that is too large: code %d, %q", code, stderr)
	}
	stdout, _, code := clitest.Radar(t, "plot", "latency", "-r", dir, "-o", "-", "--format", "pdf")
	if code != kit.ExitOK || !strings.HasPrefix(stdout, "%PDF-") {
		t.Errorf("standard output: code %d, %.20q", code, stdout)
	}
}

// TestZero: the label of an axis of time says exactly what its zero is, in the zone that --since takes.
func TestZero(t *testing.T) {
	zone := time.Local
	time.Local = time.FixedZone("XST", -5*3600)
	t.Cleanup(func() { time.Local = zone })
	m := new(made)
	for i := range 5 {
		m.send(walk{nodes: []string{"h1", "r1", "h2"}, at: 765_432_100 + int64(i)*1e6, link: 1000, node: 500, waits: 1, queue: 1e6})
	}
	file, _, _ := drawn(t, "svg", "timeline", "-r", m.recorded(t))
	want := time.Unix(0, begin+765_432_100).Format("Time since 2006-01-02 15:04:05") + ".765432 XST (ms)"
	if texts := parse(t, file).texts; !slices.Contains(texts, want) {
		t.Errorf("no %q in %q", want, texts)
	}
}

// TestStates: --state chooses as for other questions.
func TestStates(t *testing.T) {
	dir := twoPaths(300).recorded(t)
	lost := 0
	for _, r := range records(t, "-r", dir) {
		if r.State == record.Lost {
			lost++
		}
	}
	_, rows, _ := drawn(t, "svg", "timeline", "-r", dir, "--state", "lost")
	if len(rows) != 2*lost || lost == 0 {
		t.Errorf("%d visits of %d lost packets", len(rows), lost)
	}
}
