// SPDX-License-Identifier: Apache-2.0

// Package plot has "radar plot": figures of what was measured, fit for a paper.
package plot

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"gonum.org/v1/plot/vg"

	"github.com/vnetradar/radar/pkg/answer"
	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/figure"
	"github.com/vnetradar/radar/pkg/record"
)

const plotLong = `Draw what was measured, live or from a recording (-r DIR), as a figure for a paper,
a slide or a page.

The name after -o says the format: .svg, .pdf or .png. Letters of an SVG are
outlines, and a PDF has its fonts inside, so a figure looks the same everywhere. The
same packets make the same bytes. The label of an axis of time has the date and the time
of its zero, in the local time zone, as --since takes it.

--data FILE writes the numbers that are drawn as CSV, to draw them in another way.
Standard error says what a figure does not show: packets that were lost and so have no
latency, what is binned, and what there was no room for. docs/plot.md has examples.`

const plotExample = `  radar plot latency -o latency.pdf               # CDF of each path
  radar plot paths -r run --size page -o paths.svg
  radar plot loss --kind time --since 5m -o loss.png --dpi 600
  radar plot queue --node r2 -o queue.svg --data queue.csv
  radar plot timeline --of tcp 'tcp port 5201' -o tcp.svg`

// NewCmd returns "radar plot" and the commands below it.
func NewCmd(k *kit.Kit) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "plot",
		Short:   "Draw figures: latency, paths, losses, packets over time, queues",
		Long:    plotLong,
		Example: plotExample,
	}
	cmd.AddCommand(newLatencyCmd(k), newPathsCmd(k), newLossCmd(k), newTimelineCmd(k), newQueueCmd(k))
	return cmd
}

// outputHelp is part of the help of every figure.
const outputHelp = `The figure goes to the file that -o names, whose end says the format: .svg, .pdf or
.png; "-o -" is standard output, with --format. --size is column (84 mm wide, of a paper
with two), page (177 mm) or slide (254 mm by 143 mm); --width and --height change it.
--legend inside puts the legend into a corner that is free of data, if there is one.

` + kit.SelectionHelp

// askedRing is part of the help of figures that need each packet.
const askedRing = `It takes the packets that the ring still remembers, or a recording.

`

// options are the flags that all figures have.
type options struct {
	kit.SelectFlags
	out, format, data string
	size, legend      kit.Choice
	width, height     length
	title             string
	dpi               int

	several  bool                              // the figure can be of several recordings
	selected func() (*answer.Selection, error) // of the recording that is asked
}

// length is a flag of a length with its unit.
type length struct{ vg.Length }

func (l *length) String() string {
	if l.Length == 0 {
		return ""
	}
	return fmt.Sprintf("%gmm", float64(l.Length/vg.Millimeter))
}

// Type names the value in help texts.
func (l *length) Type() string { return "length" }

// Set parses the value.
func (l *length) Set(s string) (err error) {
	l.Length, err = figure.ParseLength(s)
	return err
}

// newCmd completes a command that draws one figure: with flags, and with RunE, which calls draw.
func newCmd(k *kit.Kit, cmd *cobra.Command, f *options, draw func(ctx context.Context, s *answer.Selection) error) *cobra.Command {
	cmd.Long += "\n\n" + outputHelp
	f.size = kit.NewChoice("column", "size", "column", "page", "slide")
	f.legend = kit.NewChoice(string(figure.Outside), "place", string(figure.Outside), string(figure.Inside), string(figure.Nowhere))
	f.Add(k, cmd, "only the newest N packets; 0: all")
	flags := cmd.Flags()
	flags.StringVarP(&f.out, "output", "o", "", "file of the figure: NAME.svg, NAME.pdf or NAME.png; -: standard output")
	flags.StringVar(&f.format, "format", "", "format for -o -: svg, pdf or png")
	flags.StringVar(&f.data, "data", "", "write the numbers that are drawn to this file, as CSV")
	flags.Var(&f.width, "width", "width, such as 84mm, 8.4cm or 3.3in; default: of --size")
	flags.Var(&f.height, "height", "height; default: of --size, and of bars as many need")
	flags.StringVar(&f.title, "title", "", "title above the figure")
	flags.IntVar(&f.dpi, "dpi", figure.DefaultDPI, "resolution of PNG, dots per inch")
	f.size.Add(cmd, "size", "size of the figure")
	f.legend.Add(cmd, "legend", "where the legend stands")
	kit.CompleteWith(cmd, "format", figure.Formats...)
	_ = cmd.MarkFlagFilename("output", figure.Formats...)
	_ = cmd.MarkFlagFilename("data", "csv")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := f.check(k); err != nil {
			return err
		}
		f.selected = func() (*answer.Selection, error) { return f.Selection(cmd.Flags(), args, k.Now()) }
		s, err := (*answer.Selection)(nil), error(nil)
		if !f.several || len(f.Several()) == 0 {
			s, err = f.selected()
		}
		if err != nil {
			return err
		}
		return draw(context.WithoutCancel(cmd.Context()), s)
	}
	return cmd
}

// ask asks once, and lets show draw the answer. What nothing matches is an error: there is no empty figure.
func (f *options) ask(ctx context.Context, k *kit.Kit, q *answer.Question, show func(*answer.Counts) error) error {
	if q.Wants(record.InFlight) {
		return fault.Usage.Errorf("--state in_flight: packets in flight are in no figure, radar packets shows them")
	}
	q.Now = k.Now()
	return k.ReadSources(q.Selection, func(s *answer.Sources) error {
		return k.AskOnce(ctx, s, q, func(c *answer.Counts) error {
			if c.Totals().Packets == 0 {
				k.Note(c.Remarks())
				return errNothing
			}
			return show(c)
		})
	})
}
