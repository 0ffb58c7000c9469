// SPDX-License-Identifier: Apache-2.0

package query

import "strings"

// View is a table that queries ask.
type View struct {
	Name    string
	About   string
	Columns []Field
	from    string // behind SELECT columns
}

// Field is a column of a View.
type Field struct {
	Name  string
	Type  string
	Unit  string
	About string
	sql   string // "": the name
}

// What all views of packets have.
var ofPacket = []Field{
	{"t", "TIMESTAMP_NS", "UTC", "first stamp", ""},
	{"t_ns", "BIGINT", "ns since 1970", "the same", "epoch_ns(t)"},
	{"id", "VARCHAR", "", "the packet's name", "CASE WHEN id IS NULL THEN format('{:08x}-{:x}', epoch, pos) ELSE id END"},
	{"source", "VARCHAR", "", "`ebpf` or `int`", ""},
	{"host", "VARCHAR", "", "machine that measured it", ""},
	{"state", "VARCHAR", "", "what became of it", ""},
	{"ip_version", "UTINYINT", "", "4 or 6", ""},
	{"proto", "VARCHAR", "", "protocol", ""},
	{"src", "VARCHAR", "", "source address, as the source saw it", ""},
	{"dst", "VARCHAR", "", "destination address, as the source saw it", ""},
	{"sport", "USMALLINT", "", "source port", ""},
	{"dport", "USMALLINT", "", "destination port", ""},
	{"flow_id", "UBIGINT", "", "number of the flow, the same for its packets in one version of radar", flowID},
	{"len", "UINTEGER", "bytes", "IP bytes of all segments", ""},
	{"segs", "UINTEGER", "packets", "packets on the wire", ""},
	{"path_id", "BIGINT", "", "number of the path with its ports", ""},
	{"path", "VARCHAR", "", "nodes visited", ""},
}

// flowID is made of what makes a flow.
const flowID = "CASE WHEN src IS NULL THEN NULL ELSE hash(src, dst, proto, sport, dport, icmp_type, icmp_id, later_fragment) END"

// Files before schema 1.3 have the times of lost packets in latency_ns.
const (
	isLost      = "(state = 'lost' OR coalesce(missing, false))"
	latencyNs   = "CASE WHEN NOT " + isLost + " THEN latency_ns END"
	lostAfterNs = "CASE WHEN lost_after_ns IS NOT NULL THEN lost_after_ns WHEN " + isLost + " THEN latency_ns END"
)

// truthOf is a column that is true or absent in files.
func truthOf(name, about string) Field {
	return Field{name, "BOOLEAN", "", about, "coalesce(" + name + ", false)"}
}

// wordOf is a column of texts that is empty in files where nothing is known.
func wordOf(name, about string) Field {
	return Field{name, "VARCHAR", "", about, "nullif(" + name + ", '')"}
}

func number(name, kind, unit, about string) Field { return Field{name, kind, unit, about, ""} }

func with(fields ...[]Field) (all []Field) {
	for _, f := range fields {
		all = append(all, f...)
	}
	return all
}

// Views are all there are.
var Views = []View{
	{"packets", "packets, each once", with(ofPacket, packetFields), "radar_packets()"},
	{"hops", "nodes that packets visited: a row for each packet and hop", with(ofPacket, hopFields), "radar_hops()"},
	{"losses", "lost copies of packets, and what was dropped after delivery", with(ofPacket, lossFields), lossRows},
	{"flows", "flows, and what became of their packets", flowFields, flowRows},
	{"paths", "paths that packets took", pathFields, pathRows},
	{"reports", "what nodes said by INT: a row for each packet, hop and value", with(ofPacket, reportFields), "radar_int()"},
	{"events", "what happened beside packets", eventFields, "radar_events()"},
}

