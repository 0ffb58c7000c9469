// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/vnetradar/radar/pkg/answer"
	"github.com/vnetradar/radar/pkg/answer/fidelity"
	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/words"
)

const fidelityLong = `Say whether an emulation was true: what the queueing disciplines of the attached ports
declare (netem: delay, jitter, loss, duplicates, reordering, rate; tbf and htb: rate)
against what packets met there, with confidence bounds.

A value is true if its bounds lie within --part of what is declared (times also within
--least-time, shares within --least-share), untrue if they lie outside, and else the
packets are too few to say. For what is untrue likely causes follow: processors that
were busy, GSO trains that the queue treats as one packet, queues that flows share,
bursts, timers that are late.

A rate is measured while packets wait behind each other, with their link headers, as tc
counts. One that was exceeded though hardly any packet waited is untrue: its burst was
not used up, or is larger than it should be. A loss is that of buffers (skbs), for which
the emulator draws. The kernel does not tell netem's distribution: jitter is taken for
the range of an even one, or for the deviation of a normal one, whichever the delays
look like.

It judges packets that the domain remembers, or with --for those of the time from now
on; then what the processors did meanwhile is measured, too. What is declared is read
now: packets of before tc changed it make it look untrue (--since). Recordings do not
keep what was declared, so only a domain that is attached can be asked.

--as markdown and --as latex print a table and a paragraph for a paper.`

// Ways to print a report.
const (
	asText     = "text"
	asMarkdown = "markdown"
	asLatex    = "latex"
)

// fidelityOptions are the flags of "radar fidelity".
type fidelityOptions struct {
	kit.SelectFlags
	fidelity.Options
	as        kit.Choice
	leastTime time.Duration
	forTime   time.Duration
}

// NewFidelityCmd returns "radar fidelity".
func NewFidelityCmd(k *kit.Kit) *cobra.Command {
	f := &fidelityOptions{Options: fidelity.DefaultOptions, as: kit.NewChoice(asText, "form", asText, asMarkdown, asLatex)}
	cmd := &cobra.Command{
		Use:   "fidelity " + kit.EndsUse,
		Short: "Say whether links did what tc declares",
		Long:  fidelityLong,
		Example: `  radar fidelity
  radar fidelity --for 30s --as markdown > fidelity.md
  radar fidelity --since 5m --part 0.1 -o json | jq 'select(.verdict == "untrue")'`,
		Annotations: kit.HasCSV,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(k, cmd); err != nil {
				return err
			}
			s, err := f.Selection(cmd.Flags(), args, k.Now())
			if err != nil {
				return err
			}
			return judgeFidelity(k, cmd.Context(), f, s)
		},
	}
	f.Add(k, cmd, "only the newest N packets; 0: all that the domain remembers")
	flags := cmd.Flags()
	f.as.Add(cmd, "as", "form of the report")
	flags.DurationVar(&f.forTime, "for", 0, "wait so long, and judge the packets of that time")
	flags.Float64Var(&f.Part, "part", f.Part, "share of a declared value by which it may be off")
	flags.DurationVar(&f.leastTime, "least-time", time.Duration(f.LeastTime), "times may be off by this in any case")
	flags.Float64Var(&f.LeastShare, "least-share", f.LeastShare, "shares of packets may be off by this in any case")
	flags.Float64Var(&f.Confidence, "confidence", f.Confidence, "of the bounds")
	return cmd
}

func (f *fidelityOptions) check(k *kit.Kit, cmd *cobra.Command) error {
	f.LeastTime = float64(f.leastTime)
	switch {
	case cmd.Flags().Changed("read"):
		return fault.Usage.Errorf("--read: what tc declares is read from a domain that is attached, recordings do not keep it")
	case f.forTime < 0:
		return fault.Usage.Errorf("--for %v: use more than 0", f.forTime)
	case f.forTime > 0 && (kit.IsTyped(cmd, "since") || kit.IsTyped(cmd, "until")):
		return fault.Usage.Errorf("--for: it begins now, so --since and --until have no meaning")
	case !(f.Part >= 0 && f.Part < 1):
		return fault.Usage.Errorf("--part %v: use a share, such as 0.05", f.Part)
	case f.leastTime < 0:
		return fault.Usage.Errorf("--least-time %v: use 0 or more", f.leastTime)
	case !(f.LeastShare >= 0 && f.LeastShare < 1):
		return fault.Usage.Errorf("--least-share %v: use a share, such as 0.002", f.LeastShare)
	case !(f.Confidence > 0.5 && f.Confidence < 1):
		return fault.Usage.Errorf("--confidence %v: use 0.5 to 1, such as 0.99", f.Confidence)
	case f.as.Value != asText && k.Output != kit.FormatTable:
		return fault.Usage.Errorf("--as %s: it has no -o %s", f.as.Value, k.Output)
	}
	return nil
}

func judgeFidelity(k *kit.Kit, ctx context.Context, f *fidelityOptions, s *answer.Selection) error {
	return k.ReadSources(s, func(all *answer.Sources) error {
		d := all.Domain()
		if d == nil {
			return fault.Usage.Errorf("what tc declares is read from a domain that is attached: reports do not keep it")
		}
		ports, failed := fidelity.Declared(d)
		for _, err := range failed {
			k.Warn(err)
		}
		machine := fidelity.MachineNow()
		if f.forTime > 0 {
			watch := fidelity.NewWatch()
			s.Since = time.Now()
			select {
			case <-time.After(f.forTime):
			case <-ctx.Done():
				return ctx.Err()
			}
			machine = watch.Since()
			if err := all.Update(); err != nil {
				return err
			}
		}
		meter := fidelity.NewMeter(ports)
		notes, err := all.Records(ctx, s, func(r *record.Record) error {
			meter.Add(r)
			return nil
		})
		if err != nil {
			return err
		}
		if len(ports) > 0 {
			k.Note(notes)
		}
		return printFidelity(k, f, ports, meter.Judge(machine, f.Options))
	})
}

