// SPDX-License-Identifier: Apache-2.0

package segments

import "github.com/vnetradar/radar/pkg/store/parquet"

// Version of the schema. A reader takes every file of its major version; columns and metadata are
// only added within one.
const (
	versionMajor = 1
	versionMinor = 3
)

// Where a column's values come from.
type origin uint8

const (
	ofRow   origin = iota // a value for each row
	ofClass               // one for all rows with the same header
	ofPath                // one for all rows with the same path
	ofHop                 // one for each hop
	onPath                // one for each hop of a path
	rare                  // of few rows
	rareHop               // of few hops
	ofLoss                // of a list that few rows have
	ofINT
)

// column is one of a file of packets.
type column struct {
	parquet.Column
	from origin
}

const (
	hops   = "hops"
	losses = "losses"
	ints   = "int"
)

// The columns of packets, in the order of the file. docs/records.md says what they mean.
const (
	colT = iota
	colState
	colSource
	colHost
	colEpoch
	colPos
	colID
	colGUID
	colIPVersion
	colSrc
	colDst
	colProto
	colSport
	colDport
	colFlowLabel
	colICMPType
	colICMPCode
	colICMPID
	colICMPSeq
	colTCPSeq
	colTCPAck
	colTCPFlags
	colTCPWindow
	colTCPPayload
	colLen
	colSegs
	colTTL
	colDSCP
	colECN
	colIPID
	colTTLSent
	colDSCPSent
	colECNSent
	colFragOff
	colFragID
	colFragBits
	colLater
	colCut
	colInner
	colInnerPos
	colLatency
	colLast
	colLostAfter
	colPathID
	colPath
	colPlaces
	colLost
	colMissing
	colLocalDrop
	colLossNode
	colLossPort
	colLossAt
	colLossReason
	colLossQdisc
	colLossFunction
	colLossAtNs
	colLossFirst
	colLossNodeID
	colLossPortID
	colLossHop
	colTruncated
	colMoved
	colTree
	colApart
	colUndated
	colOpen
	colStamps
	colLinks

	colHopNode
	colHopInPort
	colHopPort
	colHopLink
	colHopHere
	colHopQueue
	colHopPrev
	colHopCopy
	colHopGap
	colHopOutcome
	colHopSrc
	colHopDst
	colHopSport
	colHopDport
	colHopMoved
	colHopUnread
	colHopQueueUnseen
	colHopInNs
	colHopOutNs
	colHopDequeueNs

	colBranchHop
	colBranchLocal
	colBranchNode
	colBranchPort
	colBranchAt
	colBranchReason
	colBranchQdisc
	colBranchFunction
	colBranchAtNs
	colBranchFirst
	colBranchNodeID
	colBranchPortID

	colINTHop
	colINTName
	colINTValue

	numColumns
)

// Kinds of columns, to write the table below in short.
func text(name string) parquet.Column {
	return parquet.Column{Name: name, Type: parquet.Text, Logical: parquet.UTF8}
}

func number(name string, l parquet.Logical) parquet.Column {
	return parquet.Column{Name: name, Type: parquet.Int, Logical: l, Encoding: parquet.Delta}
}

func long(name string, l parquet.Logical, e parquet.Encoding) parquet.Column {
	return parquet.Column{Name: name, Type: parquet.Long, Logical: l, Encoding: e}
}

func boolean(name string) parquet.Column {
	return parquet.Column{Name: name, Type: parquet.Bool, Optional: true}
}

func opt(c parquet.Column) parquet.Column {
	c.Optional = true
	return c
}

func in(list string, c parquet.Column) parquet.Column {
	c.List = list
	return c
}

