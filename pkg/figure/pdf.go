// SPDX-License-Identifier: Apache-2.0

package figure

import (
	"bytes"
	"time"

	"codeberg.org/go-pdf/fpdf"
	"golang.org/x/text/encoding/charmap"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/vgpdf"
)

// pdf is a canvas whose texts are text: a reader can search and copy them. It embeds the letters of its fonts that
// it shows.
type pdf struct {
	*vgpdf.Canvas
	letters map[rune]bool
}

func init() {
	// The same figure is the same file, whenever it is made.
	fpdf.SetDefaultCreationDate(time.Unix(0, 0).UTC())
	fpdf.SetDefaultModificationDate(time.Unix(0, 0).UTC())
	fpdf.SetDefaultCatalogSort(true)
}

func newPDF(width, height vg.Length) pdf {
	return pdf{vgpdf.New(width, height), make(map[rune]bool)}
}

// file is the whole file.
func (p pdf) file() ([]byte, error) {
	var b bytes.Buffer
	if _, err := p.WriteTo(&b); err != nil {
		return nil, err
	}
	return withSubsets(b.Bytes(), p.letters)
}

// FillString implements vg.Canvas. The embedded font has the letters of Windows-1252, and wants them in that encoding:
// a text with others is drawn.
func (p pdf) FillString(f font.Face, at vg.Point, text string) {
	if f.Font.Size == 0 || text == "" {
		return
	}
	encoded, err := charmap.Windows1252.NewEncoder().String(text)
	if err != nil {
		p.Fill(textPath(f, at, text))
		return
	}
	for _, r := range text {
		p.letters[r] = true
	}
	p.Canvas.FillString(f, at, encoded)
}
