// SPDX-License-Identifier: Apache-2.0

package api

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/vnetradar/radar/pkg/sink"
	"github.com/vnetradar/radar/pkg/telemetry/collect"
	"github.com/vnetradar/radar/pkg/telemetry/metrics"
)

// Reports say which nodes, ports and queues there are, and anyone may send one: series are bounded.
const (
	mostNodes  = 1 << 10 // with a histogram of their own
	mostSeries = 1 << 14 // of gauges, of each metric
)

// otherNodes is the label of those beyond mostNodes.
const otherNodes = "other"

// exposition is what /metrics shows: of nodes, ports and queues, never of flows.
type exposition struct {
	reports  *Reports
	registry *prometheus.Registry
	counters []*prometheus.Desc // of counters
	hops     *prometheus.HistogramVec
	flows    prometheus.Histogram
	nodes    map[uint32]prometheus.Observer // nil: one of otherNodes; only observe's
	others   prometheus.Observer
}

// latencyBuckets are for servers that do not take native histograms: 1 us to 4 s, each four
// times the one before.
var latencyBuckets = prometheus.ExponentialBuckets(1e-6, 4, 12)

func histogram(name, help string) prometheus.HistogramOpts {
	return prometheus.HistogramOpts{
		Name: name, Help: help, Buckets: latencyBuckets,
		NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 160,
	}
}

func newExposition(r *Reports) *exposition {
	x := &exposition{
		reports: r, registry: prometheus.NewRegistry(), nodes: make(map[uint32]prometheus.Observer),
		hops:  prometheus.NewHistogramVec(histogram("radar_int_hop_latency_seconds", "Time inside a node, of each hop that a report has it of."), []string{"node", "node_id"}),
		flows: prometheus.NewHistogram(histogram("radar_int_flow_latency_seconds", "Sum of hop latencies, of each report in which every hop has one.")),
	}
	for _, c := range counters {
		x.counters = append(x.counters, desc(c.name, r.server.face.Render(c.help)))
	}
	x.registry.MustRegister(x, r.server, x.hops, x.flows, collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return x
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
		x.nodes[id] = x.hops.WithLabelValues(x.reports.namer(id), decimal(id))
		return x.nodes[id]
	}
	if x.others == nil {
		x.others = x.hops.WithLabelValues(otherNodes, "")
	}
	return x.others
}

func decimal(n uint32) string { return strconv.FormatUint(uint64(n), 10) }

var (
	atQueue = []string{"node", "node_id", "port", "queue"}
	atPort  = atQueue[:3]
)

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("radar_"+name, help, labels, nil)
}

var (
	occupancyDesc   = desc("int_queue_occupancy", "Occupancy of a queue, as its node sends it: bytes, cells or packets.", atQueue...)
	congestedDesc   = desc("int_queue_congested", "1: a queue is congested.", atQueue...)
	utilizationDesc = desc("int_link_utilization", "Utilisation of an egress port, as its node sends it.", atPort...)
	linkDesc        = desc("int_link_latency_seconds", "Time from a node's egress to the next node's ingress, of sources whose nodes share a clock.", "node", "node_id", "port", "to_node", "to_node_id")
	leftOutDesc     = desc("int_series_left_out", "Queues, ports and links that are not shown here: there are too many.")

	eventsDesc    = desc("collect_events_total", "Events raised.", "metric")
	droppedDesc   = desc("output_dropped_total", "Events, and values of snapshots, for which an output's queue had no room.", "output", "kind")
	writtenDesc   = desc("output_written_total", "Events and values that an output has written.", "output")
	givenUpDesc   = desc("output_given_up_total", "Events and values that were refused, or left at the end.", "output")
	retriesDesc   = desc("output_retries_total", "Attempts of an output after one that had failed.", "output")
	listenersDesc = desc("http_listeners", "Listeners of /events.")
	cutDesc       = desc("http_listeners_cut_total", "Listeners of /events that were cut off for being slow.")
	deniedDesc    = desc("http_listeners_denied_total", "Listeners of /events that found no place.")
)

// counter is one of the collector's.
type counter struct {
	name, help string
	kind       prometheus.ValueType
	of         func(*collect.Info) uint64
}