// columns are those of packets.
var columns = [numColumns]column{
	colT:            {long("t", parquet.Timestamp, parquet.Delta), ofRow},
	colState:        {text("state"), ofRow},
	colSource:       {text("source"), ofClass},
	colHost:         {text("host"), ofClass},
	colEpoch:        {long("epoch", parquet.None, parquet.Delta), ofClass},
	colPos:          {long("pos", parquet.Uint64, parquet.Delta), ofRow},
	colID:           {opt(text("id")), rare},
	colGUID:         {opt(text("guid")), rare},
	colIPVersion:    {number("ip_version", parquet.Uint8), ofClass},
	colSrc:          {opt(text("src")), ofClass},
	colDst:          {opt(text("dst")), ofClass},
	colProto:        {text("proto"), ofClass},
	colSport:        {opt(number("sport", parquet.Uint16)), ofClass},
	colDport:        {opt(number("dport", parquet.Uint16)), ofClass},
	colFlowLabel:    {opt(number("flow_label", parquet.Uint32)), ofClass},
	colICMPType:     {opt(number("icmp_type", parquet.Uint8)), ofClass},
	colICMPCode:     {opt(number("icmp_code", parquet.Uint8)), ofClass},
	colICMPID:       {opt(number("icmp_id", parquet.Uint16)), rare},
	colICMPSeq:      {opt(number("icmp_seq", parquet.Uint16)), rare},
	colTCPSeq:       {opt(number("tcp_seq", parquet.Uint32)), ofRow},
	colTCPAck:       {opt(number("tcp_ack", parquet.Uint32)), ofRow},
	colTCPFlags:     {opt(number("tcp_flags", parquet.Uint16)), ofRow},
	colTCPWindow:    {opt(number("tcp_window", parquet.Uint16)), ofRow},
	colTCPPayload:   {opt(number("tcp_payload", parquet.Uint32)), ofRow},
	colLen:          {number("len", parquet.Uint32), ofRow},
	colSegs:         {number("segs", parquet.Uint32), ofRow},
	colTTL:          {opt(number("ttl", parquet.Uint8)), ofClass},
	colDSCP:         {opt(number("dscp", parquet.Uint8)), ofClass},
	colECN:          {opt(number("ecn", parquet.Uint8)), ofClass},
	colIPID:         {opt(number("ip_id", parquet.Uint16)), ofRow},
	colTTLSent:      {opt(number("ttl_sent", parquet.Uint8)), ofClass},
	colDSCPSent:     {opt(number("dscp_sent", parquet.Uint8)), ofClass},
	colECNSent:      {opt(number("ecn_sent", parquet.Uint8)), ofClass},
	colFragOff:      {opt(number("frag_off", parquet.Uint16)), ofClass},
	colFragID:       {opt(number("frag_id", parquet.Uint32)), rare},
	colFragBits:     {number("frag_bits", parquet.Uint16), ofClass},
	colLater:        {boolean("later_fragment"), ofClass},
	colCut:          {opt(number("cut", parquet.Uint8)), ofClass},
	colInner:        {opt(text("inner")), rare},
	colInnerPos:     {opt(long("inner_pos", parquet.Uint64, parquet.Delta)), rare},
	colLatency:      {opt(long("latency_ns", parquet.None, parquet.Split)), ofRow},
	colLast:         {opt(long("last_ns", parquet.None, parquet.Split)), rare},
	colLostAfter:    {opt(long("lost_after_ns", parquet.None, parquet.Split)), rare},
	colPathID:       {long("path_id", parquet.None, parquet.Delta), ofPath},
	colPath:         {text("path"), ofPath},
	colPlaces:       {text("places"), ofPath},
	colLost:         {boolean("lost"), rare},
	colMissing:      {boolean("missing"), rare},
	colLocalDrop:    {boolean("local_drop"), rare},
	colLossNode:     {opt(text("loss_node")), rare},
	colLossPort:     {opt(text("loss_port")), rare},
	colLossAt:       {opt(text("loss_at")), rare},
	colLossReason:   {opt(text("loss_reason")), rare},
	colLossQdisc:    {opt(text("loss_qdisc")), rare},
	colLossFunction: {opt(text("loss_function")), rare},
	colLossAtNs:     {opt(long("loss_at_ns", parquet.None, parquet.Split)), rare},
	colLossFirst:    {boolean("loss_first"), rare},
	colLossNodeID:   {opt(number("loss_node_id", parquet.Uint16)), rare},
	colLossPortID:   {opt(number("loss_port_id", parquet.Uint16)), rare},
	colLossHop:      {opt(number("loss_hop", parquet.None)), rare},
	colTruncated:    {boolean("truncated"), rare},
	colMoved:        {boolean("address_moved"), rare},
	colTree:         {boolean("tree"), rare},
	colApart:        {boolean("apart"), rare},
	colUndated:      {boolean("undated"), rare},
	colOpen:         {boolean("open"), rare},
	colStamps:       {boolean("stamps"), rare},
	colLinks:        {boolean("links"), rare},

	colHopNode:        {in(hops, text("node")), onPath},
	colHopInPort:      {in(hops, opt(text("in_port"))), onPath},
	colHopPort:        {in(hops, opt(text("port"))), onPath},
	colHopLink:        {in(hops, opt(long("link_ns", parquet.None, parquet.Split))), ofHop},
	colHopHere:        {in(hops, opt(long("node_ns", parquet.None, parquet.Split))), ofHop},
	colHopQueue:       {in(hops, opt(long("queue_ns", parquet.None, parquet.Split))), ofHop},
	colHopPrev:        {in(hops, opt(number("prev", parquet.None))), rareHop},
	colHopCopy:        {in(hops, boolean("copy")), rareHop},
	colHopGap:         {in(hops, boolean("gap")), rareHop},
	colHopOutcome:     {in(hops, opt(text("outcome"))), rareHop},
	colHopSrc:         {in(hops, opt(text("src"))), rareHop},
	colHopDst:         {in(hops, opt(text("dst"))), rareHop},
	colHopSport:       {in(hops, opt(number("sport", parquet.Uint16))), rareHop},
	colHopDport:       {in(hops, opt(number("dport", parquet.Uint16))), rareHop},
	colHopMoved:       {in(hops, boolean("address_moved")), rareHop},
	colHopUnread:      {in(hops, boolean("unread")), rareHop},
	colHopQueueUnseen: {in(hops, boolean("queue_unseen")), rareHop},
	colHopInNs:        {in(hops, opt(long("in_ns", parquet.None, parquet.Split))), rareHop},
	colHopOutNs:       {in(hops, opt(long("out_ns", parquet.None, parquet.Split))), rareHop},
	colHopDequeueNs:   {in(hops, opt(long("dequeue_ns", parquet.None, parquet.Split))), rareHop},

	colBranchHop:      {in(losses, number("hop", parquet.None)), ofLoss},
	colBranchLocal:    {in(losses, boolean("after_delivery")), ofLoss},
	colBranchNode:     {in(losses, text("node")), ofLoss},
	colBranchPort:     {in(losses, text("port")), ofLoss},
	colBranchAt:       {in(losses, text("at")), ofLoss},
	colBranchReason:   {in(losses, text("reason")), ofLoss},
	colBranchQdisc:    {in(losses, text("qdisc")), ofLoss},
	colBranchFunction: {in(losses, text("function")), ofLoss},
	colBranchAtNs:     {in(losses, opt(long("at_ns", parquet.None, parquet.Split))), ofLoss},
	colBranchFirst:    {in(losses, boolean("first")), ofLoss},
	colBranchNodeID:   {in(losses, number("node_id", parquet.Uint16)), ofLoss},
	colBranchPortID:   {in(losses, number("port_id", parquet.Uint16)), ofLoss},

	colINTHop:   {in(ints, number("hop", parquet.None)), ofINT},
	colINTName:  {in(ints, text("name")), ofINT},
	colINTValue: {in(ints, long("value", parquet.Uint64, parquet.Split)), ofINT},
}

// packetSchema is that of files of packets, eventSchema that of files of events.
var (
	packetSchema = func() (s parquet.Schema) {
		for _, c := range columns {
			s = append(s, c.Column)
		}
		return s
	}()
	eventSchema = parquet.Schema{
		long("t", parquet.Timestamp, parquet.Delta),
		text("kind"),
		{Name: "fields", Type: parquet.Text, Logical: parquet.JSON},
	}
)
