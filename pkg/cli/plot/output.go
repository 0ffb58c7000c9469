// SPDX-License-Identifier: Apache-2.0

package plot

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gonum.org/v1/plot/vg"

	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/figure"
)

// errNothing is that there is nothing to draw; notes say why.
var errNothing = errors.New("nothing to draw: no packet matches")

// stdout is the name of standard output.
const stdout = "-"

// check refuses flags that make no figure, before packets are read.
func (f *options) check(k *kit.Kit) error {
	switch {
	case f.out == "":
		return fault.Usage.Errorf("say where the figure is to go: -o NAME.svg, NAME.pdf or NAME.png (or -o - --format svg)")
	case f.out == stdout && f.format == "":
		return fault.Usage.Errorf("-o -: say in which format: --format svg, pdf or png")
	case f.out == stdout && f.data == stdout:
		return fault.Usage.Errorf("-o - with --data -: standard output takes one of them")
	case f.out == stdout && f.format != string(figure.SVG) && kit.IsTerminal(k.Stdout):
		return fault.Usage.Errorf("a %s is no text for a terminal: use -o FILE, or | another program", strings.ToUpper(f.format))
	case f.dpi < 20 || f.dpi > 2400:
		return fault.Usage.Errorf("--dpi %d: use 20 to 2400", f.dpi)
	}
	if f.out != stdout && f.data != "" && sameFile(f.out, f.data) {
		return fault.Usage.Errorf("-o %s with --data %s: this is one file, and the figure would replace the numbers", f.out, f.data)
	}
	if f.format != "" && !slices.Contains(figure.Formats, f.format) {
		return fault.Usage.Errorf("--format %s: use svg, pdf or png", f.format)
	}
	if f.out == stdout {
		return nil
	}
	format, ok := figure.FormatOf(f.out)
	switch {
	case f.format != "" && ok && string(format) != f.format:
		return fault.Usage.Errorf("-o %s with --format %s: the name says another format, leave out --format", f.out, f.format)
	case !ok && f.format == "":
		return fault.Usage.Errorf("-o %s: use a name that ends in .svg, .pdf or .png, or --format", f.out)
	}
	return nil
}

// sameFile reports whether two names are of one file, which need not be there.
func sameFile(a, b string) bool {
	if a, err := filepath.Abs(a); err == nil {
		if b, err := filepath.Abs(b); err == nil && a == b {
			return true
		}
	}
	one, err := os.Stat(a)
	if err != nil {
		return false
	}
	other, err := os.Stat(b)
	return err == nil && os.SameFile(one, other)
}

// figureOf is a figure of the size that was asked for. natural is its height where --height does not say it; 0: that of
// the size.
func (f *options) figureOf(natural vg.Length, panels ...*figure.Panel) *figure.Figure {
	size := figure.Sizes[f.size.Value]
	if natural > 0 {
		size.Height = natural
	}
	if f.width.Length > 0 {
		size.Width = f.width.Length
	}
	if f.height.Length > 0 {
		size.Height = f.height.Length
	}
	return &figure.Figure{Title: f.title, Panels: panels, Size: size, DPI: f.dpi, LegendAt: figure.LegendPlace(f.legend.Value), Grow: f.height.Length == 0}
}

// textSize is that of labels.
func (f *options) textSize() vg.Length { return figure.Sizes[f.size.Value].Text }

// write writes the figure, and its numbers if they are asked for.
func write[T any](k *kit.Kit, f *options, fig *figure.Figure, data []T) error {
	format := figure.Format(f.format)
	if format == "" {
		format, _ = figure.FormatOf(f.out)
	}
	file, notes, err := fig.Render(format)
	if err != nil {
		return err
	}
	for _, n := range notes {
		k.Notef("%s", noteText(n))
	}
	if f.data != "" {
		if err := writeData(k, f, data); err != nil {
			return err
		}
	}
	if f.out == stdout {
		k.Out.Reset(k.ForPrograms())
		_, err := k.Out.Write(file)
		return err
	}
	if err := kit.WriteFile(f.out, file); err != nil {
		return fmt.Errorf("write the figure: %w", err)
	}
	return nil
}

func noteText(n figure.Note) string {
	if n == figure.LegendCut {
		return string(n) + ": --data has them all; use --top, or a larger --height"
	}
	return string(n)
}

// writeData writes rows as CSV.
func writeData[T any](k *kit.Kit, f *options, rows []T) error {
	var b bytes.Buffer
	w := kit.NewCSVWriter(&b)
	if err := kit.CSVTitle[T](w); err != nil {
		return err
	}
	for i := range rows {
		if err := w.Row(&rows[i]); err != nil {
			return err
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if f.data == stdout {
		k.Out.Reset(k.ForPrograms())
		_, err := k.Out.Write(b.Bytes())
		return err
	}
	if err := kit.WriteFile(f.data, b.Bytes()); err != nil {
		return fmt.Errorf("write the numbers: %w", err)
	}
	return nil
}