var counters = []counter{
	{"collect_datagrams_total", "Datagrams, or packets of a capture file, that were looked at.", prometheus.CounterValue, func(i *collect.Info) uint64 { return i.Counts.Packets }},
	{"collect_rejected_total", "Datagrams that hold no report.", prometheus.CounterValue, func(i *collect.Info) uint64 { return i.Counts.Rejected }},
	{"collect_reports_total", "Reports.", prometheus.CounterValue, func(i *collect.Info) uint64 { return i.Counts.Reports }},
	{"collect_anomalous_total", "Datagrams with an anomaly.", prometheus.CounterValue, func(i *collect.Info) uint64 { return i.Counts.Anomalous }},
	{"collect_no_packet_total", "Reports that were to be kept, and quote no packet.", prometheus.CounterValue, func(i *collect.Info) uint64 { return i.Counts.NoPacket }},
	{"collect_records_total", "Records made of what is kept.", prometheus.CounterValue, func(i *collect.Info) uint64 { return i.Counts.Records }},
	{"collect_unordered_total", "Packets of which the order of the nodes is not known.", prometheus.CounterValue, func(i *collect.Info) uint64 { return i.Counts.Unordered }},
	{"collect_joined_total", "Postcards joined to a story of radar's own.", prometheus.CounterValue, func(i *collect.Info) uint64 { return i.Counts.Joins.Joined }},
	{"collect_join_stale_total", "Postcards whose quote has a number of another time.", prometheus.CounterValue, func(i *collect.Info) uint64 { return i.Counts.Joins.Stale }},
	{"collect_join_foreign_total", "Postcards whose quote has another packet's number.", prometheus.CounterValue, func(i *collect.Info) uint64 { return i.Counts.Joins.Foreign }},
	{"collect_join_unproven_total", "Postcards that quote too little to be joined.", prometheus.CounterValue, func(i *collect.Info) uint64 { return i.Counts.Joins.Unproven }},
	{"collect_join_off_path_total", "Postcards of nodes that the packet did not pass.", prometheus.CounterValue, func(i *collect.Info) uint64 { return i.Counts.Joins.OffPath }},
	{"collect_join_ambiguous_total", "Postcards of nodes that the packet passed more than once.", prometheus.CounterValue, func(i *collect.Info) uint64 { return i.Counts.Joins.Ambiguous }},
	{"collect_join_repeated_total", "Postcards of nodes that had sent one of the packet.", prometheus.CounterValue, func(i *collect.Info) uint64 { return i.Counts.Joins.Repeated }},
	{"collect_join_forgotten_total", "Postcards whose packet the ring has forgotten.", prometheus.CounterValue, func(i *collect.Info) uint64 { return i.Counts.Joins.Forgotten }},
	{"collect_unmatched_postcards_total", "Postcards of packets of which no other node sent one.", prometheus.CounterValue, func(i *collect.Info) uint64 { return i.Counts.UnmatchedPostcards }},
	{"collect_unchanged_total", "Reports without an event.", prometheus.CounterValue, func(i *collect.Info) uint64 { return i.Metrics.Unchanged }},
	{"collect_no_node_total", "Hops without a node id.", prometheus.CounterValue, func(i *collect.Info) uint64 { return i.Metrics.NoNode }},
	{"collect_table_full_total", "Values whose table was full.", prometheus.CounterValue, func(i *collect.Info) uint64 { return i.Metrics.Full }},
	{"collect_replaced_total", "Nodes of a flow that went for others: a flow has room for 64.", prometheus.CounterValue, func(i *collect.Info) uint64 { return i.Metrics.Replaced }},
	{"collect_aged_total", "Keys that nobody reported for long.", prometheus.CounterValue, func(i *collect.Info) uint64 { return i.Metrics.Aged }},
	{"collect_socket_drops_total", "Datagrams that were dropped because the socket buffer was full.", prometheus.CounterValue, func(i *collect.Info) uint64 { return i.SocketDrops }},
	{"collect_sources_forgotten_total", "Sources whose numbers are no longer followed: there were too many.", prometheus.CounterValue, func(i *collect.Info) uint64 { return i.Forgotten }},
	{"collect_not_kept_total", "Datagrams that were to be kept when the disk was full.", prometheus.CounterValue, func(i *collect.Info) uint64 { return i.NotKept }},
	{"collect_unsaved_total", "Writes to the state directory that failed, the disk being full.", prometheus.CounterValue, func(i *collect.Info) uint64 { return i.Unsaved }},
	{"collect_values_left_out", "Values for which the state directory has no room (‹keep-metrics›).", prometheus.GaugeValue, func(i *collect.Info) uint64 { return i.LeftOut }},
	{"collect_refused_total", "Datagrams of sources that are not heard (‹allow›).", prometheus.CounterValue, func(i *collect.Info) uint64 { return i.Refused }},
	{"collect_clock_faults_total", "Times between nodes that share a clock that cannot be: less than none, or more than a minute.", prometheus.CounterValue, func(i *collect.Info) uint64 { return i.Counts.ClockFaults }},
	{"collect_untimed_total", "Reports without a time, where theirs was asked for (‹event-time› report).", prometheus.CounterValue, func(i *collect.Info) uint64 { return i.Counts.Untimed }},
	{"collect_skewed_total", "Reports whose time was further than ‹max-skew› from when they came.", prometheus.CounterValue, func(i *collect.Info) uint64 { return i.Counts.Skewed }},
	{"collect_bugs_total", "Datagrams at which radar itself failed, and which it passed over.", prometheus.CounterValue, func(i *collect.Info) uint64 { return i.Bugs }},
	// A report that comes late leaves the gap that it was in.
	{"collect_gaps", "Reports that sources have numbered and that did not come.", prometheus.GaugeValue, func(i *collect.Info) uint64 { return i.Gaps }},
}

