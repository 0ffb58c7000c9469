// SPDX-License-Identifier: Apache-2.0

// Package note has what the rows of an answer do not say, as typed values: what an answer lacks, why it is empty, and what
// there is to say beside it. It prints nothing; pkg/answer/wording makes sentences of notes.
package note

import (
	"net"
	"strconv"
	"time"

	"github.com/vnetradar/radar/pkg/aggregate"
	"github.com/vnetradar/radar/pkg/answer/ends"
	"github.com/vnetradar/radar/pkg/answer/placenow"
	"github.com/vnetradar/radar/pkg/answer/replies"
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/store/segments"
	"github.com/vnetradar/radar/pkg/system/resident"
)

// Note is what the rows of an answer do not say: what the answer lacks, why it is empty, what to look at
// next. Each kind is a type of its own with the values that belong to it.
type Note interface {
	// Kind names the type, for programs.
	Kind() string
}

// Kinds has one Note of each kind, without values: whoever makes words of notes is tested against it.
var Kinds = []Note{
	Warning{},
	NoNodes{}, NoAgent{}, AgentFails{}, DiskFull{}, NotMeasured{}, EqualUnderWay{},
	NothingMeasured{}, NothingMatches{}, UnderWay{}, OtherStates{}, Forgotten{}, MayBeMissing{}, NotMeant{},
	SnapshotUnused{}, OlderMissing{}, Overwritten{}, Unread{}, Incomplete{},
	TableFull{}, NoRoom{}, Unordered{}, Inexact{}, NoLatency{}, QueueUnseen{}, MoreFlows{}, SecondsKept{}, SecondsShown{},
	NothingLost{}, StillUnderWay{}, NothingDropped{}, KernelDrops{}, AlsoDropped{}, Expired{}, MovedAddress{}, RoutingLoop{}, Unsent{}, UnsentFull{}, PortsNotUp{}, NodesSilent{}, Doubled{},
	Unanswered{}, AnswersElsewhere{}, NotTranslated{}, ErrorsLimited{}, AddressesUnusable{}, NoRouteOut{},
	SegmentDamaged{}, NotKept{}, RecordingCovers{}, RecordingUnfinished{}, RecordingWithoutEnd{},
	ReportsDamaged{}, ReportsKept{}, ReportsUnchanged{}, ReportsMissing{}, Undated{}, NoArrival{}, Unnamed{}, LastOfEach{}, NoReportMatches{},
	CannotAnswer{}, SeveralDomains{}, LastOfEachDomain{},
}

// Warning is an error that leaves the answer as it is.
type Warning struct{ Err error }

// What the domain lacks now, whatever is asked.
type (
	// NoNodes: all nodes have gone, and none will come.
	NoNodes struct{ Domain string }
	// NoAgent: nobody renews the lease or counts.
	NoAgent struct {
		Domain string
		Lease  Lease
	}
	// AgentFails: there is something that the agent cannot do.
	AgentFails struct {
		Domain  string
		Trouble resident.Trouble
	}
	// Doubled: several nodes have the same address.
	Doubled struct{ Doubles []Double }
	// DiskFull: a full disk is why the agent cannot do these.
	DiskFull struct {
		Domain   string
		Troubles []resident.Trouble
	}
	// NotMeasured: packets could not be measured, although that was wanted.
	NotMeasured struct {
		Packets uint64
		Reasons []Reason
	}
	// EqualUnderWay: some of NotMeasured were equal to packets that were under way.
	EqualUnderWay struct{ Packets uint64 }
)

// Lease is how long sources mark packets.
type Lease struct {
	Ends   bool   `json:"ends"`              // false: sources go on without an agent
	Valid  bool   `json:"valid"`             // sources mark packets
	LeftNs *int64 `json:"left_ns,omitempty"` // absent if it never ends
}

// The reasons not to measure that are a Note only where nothing matches: what the user asked for (Watch,
// IPv6), and what NoAgent explains (Leaseless).
const (
	Watch     = "watch"
	IPv6      = "ipv6"
	Leaseless = "lease"
)

// NotMeantReasons are those of NotMeant.
var NotMeantReasons = []string{Watch, IPv6, Leaseless}

// UnsentFlow is what a node dropped of one flow before it was sent.
type UnsentFlow struct {
	Proto   string
	Dst     string
	Dport   *int // nil: the protocol has none
	Packets uint64
}

