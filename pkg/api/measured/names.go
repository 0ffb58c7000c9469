// SPDX-License-Identifier: Apache-2.0

package measured

import "github.com/prometheus/client_golang/prometheus"

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("radar_"+name, help, append([]string{"domain"}, labels...), nil)
}

var place = []string{"node", "port", "at", "reason"}

// What there is, since each domain was attached.
var (
	packetsDesc     = desc("packets_total", "Packets that have ended, by outcome: delivered, left, lost, expired, ignored.", "outcome")
	bytesDesc       = desc("bytes_total", "IP bytes of packets that have ended.")
	inFlightDesc    = desc("packets_in_flight", "Packets that have not ended.")
	unreadDesc      = desc("unread_packets_total", "Packets that were overwritten before they could be read.")
	notMeasuredDesc = desc("not_measured_packets_total", "Packets that were not measured, by reason.", "reason")

	nodePacketsDesc = desc("node_packets_total", "Visits of packets at a node.", "node")
	nodeBytesDesc   = desc("node_bytes_total", "IP bytes of these.", "node")
	linkPacketsDesc = desc("link_packets_total", "Packets that came out at the end of a link.", "from", "to")
	linkBytesDesc   = desc("link_bytes_total", "IP bytes of these.", "from", "to")

	lostDesc    = desc("lost_packets_total", "Packets that were lost, by place and the kernel's reason.", place...)
	droppedDesc = desc("dropped_after_delivery_packets_total", "Packets that the receiving node dropped after delivery, by place and the kernel's reason.", place...)

	nodeLatencyDesc  = desc("node_latency_seconds", "Time inside a node, from ingress to egress.", "node")
	linkLatencyDesc  = desc("link_latency_seconds", "Time on a link, behind the sender's queue.", "from", "to")
	queueLatencyDesc = desc("queue_latency_seconds", "Time in the queue of a port, of packets that waited.", "node", "port")
	endToEndDesc     = desc("end_to_end_latency_seconds", "Time from first to last stamp, of packets that were delivered or left.")

	upDesc      = desc("agent_up", "1: the domain's agent runs.")
	cpuDesc     = desc("agent_cpu_seconds_total", "CPU time of the domain's agent.")
	memoryDesc  = desc("agent_memory_bytes", "Memory of the domain's agent that is its own.")
	runsDesc    = desc("hook_runs_total", "Runs of a hook while the kernel measured programs (kernel.bpf_stats_enabled).", "hook")
	runTimeDesc = desc("hook_run_seconds_total", "Time of these runs.", "hook")

	errorDesc   = desc("unreadable", "1: not all of the domain could be read.")
	leftOutDesc = desc("series_left_out", "Nodes, links, queues and places of losses that are not shown here: there are too many.")
)