// Describe implements prometheus.Collector.
func (x *exposition) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		occupancyDesc, congestedDesc, utilizationDesc, linkDesc, leftOutDesc, eventsDesc, droppedDesc, writtenDesc, givenUpDesc, retriesDesc,
		listenersDesc, cutDesc, deniedDesc,
	} {
		ch <- d
	}
	for _, d := range x.counters {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (x *exposition) Collect(ch chan<- prometheus.Metric) {
	send := func(d *prometheus.Desc, kind prometheus.ValueType, n uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, kind, float64(n), labels...)
	}
	info := x.reports.source.Info()
	for i := range counters {
		send(x.counters[i], counters[i].kind, counters[i].of(&info))
	}
	for m, n := range info.Metrics.Events {
		send(eventsDesc, prometheus.CounterValue, n, metrics.Metric(m).String())
	}
	x.reports.fanout.Each(func(name string, n *sink.Tally) {
		send(droppedDesc, prometheus.CounterValue, n.DroppedEvents.Load(), name, "event")
		send(droppedDesc, prometheus.CounterValue, n.DroppedValues.Load(), name, "value")
		send(writtenDesc, prometheus.CounterValue, n.Written.Load(), name)
		send(givenUpDesc, prometheus.CounterValue, n.GivenUp.Load(), name)
		send(retriesDesc, prometheus.CounterValue, n.Retries.Load(), name)
	})
	now, cut, denied := x.reports.hub.Counts()
	send(listenersDesc, prometheus.GaugeValue, uint64(now))
	send(cutDesc, prometheus.CounterValue, cut)
	send(deniedDesc, prometheus.CounterValue, denied)
	x.gauges(ch)
}

// gauges are the latest values of queues, ports and links.
func (x *exposition) gauges(ch chan<- prometheus.Metric) {
	of := map[metrics.Metric]*prometheus.Desc{
		metrics.QueueOccupancy: occupancyDesc, metrics.QueueCongestion: congestedDesc, metrics.LinkUtilization: utilizationDesc,
		metrics.LinkLatency: linkDesc,
	}
	var shown [metrics.NumMetrics]int
	var leftOut uint64
	rows, _ := x.reports.values()
	for i := range rows {
		r := &rows[i]
		d := of[r.Metric]
		if d == nil {
			continue
		}
		if shown[r.Metric]++; shown[r.Metric] > mostSeries {
			leftOut++
			continue
		}
		labels := []string{x.reports.namer(r.Node), decimal(r.Node), "", ""}
		if r.Port != metrics.NoPort {
			labels[2] = decimal(r.Port)
		}
		value := float64(r.Value)
		switch r.Metric {
		case metrics.LinkUtilization:
			labels = labels[:len(atPort)]
		case metrics.LinkLatency:
			labels = append(labels[:len(atPort)], x.reports.namer(r.To), decimal(r.To))
			value /= 1e9
		default:
			labels[3] = decimal(r.Queue)
		}
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	ch <- prometheus.MustNewConstMetric(leftOutDesc, prometheus.GaugeValue, float64(leftOut))
}
