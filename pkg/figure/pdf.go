// SPDX-License-Identifier: Apache-2.0

package figure

import (
	"time"

	"codeberg.org/go-pdf/fpdf"
	"golang.org/x/text/encoding/charmap"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/vgpdf"
)

// pdf is a canvas whose texts are text: a reader can search and copy them. The fonts are embedded.
type pdf struct{ *vgpdf.Canvas }

func init() {
	// The same figure is the same file, whenever it is made.
	fpdf.SetDefaultCreationDate(time.Unix(0, 0).UTC())
	fpdf.SetDefaultModificationDate(time.Unix(0, 0).UTC())
	fpdf.SetDefaultCatalogSort(true)
}

func newPDF(width, height vg.Length) pdf { return pdf{vgpdf.New(width, height)} }

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
	p.Canvas.FillString(f, at, encoded)
}