func printFidelity(k *kit.Kit, f *fidelityOptions, ports []fidelity.Port, rows []fidelity.Row) error {
	for _, p := range ports {
		if p.Shares != "" {
			k.Notef("%s has %s: it is not judged as a whole", p.Name, p.Shares)
		}
	}
	told := make(map[string]bool)
	for _, r := range rows {
		if r.Judged != nil && !told[r.Port] {
			told[r.Port] = true
			k.Notef("%s: only the first %.3g %% of its packets are judged, for more there was no room (losses: all); choose some by --since, --until", r.Port, *r.Judged*100)
		}
	}
	if k.Output.Raw() {
		return kit.PrintRows(k, rows)
	}
	if len(rows) == 0 {
		k.Notef("no attached port declares anything (tc qdisc: netem, tbf or htb)")
		return nil
	}
	text := paragraph(f, rows)
	switch f.as.Value {
	case asMarkdown:
		printMarkdown(k, rows)
		_, err := fmt.Fprintf(k.Out, "\n%s\n", text)
		return err
	case asLatex:
		printLatex(k, rows)
		_, err := fmt.Fprintf(k.Out, "\n%s\n", latex.Replace(text))
		return err
	}
	t := kit.NewTable(kit.Column{Title: "VERDICT"}, kit.Column{Title: "PORT"}, kit.Column{Title: "WHAT"}, kit.Column{Title: "DECLARED", Right: true},
		kit.Column{Title: "MEASURED", Right: true}, kit.Column{Title: "BOUNDS"}, kit.Column{Title: "PACKETS", Right: true}, kit.Column{Title: "CAUSES"})
	for _, r := range rows {
		c := cells(&r)
		t.Add(append([]string{string(r.Verdict), r.Port}, append(c, strings.Join(r.Causes, "; "))...)...)
	}
	if err := t.Flush(k.Out); err != nil {
		return err
	}
	_, err := fmt.Fprintf(k.Out, "\n%s\n", text)
	return err
}

// cells are what a row says of its value: name, declared, measured, bounds, packets.
func cells(r *fidelity.Row) []string {
	measured, bounds := "", ""
	if r.Measured != nil {
		measured = r.Property.Text(*r.Measured)
		bounds = r.Property.Text(r.Bounds.Low) + " to " + r.Property.Text(r.Bounds.High)
	}
	return []string{string(r.Property), r.Property.Text(r.Declared), measured, bounds, fmt.Sprint(r.Packets)}
}

// paragraph says in a few sentences what a paper can say of an emulation.
func paragraph(f *fidelityOptions, rows []fidelity.Row) string {
	counts := make(map[fidelity.Verdict]int)
	var sentences []string
	for i := range rows {
		r := &rows[i]
		counts[r.Verdict]++
		if r.Verdict == fidelity.Untrue {
			c := cells(r)
			sentences = append(sentences, fmt.Sprintf("The %s of %s was %s (%s) where %s was declared: %s.", r.Property, r.Port, c[2], c[3], c[1], strings.Join(r.Causes, "; ")))
		}
	}
	text := fmt.Sprintf("Of %s that the queueing disciplines declare, packets met %d as declared, within %.3g %% of the value (times %v, shares %.3g points, if that is more), with %.4g %% confidence.",
		words.Plural(len(rows), "value"), counts[fidelity.True], f.Part*100, f.leastTime, f.LeastShare*100, f.Confidence*100)
	if n := counts[fidelity.TooFew]; n > 0 {
		text += fmt.Sprintf(" For %d, the packets were too few to say.", n)
	}
	if counts[fidelity.Untrue] == 0 {
		return text + " None was untrue."
	}
	return text + " " + strings.Join(sentences, " ")
}

func printMarkdown(k *kit.Kit, rows []fidelity.Row) {
	fmt.Fprintln(k.Out, "| port | what | declared | measured | bounds | packets | verdict |\n|---|---|---|---|---|---|---|")
	for _, r := range rows {
		fmt.Fprintf(k.Out, "| %s | %s | %s |\n", r.Port, strings.Join(cells(&r), " | "), r.Verdict)
	}
}

// latex writes characters that LaTeX takes for its own.
var latex = strings.NewReplacer(`%`, `\%`, `_`, `\_`, `&`, `\&`, `#`, `\#`, `$`, `\$`)

func printLatex(k *kit.Kit, rows []fidelity.Row) {
	fmt.Fprintln(k.Out, `\begin{tabular}{llrrlrl}`+"\n"+`port & what & declared & measured & bounds & packets & verdict \\ \hline`)
	for _, r := range rows {
		var list []string
		for _, cell := range append(append([]string{r.Port}, cells(&r)...), string(r.Verdict)) {
			list = append(list, latex.Replace(cell))
		}
		fmt.Fprintf(k.Out, "%s \\\\\n", strings.Join(list, " & "))
	}
	fmt.Fprintln(k.Out, `\end{tabular}`)
}