// String is "udp to 10.0.1.9:53".
func (f *UnsentFlow) String() string {
	end := f.Dst
	if f.Dport != nil {
		end = net.JoinHostPort(f.Dst, strconv.Itoa(*f.Dport))
	}
	return f.Proto + " to " + end
}

// Double is an address that interfaces of several nodes have.
type Double struct {
	Address string   `json:"address"` // MAC or IP
	Ports   []string `json:"ports"`   // NODE/INTERFACE
	OneLink bool     `json:"one_link"`
}

// Reason is why packets were not measured: the end of a counter's name.
type Reason struct {
	Name    string
	Packets uint64
}

// Why nothing matches.
type (
	// NothingMeasured: the domain has measured nothing at all.
	NothingMeasured struct{ Since time.Time }
	// NothingMatches: of the packets that the domain has measured none is asked for.
	NothingMatches struct {
		Measured uint64
		Since    time.Time
	}
	// UnderWay: packets match that have not ended. Not seen for the timeout, they expire.
	UnderWay struct {
		Packets int
		Timeout time.Duration
	}
	// OtherStates: packets would match if their state did.
	OtherStates struct {
		Packets map[record.State]int
		Expired bool // expired ones were asked for: their name is what a router says of a TTL that is used up, which is a loss
	}
	// Forgotten: the ring remembers packets from this time on.
	Forgotten struct{ From time.Time }
	// MayBeMissing: records of packets are incomplete. What is asked for can be among what they lack.
	MayBeMissing struct{ Packets uint64 }
	// NotMeant: packets were not measured, as the user wanted, or for lack of an agent.
	NotMeant struct {
		Reason  string // one of NotMeantReasons
		Packets uint64
	}
)

// What reading the ring, or the counts since attach, found.
type (
	// SnapshotUnused: what was counted before could not be used.
	SnapshotUnused struct{ Why string }
	// OlderMissing: packets before this time are not in the answer.
	OlderMissing struct{ From time.Time }
	// Overwritten: packets were, while they were read.
	Overwritten struct{ Packets int }
	// Unread: up to so many packets were overwritten before they could be read.
	Unread struct{ Packets uint64 }
	// Incomplete: records lack something.
	Incomplete struct{ Packets uint64 }
)

// Table names one that can be full.
type Table string

// The tables.
const (
	Paths  Table = "paths"
	Flows  Table = "flows"
	Places Table = "places" // of losses, with their reasons
)

// What rows lack, or that there are more of them.
type (
	// TableFull: packets are of rows beyond the first Limit, which are not kept apart.
	TableFull struct {
		Table   Table
		Packets uint64
		Limit   int
	}
	// NoRoom: packets passed nodes, ports or links that are not in the table.
	NoRoom struct{ Packets uint64 }
	// Unordered: packets became known too late to be put in order.
	Unordered struct{ Packets uint64 }
	// Inexact: percentiles of flows count packets with the nearest latency that there was room for.
	Inexact struct {
		Flows   int
		Packets uint64
	}
	// QueueUnseen: packets waited in queues, and nothing saw them leave: so many times, a packet that
	// waited twice counts twice. The times of links hold these waits.
	QueueUnseen struct{ Waits uint64 }
	// NoLatency: none of so many packets has a latency of that group.
	NoLatency struct {
		By      aggregate.By
		Packets uint64
	}
	// MoreFlows: so many are not shown.
	MoreFlows struct{ Flows int }
	// SecondsKept: of so many rows only the newest seconds are kept. From this one on all have theirs.
	SecondsKept struct {
		Rows, Seconds int
		From          time.Time
	}
	// SecondsShown: seconds before this one are not shown.
	SecondsShown struct{ From time.Time }
)

