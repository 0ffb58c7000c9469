-- SPDX-License-Identifier: Apache-2.0
-- The fields that a comment becomes: its key in JSON (those of "loss" behind a dot), the field, its type and its label.
-- Types: text; count, a number of 32 bits; ns, a time in nanoseconds; yes, which is there if it is true.

return {
	{ "id", "radar.id", "text", "Packet" },
	{ "guid", "radar.guid", "text", "GUID" },
	{ "host", "radar.host", "text", "Host" },
	{ "hop", "radar.hop", "count", "Hop" },
	{ "node", "radar.node", "text", "Node" },
	{ "port", "radar.port", "text", "Port" },
	{ "direction", "radar.direction", "text", "Direction" },
	{ "state", "radar.state", "text", "State" },
	{ "segs", "radar.segs", "count", "Packets on the wire" },
	{ "latency_ns", "radar.latency", "ns", "Latency from first to last node" },
	{ "link_ns", "radar.link", "ns", "Time on the link to here" },
	{ "node_ns", "radar.inside", "ns", "Time inside the node" },
	{ "queue_ns", "radar.queue", "ns", "Wait in the queue of this port" },
	{ "loss.node", "radar.loss.node", "text", "Lost at node" },
	{ "loss.port", "radar.loss.port", "text", "Lost at port" },
	{ "loss.at", "radar.loss.at", "text", "Lost at" },
	{ "loss.reason", "radar.loss.reason", "text", "Reason" },
	{ "loss.qdisc", "radar.loss.qdisc", "text", "Queueing discipline" },
	{ "loss.function", "radar.loss.function", "text", "Freed by" },
	{ "loss.at_ns", "radar.loss.time", "ns", "Lost after" },
	{ "loss.after_delivery", "radar.loss.after_delivery", "yes", "Freed after delivery" },
	{ "inner", "radar.inner", "text", "Packet inside" },
	{ "truncated", "radar.truncated", "yes", "Hops may be missing" },
	{ "assumed", "radar.assumed", "text", "Not known, and assumed" },
}
