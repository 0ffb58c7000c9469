// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/vnetradar/radar/pkg/collect"
	"github.com/vnetradar/radar/pkg/collect/metrics"
)

const metricsLong = `Show the latest values of what telemetry reports say, as radar collect has them: paths and
latencies of flows, latencies of nodes for flows, occupancy and congestion of queues,
utilization of links.

REPORTED is the value of the last event, REPORTS how many reports have said a value, LAST when
the latest of them came. Occupancy and utilization are as the nodes send them: bytes,
cells, packets, shares; latencies are in ns in JSON and CSV.

While a collector runs, the values are at most a second old, or, if there are very many, as
old as standard error says.`

func newMetricsCmd(a *app) *cobra.Command {
	var which, nodes []string
	cmd := &cobra.Command{
		Use:   "metrics",
		Short: "Show the latest values that telemetry reports say",
		Long:  metricsLong,
		Example: `  radar metrics
  radar metrics --metric queue_occupancy,queue_congestion --node leaf1
  radar metrics -o csv > metrics.csv`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		Annotations:       hasCSV,
		RunE: func(*cobra.Command, []string) error {
			for _, name := range which {
				if _, err := metrics.ByName(name); err != nil {
					return withCode(exitUsage, fmt.Errorf("--metric: %w", err))
				}
			}
			return a.showMetrics(which, nodes)
		},
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&which, "metric", nil, "only these: "+strings.Join(metrics.Names(), ", "))
	flags.StringSliceVar(&nodes, "node", nil, "only what is of these nodes, or of paths through them")
	completeWith(cmd, "metric", metrics.Names()...)
	return cmd
}

func (a *app) showMetrics(which, nodes []string) error {
	info, err := collect.Load(a.domain)
	if err != nil {
		return fmt.Errorf("domain %s: %w (radar collect)", a.domain, err)
	}
	rows, written, err := collect.LoadRows(a.domain)
	if err != nil {
		return err
	}
	if age := a.now().Sub(written); info.PID != 0 && age > 2*time.Second {
		a.notef("the values are %s old", humanDuration(float64(age)))
	}
	all := len(rows)
	rows = slices.DeleteFunc(rows, func(r metrics.RowJSON) bool {
		if len(which) > 0 && !slices.Contains(which, r.Metric) {
			return true
		}
		return len(nodes) > 0 && !slices.ContainsFunc(nodes, func(n string) bool { return r.Node == n || r.ToNode == n || slices.Contains(r.Path, n) })
	})
	if len(rows) == 0 {
		a.notef("none of %s matches", plural(all, "value"))
	}
	if info.Metrics.Full > 0 {
		a.notef("%s had no room in the tables (radar collect --flows)", plural(int(info.Metrics.Full), "value"))
	}
	if info.LeftOut > 0 {
		a.notef("there was no room for %s more (radar collect --keep-metrics)", plural(int(info.LeftOut), "value"))
	}
	return a.printMetrics(rows)
}

func (a *app) printMetrics(rows []metrics.RowJSON) error {
	if a.output.raw() {
		return printRows(a, rows)
	}
	t := newTable(
		column{title: "METRIC"}, column{title: "VALUE", right: true}, column{title: "REPORTED", right: true},
		column{title: "REPORTS", right: true}, column{title: "LAST", right: true}, column{title: "OF"},
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
		t.add(r.Metric, value, reported, decimal(r.Reports), a.when(r.TNs), of)
	}
	return t.flush(a.out)
}

// when renders a time, Unix ns: today's without the date.
func (a *app) when(ns int64) string {
	at, now := time.Unix(0, ns).In(a.location), a.now().In(a.location)
	if at.Format(time.DateOnly) == now.Format(time.DateOnly) {
		return at.Format(time.TimeOnly)
	}
	return at.Format(time.DateTime)
}

// metricValue renders a value: of latencies a time.
func metricValue(metric string, n uint64) string {
	if m, err := metrics.ByName(metric); err == nil && m.Nanoseconds() {
		return humanDuration(float64(n))
	}
	return strconv.FormatUint(n, 10)
}

// eventPrinter prints events, one a line.
type eventPrinter struct {
	*app
	table *table
	csv   *csvWriter
}

func newEventPrinter(a *app) *eventPrinter {
	return &eventPrinter{app: a, csv: newCSVWriter(a.out), table: newTable(
		column{title: "TIME", min: 15}, column{title: "METRIC", min: 16}, column{title: "VALUE", right: true, min: 8}, column{title: "WAS", right: true, min: 8}, column{title: "OF"},
	)}
}

func (p *eventPrinter) print(e *metrics.EventJSON) error {
	switch p.output {
	case formatJSON:
		return printJSON(p.out, e)
	case formatCSV:
		if err := p.csv.row(e); err != nil {
			return err
		}
		return p.csv.flush()
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
	p.table.add(time.Unix(0, e.TNs).In(p.location).Format("15:04:05.000000"), e.Metric, value, was, of)
	return p.table.flush(p.out)
}
