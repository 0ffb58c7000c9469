// SPDX-License-Identifier: Apache-2.0

package figure

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"path/filepath"
	"strings"

	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
)

// Format of a file.
type Format string

// The formats.
const (
	SVG Format = "svg"
	PDF Format = "pdf"
	PNG Format = "png"
)

// Formats are all of them.
var Formats = []string{string(SVG), string(PDF), string(PNG)}

// FormatOf is the format that a file's name says. False: it says none.
func FormatOf(name string) (Format, bool) {
	switch f := Format(strings.ToLower(strings.TrimPrefix(filepath.Ext(name), "."))); f {
	case SVG, PDF, PNG:
		return f, true
	}
	return "", false
}

// DefaultDPI is the resolution of PNG that is printed well.
const DefaultDPI = 300

// mostPixels bounds the memory of a PNG.
const mostPixels = 100e6

// Render draws the figure. Notes say what it could not show as it was asked to.
func (f *Figure) Render(format Format) (file []byte, notes []Note, err error) {
	defer func() { // the libraries below report failures by panics alone
		if r := recover(); r != nil {
			file, err = nil, fmt.Errorf("draw the figure: %v", r)
		}
	}()
	f.grow()
	var b bytes.Buffer
	switch format {
	case SVG:
		c := newSVG(f.Size.Width, f.Size.Height)
		notes = f.draw(draw.New(c))
		err = c.write(&b, f.Title, f.About)
	case PDF:
		c := newPDF(f.Size.Width, f.Size.Height)
		notes = f.draw(draw.New(c))
		if file, err = c.file(); err == nil {
			return file, notes, nil
		}
	case PNG:
		dpi := f.DPI
		if dpi == 0 {
			dpi = DefaultDPI
		}
		if pixels := f.Size.Width.Dots(float64(dpi)) * f.Size.Height.Dots(float64(dpi)); pixels > mostPixels {
			return nil, nil, fmt.Errorf("a figure of %.0f megapixels is too large: %d are possible; take a lower resolution or a smaller size", pixels/1e6, int(mostPixels/1e6))
		}
		c := bitmap{vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(f.Size.Width, f.Size.Height), vgimg.UseDPI(dpi))}}
		notes = f.draw(draw.New(c))
		if _, err = c.WriteTo(&b); err == nil {
			return withDPI(b.Bytes(), dpi), notes, nil
		}
	default:
		return nil, nil, fmt.Errorf("unknown format %q: use %s", format, strings.Join(Formats, ", "))
	}
	if err != nil {
		return nil, nil, fmt.Errorf("draw the figure: %w", err)
	}
	return b.Bytes(), notes, nil
}

// bitmap is a canvas for PNG.
type bitmap struct{ vgimg.PngCanvas }

// FillString implements vg.Canvas. A letter that the font lacks is a box, as in the other formats; here it would be missing.
func (b bitmap) FillString(f font.Face, at vg.Point, text string) {
	for _, g := range layout(f, text) {
		if g.glyph == 0 {
			b.Fill(textPath(f, at, text))
			return
		}
	}
	b.PngCanvas.FillString(f, at, text)
}

// withDPI writes the resolution into a PNG (pHYs), behind its header, so that it is placed at its size.
func withDPI(file []byte, dpi int) []byte {
	const header = 8 + 8 + 13 + 4 // signature; length and type, IHDR, its checksum
	perMeter := uint32(math.Round(float64(dpi) / 0.0254))
	chunk := binary.BigEndian.AppendUint32(nil, 9)
	chunk = append(chunk, "pHYs"...)
	chunk = binary.BigEndian.AppendUint32(chunk, perMeter)
	chunk = binary.BigEndian.AppendUint32(chunk, perMeter)
	chunk = append(chunk, 1) // per metre
	chunk = binary.BigEndian.AppendUint32(chunk, crc32.ChecksumIEEE(chunk[4:]))
	return append(append(append(make([]byte, 0, len(file)+len(chunk)), file[:header]...), chunk...), file[header:]...)
}

var _ vg.CanvasSizer = (*svg)(nil)
