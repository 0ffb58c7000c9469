// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/store"
	"github.com/vnetradar/radar/pkg/telemetry/metrics"
	"github.com/vnetradar/radar/pkg/words"
)

const metricsLong = `Show the latest values of what telemetry reports say, as radar collect has them: paths and
latencies of flows and links, latencies of nodes for flows, occupancy and congestion of queues,
utilization of links.

REPORTED is the value of the last event, REPORTS how many reports have said a value, LAST when
the latest of them came. Occupancy and utilization are as the nodes send them: bytes,
cells, packets, shares; latencies are in ns in JSON and CSV.

While a collector runs, the values are at most a second old, or, if there are very many, as
old as standard error says.`

// NewMetricsCmd returns "radar int metrics".
func NewMetricsCmd(k *kit.Kit) *cobra.Command {
	var which, nodes []string
	cmd := &cobra.Command{
		Use:   "metrics",
		Short: "Show the latest values that telemetry reports say",
		Long:  metricsLong,
		Example: `  radar int metrics
  radar int metrics --metric queue_occupancy,queue_congestion --node leaf1
  radar int metrics -o csv > metrics.csv`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		Annotations:       kit.HasCSV,
		RunE: func(*cobra.Command, []string) error {
			for _, name := range which {
				if _, err := metrics.ByName(name); err != nil {
					return fault.Usage.Errorf("--metric: %w", err)
				}
			}
			return showMetrics(k, which, nodes)
		},
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&which, "metric", nil, "only these: "+strings.Join(metrics.Names(), ", "))
	flags.StringSliceVar(&nodes, "node", nil, "only what is of these nodes, or of paths through them")
	kit.CompleteWith(cmd, "metric", metrics.Names()...)
	return cmd
}

func showMetrics(k *kit.Kit, which, nodes []string) error {
	info, err := store.Load(k.Domain)
	if err != nil {
		return fmt.Errorf("domain %s: %w (radar collect)", k.Domain, err)
	}
	rows, written, err := store.LoadRows(k.Domain)
	if err != nil {
		return err
	}
	if age := k.Now().Sub(written); info.PID != 0 && age > 2*time.Second {
		k.Notef("the values are %s old", words.Duration(float64(age)))
	}
	all := len(rows)
	rows = slices.DeleteFunc(rows, func(r metrics.RowJSON) bool {
		if len(which) > 0 && !slices.Contains(which, r.Metric) {
			return true
		}
		return len(nodes) > 0 && !slices.ContainsFunc(nodes, func(n string) bool { return r.Node == n || r.ToNode == n || slices.Contains(r.Path, n) })
	})
	if len(rows) == 0 {
		k.Notef("none of %s matches", words.Plural(all, "value"))
	}
	if info.Metrics.Full > 0 {
		k.Notef("%s had no room in the tables (radar collect --flows)", words.Plural(int(info.Metrics.Full), "value"))
	}
	if info.LeftOut > 0 {
		k.Notef("there was no room for %s more (radar collect --keep-metrics)", words.Plural(int(info.LeftOut), "value"))
	}
	return printMetrics(k, rows)
}

func printMetrics(k *kit.Kit, rows []metrics.RowJSON) error {
	if k.Output.Raw() {
		return kit.PrintRows(k, rows)
	}
	t := kit.NewTable(
		kit.Column{Title: "METRIC"}, kit.Column{Title: "VALUE", Right: true}, kit.Column{Title: "REPORTED", Right: true},
		kit.Column{Title: "REPORTS", Right: true}, kit.Column{Title: "LAST", Right: true}, kit.Column{Title: "OF"},
	)
	for i := range rows {
		r := &rows[i]
		value, reported := strings.Join(r.Path, " > "), ""
		if r.Value != nil && r.Reported != nil {
			value, reported = metricValue(r.Metric, *r.Value), metricValue(r.Metric, *r.Reported)
		}
		of := r.Of()
		if len(r.Path) > 0 { // long: last
			value, of = "", of+": "+value
		}
		t.Add(r.Metric, value, reported, words.Decimal(r.Reports), when(k, r.TNs), of)
	}
	return t.Flush(k.Out)
}

// when renders a time, Unix ns: today's without the date.
func when(k *kit.Kit, ns int64) string {
	at, now := time.Unix(0, ns).In(k.Location), k.Now().In(k.Location)
	if at.Format(time.DateOnly) == now.Format(time.DateOnly) {
		return at.Format(time.TimeOnly)
	}
	return at.Format(time.DateTime)
}

// metricValue renders a value: of latencies a time.
func metricValue(metric string, n uint64) string {
	if m, err := metrics.ByName(metric); err == nil && m.Nanoseconds() {
		return words.Duration(float64(n))
	}
	return strconv.FormatUint(n, 10)
}

// eventPrinter prints events, one a line.
type eventPrinter struct {
	*kit.Kit
	table *kit.Table
	csv   *kit.CSVWriter
}

func newEventPrinter(k *kit.Kit) *eventPrinter {
	return &eventPrinter{Kit: k, csv: kit.NewCSVWriter(k.Out), table: kit.NewTable(
		kit.Column{Title: "TIME", Min: 15}, kit.Column{Title: "METRIC", Min: 16}, kit.Column{Title: "VALUE", Right: true, Min: 8}, kit.Column{Title: "WAS", Right: true, Min: 8}, kit.Column{Title: "OF"},
	)}
}

func (p *eventPrinter) print(e *metrics.EventJSON) error {
	switch p.Output {
	case kit.FormatJSON:
		return kit.PrintJSON(p.Out, e)
	case kit.FormatCSV:
		if err := p.csv.Row(e); err != nil {
			return err
		}
		return p.csv.Flush()
	}
	value, was, of := "", "new", e.Of()
	if e.Value != nil {
		value = metricValue(e.Metric, *e.Value)
	}
	if e.Was != nil {
		was = metricValue(e.Metric, *e.Was)
	}
	if len(e.Path) > 0 {
		of += ": " + strings.Join(e.Path, " > ")
		if !e.New {
			was, of = "", of+", was "+strings.Join(e.WasPath, " > ")
		}
	}
	p.table.Add(time.Unix(0, e.TNs).In(p.Location).Format("15:04:05.000000"), e.Metric, value, was, of)
	return p.table.Flush(p.Out)
}