// What there is to say beside losses.
type (
	// NothingLost: the kernel reported no loss of so many packets. Drops were dropped after delivery, Freed by
	// TCP itself. Expired: some expired all the same.
	NothingLost struct {
		Packets      uint64
		Expired      bool
		Drops, Freed uint64
	}
	// StillUnderWay: so many packets that were sent a while ago have not ended. Not seen for the timeout, they expire.
	StillUnderWay struct {
		Packets int
		Timeout time.Duration
	}
	// NothingDropped: none of so many packets was seen to be dropped after delivery. NodesAgree: nor do the counters
	// of the nodes themselves count more.
	NothingDropped struct {
		Packets    uint64
		NodesAgree bool
	}
	// KernelDrops: a node itself counts more drops after delivery than were seen, of all its traffic.
	KernelDrops struct{ placenow.Drops }
	// AlsoDropped: beside losses packets were dropped after delivery.
	AlsoDropped struct{ Packets uint64 }
	// Expired: packets vanished, and the kernel reported no drop. The nodes with most of them are first.
	Expired struct {
		Packets  uint64
		LastSeen []ends.Seen
		More     int // nodes beside these
	}
	// MovedAddress: packets expired that came to a node just as it got or lost their address.
	MovedAddress struct{ Packets uint64 }
	// RoutingLoop: packets were lost that went round in a circle, "r1 > r2 > r1".
	RoutingLoop struct {
		Path    string
		Packets uint64
	}
	// Unsent: a node dropped packets before they were sent.
	Unsent struct {
		Node, Reason, Function string
		Packets                uint64
		Flows                  []UnsentFlow         // most first
		Queue                  string               // of the ports, its kind; "": they have none
		NotUp                  []placenow.PortState // of the ports
		Causes                 []placenow.Cause     // as nodes say, of the flow with most packets
		Netfilter              *placenow.Netfilter  // nil: its hooks did not drop them, or the node cannot be asked
		// SinceAttach: packets of a shorter time were asked for, but only all of them are counted.
		SinceAttach bool
	}
	// PortsNotUp: these ports can neither send nor receive now.
	PortsNotUp struct{ Ports []placenow.PortState }
	// NodesSilent: what these nodes say now is not in the answer.
	NodesSilent struct{ placenow.Silent }
	// UnsentFull: the same of flows for which there was no room.
	UnsentFull struct{ Packets uint64 }
)

// What became of answers.
type (
	// Unanswered: requests of a flow were delivered to a node, and it sent no answer.
	Unanswered struct {
		replies.Unanswered
		Cause *placenow.Cause // nil: the node does not say why
	}
	// AnswersElsewhere: answers took another path than the requests, and were lost there.
	AnswersElsewhere struct{ replies.Elsewhere }
	// NotTranslated: an answer came past the translation of its connection.
	NotTranslated struct{ replies.Untranslated }
	// ErrorsLimited: a node held back ICMP errors about packets whose TTL was used up there.
	ErrorsLimited struct {
		Packets uint64 // of these
		placenow.Limited
	}
	// AddressesUnusable: nodes have these addresses, and do not use them.
	AddressesUnusable struct{ List []placenow.Cause }
	// NoRouteOut: a node's programs sent so many packets, since attach, to which it has no route.
	NoRouteOut struct{ placenow.NoRouteOut }
)

// What there is to say about a recording.
type (
	// SegmentDamaged: a file, or a part of it, cannot be read, so the answer is without it.
	SegmentDamaged struct {
		Damage segments.Damage
		Others int // that are not named
	}
	// NotKept: the recorder could not keep packets.
	NotKept struct {
		Packets uint64
		Cause   string
	}
	// RecordingCovers: none of its packets is asked for; the times are zero if it has none.
	RecordingCovers struct {
		Path        string
		First, Last time.Time
	}
	// RecordingUnfinished: something of it is not read, because it was not finished.
	RecordingUnfinished struct {
		Path string
		segments.Unfinished
	}
	// RecordingWithoutEnd: so many recorders have begun it and did not come to its end.
	RecordingWithoutEnd struct {
		Path      string
		Recorders int
	}
)

// What there is to say of several sources.
type (
	// CannotAnswer: a source has nothing to say to the question, so its part is missing in the answer.
	CannotAnswer struct {
		Source string // "the monitor"
		What   string // "latencies"
		Why    string
	}
	// SeveralDomains are asked at once: what their nodes say now of links, rules and sockets is not in the answer.
	SeveralDomains struct{ Domains []string }
	// LastOfEachDomain: the newest packets of each.
	LastOfEachDomain struct{ Last int }
)

// What there is to say about reports that were kept.
type (
	// ReportsDamaged: they cannot be read, so the answer is without them.
	ReportsDamaged struct{ Err error }
	// ReportsKept: of so many datagrams only the newest are kept.
	ReportsKept struct{ Datagrams, Kept uint64 }
	// ReportsUnchanged: reports without an event are no packets here.
	ReportsUnchanged struct{ Reports uint64 }
	// ReportsMissing: sources have numbered reports that did not come.
	ReportsMissing struct{ Reports uint64 }
	// Undated: of packets it is known only when a report of them came.
	Undated struct{ Packets uint64 }
	// NoArrival: nodes have lost when the packet came.
	NoArrival struct{ Hops uint64 }
	// Unnamed: visits of nodes or ports have no name in the answer.
	Unnamed struct{ Visits uint64 }
	// LastOfEach: the newest of radar's own packets, and as many of those that were reported.
	LastOfEach struct{ Last int }
	// NoReportMatches: none of the reports is of a packet that is asked for.
	NoReportMatches struct {
		Reports uint64
		Since   time.Time
	}
)