var packetFields = []Field{
	{"latency_ns", "BIGINT", "ns", "from the first to the last stamp; not of lost packets", latencyNs},
	{"lost_after_ns", "BIGINT", "ns", "the same of lost packets: to where they were seen last", lostAfterNs},
	number("flow_label", "UINTEGER", "", "flow label of IPv6"),
	number("icmp_type", "UTINYINT", "", "ICMP type"),
	number("icmp_code", "UTINYINT", "", "ICMP code"),
	number("icmp_id", "USMALLINT", "", "identifier of an echo"),
	number("icmp_seq", "USMALLINT", "", "sequence number of an echo"),
	number("tcp_seq", "UINTEGER", "", "TCP sequence number"),
	number("tcp_ack", "UINTEGER", "", "TCP acknowledgement number"),
	number("tcp_flags", "USMALLINT", "", "TCP flags"),
	number("tcp_window", "USMALLINT", "", "TCP window before scaling"),
	number("tcp_payload", "UINTEGER", "bytes", "what TCP carries"),
	number("ttl", "UTINYINT", "", "TTL or hop limit"),
	number("dscp", "UTINYINT", "", "DSCP"),
	number("ecn", "UTINYINT", "", "ECN"),
	number("ip_id", "USMALLINT", "", "IP ID"),
	number("ttl_sent", "UTINYINT", "", "TTL as sent last, where it differs"),
	number("dscp_sent", "UTINYINT", "", "DSCP as sent last, where it differs"),
	number("ecn_sent", "UTINYINT", "", "ECN as sent last, where it differs"),
	number("frag_off", "USMALLINT", "bytes", "fragment offset"),
	number("frag_id", "UINTEGER", "", "identification of IPv6's fragment header"),
	truthOf("later_fragment", "a fragment but the first"),
	{"guid", "VARCHAR", "", "what identified it in the header", "CASE WHEN guid IS NOT NULL THEN guid WHEN source = 'ebpf' AND slots > 0 THEN format('0x{:x}', pos % slots) END"},
	{"inner", "VARCHAR", "", "`id` of the packet inside", "CASE WHEN \"inner\" IS NOT NULL THEN \"inner\" WHEN inner_pos IS NOT NULL THEN format('{:08x}-{:x}', epoch, inner_pos) END"},
	{"lost", "BOOLEAN", "", "it was lost", "state = 'lost'"},
	truthOf("local_drop", "it was dropped after delivery"),
	number("loss_node", "VARCHAR", "", "node where it was lost, not seen again, or freed"),
	wordOf("loss_port", "interface concerned"),
	{"loss_at", "VARCHAR", "", "`ingress`, `node`, `egress`, `queue`, `link`", "CASE loss_at WHEN '' THEN 'node' ELSE loss_at END"},
	wordOf("loss_reason", "reason of the kernel, or `NOT_SEEN`"),
	wordOf("loss_qdisc", "queueing discipline"),
	wordOf("loss_function", "function that freed it"),
	number("loss_at_ns", "BIGINT", "ns since the start", "when"),
	truthOf("truncated", "the history is incomplete"),
	truthOf("address_moved", "an address moved as it expired"),
	truthOf("tree", "there are copies"),
	number("epoch", "BIGINT", "", "first part of `id`"),
	number("pos", "UBIGINT", "", "second part of `id`"),
}

var hopFields = []Field{
	number("hop", "INTEGER", "", "index of the hop, from 0"),
	number("node", "VARCHAR", "", "name of the node"),
	number("in_port", "VARCHAR", "", "interface it came in by"),
	number("port", "VARCHAR", "", "interface it went out by"),
	number("link_ns", "BIGINT", "ns", "on the link to this node"),
	number("node_ns", "BIGINT", "ns", "inside the node"),
	number("queue_ns", "BIGINT", "ns", "in the queue of `port`"),
	truthOf("queue_unseen", "it waited in that queue, and nothing saw it leave: the next `link_ns` holds the wait"),
	number("latency_ns", "BIGINT", "ns", "from egress to egress (slow)"),
	number("at_ns", "BIGINT", "ns since the start", "when it went out, at the end when it came in (slow)"),
	number("role", "VARCHAR", "", "`source`, `transit`, `sink` (slow)"),
	number("node_id", "INTEGER", "", "number of the node (slow)"),
	number("prev", "INTEGER", "", "hop that it came from, where that is not the one before"),
	truthOf("copy", "another copy of what came in"),
	truthOf("gap", "hops before this one may be missing"),
	number("outcome", "VARCHAR", "", "how the branch ended that ends here"),
	number("nat_src", "VARCHAR", "", "source address that it left with, where the node changed it"),
	number("nat_dst", "VARCHAR", "", "destination address, the same"),
	number("nat_sport", "USMALLINT", "", "source port, the same"),
	number("nat_dport", "USMALLINT", "", "destination port, the same"),
}

var lossFields = []Field{
	number("hop", "INTEGER", "", "index of the hop where the copy was seen last; of copies"),
	number("node", "VARCHAR", "", "node where it happened"),
	number("port", "VARCHAR", "", "interface concerned"),
	number("at", "VARCHAR", "", "`ingress`, `node`, `egress`, `queue`, `link`"),
	number("reason", "VARCHAR", "", "reason of the kernel, or `NOT_SEEN`"),
	number("qdisc", "VARCHAR", "", "queueing discipline"),
	number("function", "VARCHAR", "", "kernel function that freed it"),
	number("at_ns", "BIGINT", "ns since the start", "when"),
	number("skbs", "INTEGER", "skbs", "1: the first packet of an skb, what tc and nft count; else 0"),
	number("after_delivery", "BOOLEAN", "", "it was dropped after delivery: that is no loss"),
}

