// SPDX-License-Identifier: Apache-2.0

// Package reported is what collectors find in telemetry reports, for Prometheus: counters, and the newest values of
// queues, ports and links, by domain. No label is of a flow (docs/design/0054-one-server.md).
package reported

import (
	"errors"
	"iter"
	"slices"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/store"
	"github.com/vnetradar/radar/pkg/telemetry/collect"
	"github.com/vnetradar/radar/pkg/telemetry/metrics"
)

// MostSeries is how many series there are of each metric: reports say which nodes, ports and queues there are, and
// anyone may send one.
const MostSeries = 1 << 14

// gauges are the metrics that have series.
var gauges = map[string]*prometheus.Desc{
	metrics.QueueOccupancy.String(): occupancyDesc, metrics.QueueCongestion.String(): congestedDesc,
	metrics.LinkUtilization.String(): utilizationDesc, metrics.LinkLatency.String(): linkDesc,
}

// HasSeries reports whether values of a metric are in /metrics. Those of flows are not.
func HasSeries(m metrics.Metric) bool { return gauges[m.String()] != nil }

// Exporter gives Prometheus what collectors count and find.
type Exporter struct{ counters []*prometheus.Desc }

// NewExporter returns an Exporter for users of a face.
func NewExporter(face fault.Face) *Exporter { return &Exporter{counterDescs(face)} }

// Describe names all series.
func (x *Exporter) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range slices.Concat(x.counters, []*prometheus.Desc{
		upDesc, occupancyDesc, congestedDesc, utilizationDesc, linkDesc, leftOutDesc, eventsDesc, droppedDesc, writtenDesc, givenUpDesc, retriesDesc,
	}) {
		ch <- d
	}
}

// Collector exports a domain's collector that runs: what it counts, and its newest values.
func (x *Exporter) Collector(ch chan<- prometheus.Metric, domain string, info *collect.Info, rows iter.Seq[*metrics.RowJSON]) {
	s := &series{ch: ch, domain: domain}
	s.send(upDesc, prometheus.GaugeValue, 1)
	for i := range counters {
		s.send(x.counters[i], counters[i].kind, float64(counters[i].of(info)))
	}
	for m, n := range info.Metrics.Events {
		s.count(eventsDesc, n, metrics.Metric(m).String())
	}
	for _, o := range info.Outputs {
		s.count(droppedDesc, o.DroppedEvents, o.Name, "event")
		s.count(droppedDesc, o.DroppedValues, o.Name, "value")
		s.count(writtenDesc, o.Written, o.Name)
		s.count(givenUpDesc, o.GivenUp, o.Name)
		s.count(retriesDesc, o.Retries, o.Name)
	}
	s.sendValues(rows)
}

// series are those of one domain.
type series struct {
	ch     chan<- prometheus.Metric
	domain string
}

func (s *series) send(d *prometheus.Desc, kind prometheus.ValueType, value float64, labels ...string) {
	s.ch <- prometheus.MustNewConstMetric(d, kind, value, append([]string{s.domain}, labels...)...)
}

func (s *series) count(d *prometheus.Desc, n uint64, labels ...string) {
	s.send(d, prometheus.CounterValue, float64(n), labels...)
}

// sendValues sends the newest values of queues, ports and links.
func (s *series) sendValues(rows iter.Seq[*metrics.RowJSON]) {
	shown := make(map[string]int)
	leftOut := 0
	for r := range rows {
		d := gauges[r.Metric]
		if d == nil || r.Value == nil {
			continue
		}
		if shown[r.Metric]++; shown[r.Metric] > MostSeries {
			leftOut++
			continue
		}
		labels := []string{r.Node, number(r.NodeID), number(r.Port)}
		value := float64(*r.Value)
		switch d {
		case linkDesc:
			labels = append(labels, r.ToNode, number(r.ToNodeID))
			value /= 1e9
		case occupancyDesc, congestedDesc:
			labels = append(labels, number(r.Queue))
		}
		s.send(d, prometheus.GaugeValue, value, labels...)
	}
	s.send(leftOutDesc, prometheus.GaugeValue, float64(leftOut))
}

// number is a number as a label; "" if there is none.
func number(n *uint32) string {
	if n == nil {
		return ""
	}
	return strconv.FormatUint(uint64(*n), 10)
}

// Kept exports what the collectors of this machine write to the state directory. It is a prometheus.Collector.
type Kept struct {
	Exporter *Exporter
	Except   string // a domain whose collector exports its own
}

// Describe implements prometheus.Collector: without descriptions it is unchecked, for domains come and go.
func (Kept) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (k Kept) Collect(ch chan<- prometheus.Metric) {
	names, err := store.List()
	if err != nil {
		ch <- prometheus.NewInvalidMetric(upDesc, err)
		return
	}
	for _, name := range names {
		if name == k.Except {
			continue
		}
		if err := k.collect(ch, name); err != nil { // the others are there all the same
			(&series{ch: ch, domain: name}).send(unreadableDesc, prometheus.GaugeValue, 1)
		}
	}
}

func (k Kept) collect(ch chan<- prometheus.Metric, name string) error {
	info, err := store.Load(name)
	if errors.Is(err, store.ErrNone) {
		return nil // it has just been forgotten
	}
	if err != nil {
		return err
	}
	runs, err := store.Runs(name, info)
	if err != nil {
		return err
	}
	if !runs {
		(&series{ch: ch, domain: name}).send(upDesc, prometheus.GaugeValue, 0)
		return nil
	}
	rows, _, err := store.LoadRows(name)
	if err != nil && !errors.Is(err, store.ErrNone) {
		return err
	}
	k.Exporter.Collector(ch, name, info, func(yield func(*metrics.RowJSON) bool) {
		for i := range rows {
			if !yield(&rows[i]) {
				return
			}
		}
	})
	return nil
}