// Kind implements Note.
func (Warning) Kind() string             { return "warning" }
func (NoNodes) Kind() string             { return "no_nodes" }
func (NoAgent) Kind() string             { return "no_agent" }
func (AgentFails) Kind() string          { return "agent_fails" }
func (DiskFull) Kind() string            { return "disk_full" }
func (NotMeasured) Kind() string         { return "not_measured" }
func (EqualUnderWay) Kind() string       { return "equal_under_way" }
func (NothingMeasured) Kind() string     { return "nothing_measured" }
func (NothingMatches) Kind() string      { return "nothing_matches" }
func (UnderWay) Kind() string            { return "under_way" }
func (OtherStates) Kind() string         { return "other_states" }
func (Forgotten) Kind() string           { return "forgotten" }
func (MayBeMissing) Kind() string        { return "may_be_missing" }
func (NotMeant) Kind() string            { return "not_meant" }
func (SnapshotUnused) Kind() string      { return "snapshot_unused" }
func (OlderMissing) Kind() string        { return "older_missing" }
func (Overwritten) Kind() string         { return "overwritten" }
func (Unread) Kind() string              { return "unread" }
func (Incomplete) Kind() string          { return "incomplete" }
func (TableFull) Kind() string           { return "table_full" }
func (NoRoom) Kind() string              { return "no_room" }
func (Unordered) Kind() string           { return "unordered" }
func (Inexact) Kind() string             { return "inexact" }
func (MoreFlows) Kind() string           { return "more_flows" }
func (SecondsKept) Kind() string         { return "seconds_kept" }
func (SecondsShown) Kind() string        { return "seconds_shown" }
func (NothingLost) Kind() string         { return "nothing_lost" }
func (NothingDropped) Kind() string      { return "nothing_dropped" }
func (KernelDrops) Kind() string         { return "kernel_drops" }
func (StillUnderWay) Kind() string       { return "still_under_way" }
func (QueueUnseen) Kind() string         { return "queue_unseen" }
func (NoLatency) Kind() string           { return "no_latency" }
func (AlsoDropped) Kind() string         { return "also_dropped" }
func (Expired) Kind() string             { return "expired" }
func (MovedAddress) Kind() string        { return "moved_address" }
func (RoutingLoop) Kind() string         { return "routing_loop" }
func (Unsent) Kind() string              { return "unsent" }
func (UnsentFull) Kind() string          { return "unsent_full" }
func (Doubled) Kind() string             { return "doubled_address" }
func (PortsNotUp) Kind() string          { return "ports_not_up" }
func (NodesSilent) Kind() string         { return "nodes_silent" }
func (Unanswered) Kind() string          { return "unanswered" }
func (AnswersElsewhere) Kind() string    { return "answers_elsewhere" }
func (NotTranslated) Kind() string       { return "not_translated" }
func (ErrorsLimited) Kind() string       { return "errors_limited" }
func (AddressesUnusable) Kind() string   { return "addresses_unusable" }
func (NoRouteOut) Kind() string          { return "no_route_out" }
func (SegmentDamaged) Kind() string      { return "segment_damaged" }
func (NotKept) Kind() string             { return "not_kept" }
func (RecordingCovers) Kind() string     { return "recording_covers" }
func (RecordingUnfinished) Kind() string { return "recording_unfinished" }
func (RecordingWithoutEnd) Kind() string { return "recording_without_end" }
func (ReportsDamaged) Kind() string      { return "reports_damaged" }
func (ReportsKept) Kind() string         { return "reports_kept" }
func (ReportsUnchanged) Kind() string    { return "reports_unchanged" }
func (ReportsMissing) Kind() string      { return "reports_missing" }
func (Undated) Kind() string             { return "undated" }
func (NoArrival) Kind() string           { return "no_arrival" }
func (Unnamed) Kind() string             { return "unnamed" }
func (LastOfEach) Kind() string          { return "last_of_each" }
func (NoReportMatches) Kind() string     { return "no_report_matches" }
func (CannotAnswer) Kind() string        { return "cannot_answer" }
func (SeveralDomains) Kind() string      { return "several_domains" }
func (LastOfEachDomain) Kind() string    { return "last_of_each_domain" }