// lossRows are the packets' own losses, and those of copies.
const lossRows = `(SELECT * REPLACE (coalesce(nullif("at", ''), 'node') AS "at", nullif(port, '') AS port, nullif(reason, '') AS reason, nullif(qdisc, '') AS qdisc,
		nullif("function", '') AS "function") FROM (
	SELECT * EXCLUDE (loss_at, branches), loss_at AS "at", NULL::INTEGER AS hop, coalesce(loss_node, '?') AS node, loss_port AS port, loss_reason AS reason, loss_qdisc AS qdisc,
		loss_function AS "function", loss_at_ns AS at_ns, coalesce(loss_first, false)::INTEGER AS skbs, coalesce(local_drop, false) AS after_delivery
	FROM radar_lost() WHERE state = 'lost' AND branches = 0 OR missing OR local_drop
	UNION ALL BY NAME SELECT * FROM radar_losses()))`

var flowFields = []Field{
	{"flow_id", "UBIGINT", "", "number of the flow", ""},
	{"proto", "VARCHAR", "", "protocol", ""},
	{"src", "VARCHAR", "", "source address", ""},
	{"dst", "VARCHAR", "", "destination address", ""},
	{"sport", "USMALLINT", "", "source port", ""},
	{"dport", "USMALLINT", "", "destination port", ""},
	{"icmp_type", "UTINYINT", "", "ICMP type", ""},
	{"icmp_id", "USMALLINT", "", "identifier of an echo", ""},
	{"fragments", "BOOLEAN", "", "later fragments, which show no ports", ""},
	{"packets", "BIGINT", "packets", "on the wire, that have ended", ""},
	{"bytes", "BIGINT", "bytes", "IP bytes", ""},
	{"delivered", "BIGINT", "packets", "how they ended", ""},
	{"left", "BIGINT", "packets", "the same", "\"left\""},
	{"lost", "BIGINT", "packets", "the same", ""},
	{"expired", "BIGINT", "packets", "the same", ""},
	{"ignored", "BIGINT", "packets", "the same", ""},
	{"first_ns", "BIGINT", "ns since 1970", "first stamp of the first packet", ""},
	{"last_ns", "BIGINT", "ns since 1970", "last stamp of the last packet", ""},
	{"duration_ns", "BIGINT", "ns", "the one less the other", "last_ns - first_ns"},
	{"rate_bps", "BIGINT", "bits/s", "bytes over the duration", "CASE WHEN last_ns > first_ns AND packets > 1 THEN round(bytes * 8e9 / (last_ns - first_ns))::BIGINT END"},
	{"latency_min_ns", "BIGINT", "ns", "least time from end to end", ""},
	{"latency_p50_ns", "BIGINT", "ns", "median; a train counts once", ""},
	{"latency_p99_ns", "BIGINT", "ns", "99th percentile, the same", ""},
	{"latency_max_ns", "BIGINT", "ns", "greatest", ""},
	{"paths", "BIGINT", "", "paths that it took", ""},
}

// packetCounts are packets, of which those that do not differ in what is asked for are counted as one row: k packets of b bytes.
const packetCounts = `(SELECT * EXCLUDE (packets, bytes) REPLACE (coalesce(later_fragment, false) AS later_fragment), epoch_ns(t) AS t_ns, ` + flowID + ` AS flow_id,
	packets AS k, bytes AS b FROM radar_packet_counts())`

// ended are the sums of packets that have ended.
const ended = `sum(k)::BIGINT AS packets, sum(b)::BIGINT AS bytes,
	coalesce(sum(k) FILTER (state = 'delivered'), 0)::BIGINT AS delivered, coalesce(sum(k) FILTER (state = 'left'), 0)::BIGINT AS "left",
	coalesce(sum(k) FILTER (state = 'lost'), 0)::BIGINT AS lost, coalesce(sum(k) FILTER (state = 'expired'), 0)::BIGINT AS expired,
	coalesce(sum(k) FILTER (state = 'ignored'), 0)::BIGINT AS ignored,
	min(latency_ns) FILTER (state IN ('delivered', 'left')) AS latency_min_ns, quantile_disc(latency_ns, 0.5) FILTER (state IN ('delivered', 'left')) AS latency_p50_ns,
	quantile_disc(latency_ns, 0.99) FILTER (state IN ('delivered', 'left')) AS latency_p99_ns, max(latency_ns) FILTER (state IN ('delivered', 'left')) AS latency_max_ns`

