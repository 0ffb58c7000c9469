// SPDX-License-Identifier: Apache-2.0

//go:build cgo && !nosql

package engine

import (
	"fmt"
	"slices"

	"github.com/duckdb/duckdb-go/v2"

	"github.com/vnetradar/radar/pkg/record"
)

// kind is how a column's values are given to DuckDB.
type kind uint8

const (
	truth kind = iota
	byte8
	short
	unsigned
	signed
	long
	positive
	moment
	word
)

var kinds = map[kind]duckdb.Type{
	truth: duckdb.TYPE_BOOLEAN, byte8: duckdb.TYPE_UTINYINT, short: duckdb.TYPE_USMALLINT, unsigned: duckdb.TYPE_UINTEGER, signed: duckdb.TYPE_INTEGER,
	long: duckdb.TYPE_BIGINT, positive: duckdb.TYPE_UBIGINT, moment: duckdb.TYPE_TIMESTAMP_NS, word: duckdb.TYPE_VARCHAR,
}

// column is one of a table function.
type column struct {
	name string // in SQL
	kind kind
	list string // of the file's column; "": it has a value for each packet
	of   string // the file's column
	made made   // not of a column
	each bool   // with it, no rows are counted as one
}

// made says what a column is made of that no file has.
type made uint8

const (
	stored   made = iota
	index         // of the element in its list
	slots         // of the ring
	branches      // how many losses the copies have
	nodeOf        // the node of the hop of an element
	once          // 1 where the flag is set, else 0
	sum           // of the rows that are counted as one
	ofRecord      // of the packet's record: slow
)

func row(k kind, names ...string) (all []column) {
	for _, n := range names {
		all = append(all, column{name: n, kind: k, of: n})
	}
	return all
}

func element(list string, k kind, names ...string) (all []column) {
	for _, n := range names {
		all = append(all, column{name: n, kind: k, list: list, of: n})
	}
	return all
}

func join(lists ...[]column) (all []column) {
	for _, l := range lists {
		all = append(all, l...)
	}
	return all
}

// The table functions, each with the list that its rows are elements of.
var (
	packetColumns = join(
		row(moment, "t"), row(word, "state", "source", "host"), row(long, "epoch"), row(positive, "pos"), row(word, "id", "guid"),
		row(byte8, "ip_version"), row(word, "src", "dst", "proto"), row(short, "sport", "dport"), row(unsigned, "flow_label"),
		row(byte8, "icmp_type", "icmp_code"), row(short, "icmp_id", "icmp_seq"), row(unsigned, "tcp_seq", "tcp_ack"), row(short, "tcp_flags", "tcp_window"),
		row(unsigned, "tcp_payload", "len", "segs"), row(byte8, "ttl", "dscp", "ecn"), row(short, "ip_id"), row(byte8, "ttl_sent", "dscp_sent", "ecn_sent"),
		row(short, "frag_off"), row(unsigned, "frag_id"), row(truth, "later_fragment"), row(word, "inner"), row(positive, "inner_pos"),
		row(long, "latency_ns", "lost_after_ns", "path_id"), row(word, "path"), row(truth, "missing", "local_drop"),
		row(word, "loss_node", "loss_port", "loss_at", "loss_reason", "loss_qdisc", "loss_function"), row(long, "loss_at_ns"), row(truth, "loss_first"),
		row(truth, "truncated", "address_moved", "tree"), []column{{name: "slots", kind: long, made: slots}, {name: "branches", kind: signed, list: "losses", made: branches}},
	)
	hopColumns = join(
		without(packetColumns, "latency_ns"), element("hops", word, "node", "in_port", "port"), element("hops", long, "link_ns", "node_ns", "queue_ns"),
		element("hops", signed, "prev"), element("hops", truth, "queue_unseen", "copy", "gap"), element("hops", word, "outcome"),
		[]column{
			{name: "nat_src", kind: word, list: "hops", of: "src"}, {name: "nat_dst", kind: word, list: "hops", of: "dst"},
			{name: "nat_sport", kind: short, list: "hops", of: "sport"}, {name: "nat_dport", kind: short, list: "hops", of: "dport"},
			{name: "hop", kind: signed, list: "hops", made: index},
			{name: "latency_ns", kind: long, list: "hops", made: ofRecord}, {name: "at_ns", kind: long, list: "hops", made: ofRecord},
			{name: "node_id", kind: signed, list: "hops", made: ofRecord}, {name: "role", kind: word, list: "hops", made: ofRecord},
		},
	)
	branchColumns = join(
		without(packetColumns, "branches"), element("losses", signed, "hop"), element("losses", truth, "after_delivery"),
		element("losses", word, "node", "port", "at", "reason", "qdisc", "function"), element("losses", long, "at_ns"),
		[]column{{name: "skbs", kind: signed, list: "losses", of: "first", made: once}},
	)
	intColumns = join(
		packetColumns, element("int", signed, "hop"), element("int", word, "name"), element("int", positive, "value"),
		[]column{{name: "node", kind: word, list: "int", of: "hop", made: nodeOf}},
	)
)

// counted are columns of a table function whose rows stand for all packets, or elements, with the same values of the
// columns that are asked for.
func counted(all []column, each ...string) []column {
	all = join(all, []column{{name: "packets", kind: long, of: "segs", made: sum}, {name: "bytes", kind: long, of: "len", made: sum}})
	for i := range all {
		all[i].each = slices.Contains(each, all[i].name)
	}
	return all
}

// without leaves out a column.
func without(all []column, name string) (rest []column) {
	for _, c := range all {
		if c.name != name {
			rest = append(rest, c)
		}
	}
	return rest
}

// info are the columns as DuckDB is told of them.
func info(columns []column) (all []duckdb.ColumnInfo, err error) {
	for _, c := range columns {
		t, err := duckdb.NewTypeInfo(kinds[c.kind])
		if err != nil {
			return nil, fmt.Errorf("column %s: %w", c.name, err)
		}
		all = append(all, duckdb.ColumnInfo{Name: c.name, T: t})
	}
	return all, nil
}

// roles are the values of a hop's role.
var roles = []string{string(record.Source), string(record.Transit), string(record.Sink)}
