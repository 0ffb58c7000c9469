// SPDX-License-Identifier: Apache-2.0

package reported

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/telemetry/collect"
)

var (
	atQueue = []string{"node", "node_id", "port", "queue"}
	atPort  = atQueue[:3]
)

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("radar_"+name, help, append([]string{"domain"}, labels...), nil)
}

var (
	upDesc          = desc("collect_up", "1: the domain's collector runs. Of one that has ended nothing else is here.")
	unreadableDesc  = desc("collect_unreadable", "1: what the domain's collector has written cannot be read.")
	occupancyDesc   = desc("int_queue_occupancy", "Occupancy of a queue, as its node sends it: bytes, cells or packets.", atQueue...)
	congestedDesc   = desc("int_queue_congested", "1: a queue is congested.", atQueue...)
	utilizationDesc = desc("int_link_utilization", "Utilisation of an egress port, as its node sends it.", atPort...)
	linkDesc        = desc("int_link_latency_seconds", "Time from a node's egress to the next node's ingress, of sources whose nodes share a clock.", "node", "node_id", "port", "to_node", "to_node_id")
	leftOutDesc     = desc("int_series_left_out", "Queues, ports and links that are not shown here: there are too many.")

	eventsDesc  = desc("collect_events_total", "Events raised.", "metric")
	droppedDesc = desc("output_dropped_total", "Events, and values of snapshots, for which an output's queue had no room.", "output", "kind")
	writtenDesc = desc("output_written_total", "Events and values that an output has written.", "output")
	givenUpDesc = desc("output_given_up_total", "Events and values that were refused, or left at the end.", "output")
	retriesDesc = desc("output_retries_total", "Attempts of an output after one that had failed.", "output")
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
	{"collect_no_arrival_total", "Hops of which reports say when the packet left, and 0 for when it came: without a hop latency.", prometheus.CounterValue, func(i *collect.Info) uint64 { return i.Counts.NoArrival }},
	{"collect_untimed_total", "Reports without a time, where theirs was asked for (‹event-time› report).", prometheus.CounterValue, func(i *collect.Info) uint64 { return i.Counts.Untimed }},
	{"collect_skewed_total", "Reports whose time was further than ‹max-skew› from when they came.", prometheus.CounterValue, func(i *collect.Info) uint64 { return i.Counts.Skewed }},
	{"collect_bugs_total", "Datagrams at which radar itself failed, and which it passed over.", prometheus.CounterValue, func(i *collect.Info) uint64 { return i.Bugs }},
	// A report that comes late leaves the gap that it was in.
	{"collect_gaps", "Reports that sources have numbered and that did not come.", prometheus.GaugeValue, func(i *collect.Info) uint64 { return i.Gaps }},
}

// counterDescs are those of counters, for users of a face.
func counterDescs(face fault.Face) (list []*prometheus.Desc) {
	for _, c := range counters {
		list = append(list, desc(c.name, face.Render(c.help)))
	}
	return list
}