const flowRows = `(SELECT flow_id, any_value(proto) AS proto, any_value(src) AS src, any_value(dst) AS dst, any_value(sport) AS sport, any_value(dport) AS dport,
	any_value(icmp_type) AS icmp_type, any_value(icmp_id) AS icmp_id, any_value(later_fragment) AS fragments, ` + ended + `,
	min(t_ns) AS first_ns, max(t_ns + greatest(coalesce(latency_ns, lost_after_ns, 0), 0)) AS last_ns, count(DISTINCT path) AS paths
	FROM ` + packetCounts + ` WHERE flow_id IS NOT NULL AND state <> 'in_flight' GROUP BY flow_id)`

var pathFields = []Field{
	{"path_id", "BIGINT", "", "number of the path with its ports", ""},
	{"path", "VARCHAR", "", "nodes visited", ""},
	{"packets", "BIGINT", "packets", "on the wire, that have ended", ""},
	{"bytes", "BIGINT", "bytes", "IP bytes", ""},
	{"delivered", "BIGINT", "packets", "how they ended", ""},
	{"left", "BIGINT", "packets", "the same", "\"left\""},
	{"lost", "BIGINT", "packets", "the same", ""},
	{"expired", "BIGINT", "packets", "the same", ""},
	{"ignored", "BIGINT", "packets", "the same", ""},
	{"flows", "BIGINT", "", "flows that took it, without later fragments", ""},
	{"latency_min_ns", "BIGINT", "ns", "least time from end to end", ""},
	{"latency_p50_ns", "BIGINT", "ns", "median; a train counts once", ""},
	{"latency_p99_ns", "BIGINT", "ns", "99th percentile, the same", ""},
	{"latency_max_ns", "BIGINT", "ns", "greatest", ""},
}

const pathRows = `(SELECT path_id, any_value(path) AS path, ` + ended + `, count(DISTINCT flow_id) FILTER (NOT later_fragment) AS flows
	FROM ` + packetCounts + ` WHERE state <> 'in_flight' GROUP BY path_id)`

var reportFields = []Field{
	number("hop", "INTEGER", "", "index of the hop, from 0"),
	number("node", "VARCHAR", "", "name of the node"),
	number("name", "VARCHAR", "", "of the value, such as `queue_occ`"),
	number("value", "UBIGINT", "as sent", "what the node said"),
}

var eventFields = []Field{
	{"t", "TIMESTAMP_NS", "UTC", "when", ""},
	{"kind", "VARCHAR", "", "what happened", ""},
	{"fields", "VARCHAR", "", "more about it, as JSON", ""},
}

// Percentiles makes a macro of hops: exact percentiles of a time by place, of packets. It counts equal times first, which
// takes far less than to keep all of them, as quantile_cont does.
var Percentiles = `CREATE MACRO percentiles(place_of, ns_of) AS TABLE
	WITH times AS (SELECT place_of AS place, ns_of AS x, sum(packets) AS k FROM (SELECT ` + list(with(ofPacket, hopFields)) + `, packets FROM radar_hop_counts()) WHERE ns_of IS NOT NULL GROUP BY ALL),
		ranked AS (SELECT place, x, sum(k) OVER (PARTITION BY place ORDER BY x) AS c, sum(k) OVER (PARTITION BY place) AS n FROM times)
	SELECT place, any_value(n)::BIGINT AS count, min(x) AS min_ns, min(x) FILTER (c >= 0.5 * n) AS p50_ns, min(x) FILTER (c >= 0.9 * n) AS p90_ns,
		min(x) FILTER (c >= 0.99 * n) AS p99_ns, min(x) FILTER (c >= 0.999 * n) AS p99_9_ns, max(x) AS max_ns FROM ranked GROUP BY place`

// Definition is the statement that makes a view.
func (v *View) Definition() string {
	return "CREATE VIEW " + v.Name + " AS SELECT " + list(v.Columns) + " FROM " + v.from
}

// list are columns as SELECT has them.
func list(fields []Field) string {
	var all []string
	for _, f := range fields {
		name := `"` + f.Name + `"`
		if f.sql != "" {
			name = f.sql + " AS " + name
		}
		all = append(all, name)
	}
	return strings.Join(all, ", ")
}
