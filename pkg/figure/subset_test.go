// SPDX-License-Identifier: Apache-2.0

package figure

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/image/font/sfnt"
	"golang.org/x/image/math/fixed"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/font/liberation"

	"github.com/vnetradar/radar/lab/test/need"
)

// A PDF has of its fonts the letters that it shows, and is one that other programs read.
func TestSubsetOfFonts(t *testing.T) {
	need.Programs(t, "pdftotext:poppler-utils", "pdffonts:poppler-utils")
	f := sample(Sizes["column"], 1, 100, true, 2)
	f.Title = "\u00c4nderung \u00e9 \u2013 \u20ac \u00b5s"
	file, _, err := f.Render(PDF)
	if err != nil {
		t.Fatal(err)
	}
	if len(file) > 60_000 {
		t.Errorf("a figure with two lines has %d bytes", len(file))
	}
	again, _, err := f.Render(PDF)
	if err != nil || !bytes.Equal(file, again) {
		t.Errorf("the same figure is another file: %v", err)
	}
	path := filepath.Join(t.TempDir(), "a.pdf")
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, program := range [][]string{{"pdffonts", path}, {"pdftotext", path, "-"}} {
		out, err := exec.Command(program[0], program[1:]...).CombinedOutput()
		text := string(out)
		if err != nil || strings.Contains(text, "rror") || strings.Contains(text, "arning") {
			t.Errorf("%v: %v\n%s", program, err, text)
		}
		switch program[0] {
		case "pdffonts":
			if !strings.Contains(text, "+") || !strings.Contains(text, "yes yes") {
				t.Errorf("no subset is embedded:\n%s", text)
			}
		case "pdftotext":
			if !strings.Contains(text, f.Title) || !strings.Contains(text, "Latency (ms)") {
				t.Errorf("the texts are\n%s", text)
			}
		}
	}
}

// Letters of a subset have the outlines and widths that they had, those with accents too; others have none.
func TestSubsetLetters(t *testing.T) {
	kept, gone := map[rune]bool{'a': true, '\u00c4': true, '\u20ac': true, '1': true}, []rune{'b', '\u00e9'}
	for _, face := range liberation.Collection() {
		var whole bytes.Buffer
		if _, err := face.Face.WriteSourceTo(nil, &whole); err != nil {
			t.Fatal(err)
		}
		part, err := subset(whole.Bytes(), kept)
		if err != nil {
			t.Fatal(err)
		}
		if len(part) > whole.Len()/4 {
			t.Errorf("%v: %d of %d bytes for 4 letters", face.Font, len(part), whole.Len())
		}
		read, err := sfnt.Parse(part)
		if err != nil {
			t.Fatalf("%v: %v", face.Font, err)
		}
		sameLetters(t, face, read, kept)
		for _, r := range gone {
			var b sfnt.Buffer
			if g, err := read.GlyphIndex(&b, r); err != nil || g != 0 {
				t.Errorf("%v: %q is there: %v", face.Font, r, err)
			}
		}
	}
	for _, bad := range [][]byte{nil, []byte("OTTO"), bytes.Repeat([]byte{0xff}, 500)} {
		if _, err := subset(bad, kept); err == nil {
			t.Errorf("%q is a font", bad)
		}
	}
}

func sameLetters(t *testing.T, face font.Face, read *sfnt.Font, letters map[rune]bool) {
	t.Helper()
	em := fixed.I(int(read.UnitsPerEm()))
	for r := range letters {
		var a, b sfnt.Buffer
		old, err := face.Face.GlyphIndex(&a, r)
		if err != nil {
			t.Fatal(err)
		}
		now, err := read.GlyphIndex(&b, r)
		if err != nil || now != old {
			t.Errorf("%v: %q is glyph %d, was %d: %v", face.Font, r, now, old, err)
			continue
		}
		x, err := face.Face.LoadGlyph(&a, old, em, nil)
		if err != nil {
			t.Fatal(err)
		}
		y, err := read.LoadGlyph(&b, now, em, nil)
		if err != nil || len(x) != len(y) {
			t.Errorf("%v: %q has %d strokes, had %d: %v", face.Font, r, len(y), len(x), err)
			continue
		}
		for i := range x {
			if x[i] != y[i] {
				t.Errorf("%v: %q has another outline", face.Font, r)
				break
			}
		}
	}
}
