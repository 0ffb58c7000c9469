// SPDX-License-Identifier: Apache-2.0

package api

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/vnetradar/radar/pkg/api/reported"
	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/telemetry/metrics"
)

// mostNodes have a histogram of their own: reports say which nodes there are, and anyone may send one.
const mostNodes = 1 << 10

// otherNodes is the label of those beyond mostNodes.
const otherNodes = "other"

// exposition is what Prometheus gets of the collector of this process: histograms of every report, which
// no other process has, and what package reported exports of any collector.
type exposition struct {
	reports  *Reports
	exporter *reported.Exporter
	hops     *prometheus.HistogramVec
	flows    prometheus.Histogram
	nodes    map[uint32]prometheus.Observer // nil: one of otherNodes; only observe's
	others   prometheus.Observer
}

// latencyBuckets are for servers that do not take native histograms: 1 us to 4 s, each four
// times the one before.
var latencyBuckets = prometheus.ExponentialBuckets(1e-6, 4, 12)

func histogram(domain, name, help string) prometheus.HistogramOpts {
	return prometheus.HistogramOpts{
		Name: name, Help: help, Buckets: latencyBuckets, ConstLabels: prometheus.Labels{"domain": domain},
		NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 160,
	}
}

func newExposition(r *Reports, face fault.Face) *exposition {
	return &exposition{
		reports: r, exporter: reported.NewExporter(face), nodes: make(map[uint32]prometheus.Observer),
		hops: prometheus.NewHistogramVec(histogram(r.Domain, "radar_int_hop_latency_seconds",
			"Time inside a node, of each hop that a report has it of."), []string{"node", "node_id"}),
		flows: prometheus.NewHistogram(histogram(r.Domain, "radar_int_flow_latency_seconds",
			"Sum of hop latencies, of each report in which every hop has one.")),
	}
}

func (x *exposition) observe(m metrics.Metric, node uint32, ns uint64) {
	seconds := float64(ns) / 1e9
	if m == metrics.FlowLatency {
		x.flows.Observe(seconds)
		return
	}
	of, known := x.nodes[node]
	if !known {
		of = x.node(node)
	}
	of.Observe(seconds)
}

// node is the histogram of a node that has none yet.
func (x *exposition) node(id uint32) prometheus.Observer {
	if len(x.nodes) < mostNodes {
		x.nodes[id] = x.hops.WithLabelValues(x.reports.namer(id), strconv.FormatUint(uint64(id), 10))
		return x.nodes[id]
	}
	if x.others == nil {
		x.others = x.hops.WithLabelValues(otherNodes, "")
	}
	return x.others
}

var (
	listenersDesc = desc("http_listeners", "Listeners of /events.")
	cutDesc       = desc("http_listeners_cut_total", "Listeners of /events that were cut off for being slow.")
	deniedDesc    = desc("http_listeners_denied_total", "Listeners of /events that found no place.")
)

// Describe implements prometheus.Collector.
func (x *exposition) Describe(ch chan<- *prometheus.Desc) {
	x.exporter.Describe(ch)
	ch <- listenersDesc
	ch <- cutDesc
	ch <- deniedDesc
}

// Collect implements prometheus.Collector.
func (x *exposition) Collect(ch chan<- prometheus.Metric) {
	now, cut, denied := x.reports.hub.Counts()
	ch <- prometheus.MustNewConstMetric(listenersDesc, prometheus.GaugeValue, float64(now))
	ch <- prometheus.MustNewConstMetric(cutDesc, prometheus.CounterValue, float64(cut))
	ch <- prometheus.MustNewConstMetric(deniedDesc, prometheus.CounterValue, float64(denied))
	info := x.reports.Info()
	rows, _ := x.reports.values()
	x.exporter.Collector(ch, x.reports.Domain, &info, func(yield func(*metrics.RowJSON) bool) {
		for i := range rows {
			if !reported.HasSeries(rows[i].Metric) {
				continue // that of a flow
			}
			if row := x.reports.namer.Row(&rows[i]); !yield(&row) {
				return
			}
		}
	})
}
