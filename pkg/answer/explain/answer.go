// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"github.com/vnetradar/radar/pkg/aggregate"
	"github.com/vnetradar/radar/pkg/answer/placenow"
	"github.com/vnetradar/radar/pkg/record"
)

// Cause is why a flow was slow.
type Cause string

// The causes.
const (
	ByQueue      Cause = "queue"         // a port lets out no more than it did, and what came waited, or was dropped
	ByLoss       Cause = "loss"          // packets were lost on their way, where no queue was full
	ByDelay      Cause = "delay"         // the way is long
	ByWindow     Cause = "small_window"  // the receiver offered too small a window for the way
	ByReceiver   Cause = "slow_receiver" // the receiver read, or acknowledged, too slowly
	BySender     Cause = "slow_sender"   // the sender had nothing to send
	ByFirewall   Cause = "firewall"      // a rule refused packets
	ByNetfilter  Cause = "netfilter"     // NAT, conntrack or a rule refused packets: the node does not say which
	ByMTU        Cause = "mtu"           // packets were larger than a link takes, and the sender did not learn of it
	ByReordering Cause = "reordering"    // packets overtook each other, and so were taken for lost
	ByECN        Cause = "ecn"           // a queue marked packets to signal congestion
	Refused      Cause = "refused"       // the other end answered with a reset
	ByReset      Cause = "reset"         // a reset ended the transfer before all data was acknowledged
	Unanswered   Cause = "unanswered"    // the other end did not answer
	Nothing      Cause = "nothing"       // nothing in the network held it
	NotEnough    Cause = "not_enough"    // there is too little to tell
)

// Causes are all of them.
var Causes = []Cause{ByQueue, ByLoss, ByDelay, ByWindow, ByReceiver, BySender, ByFirewall, ByNetfilter, ByMTU, ByReordering, ByECN, Refused, ByReset, Unanswered, Nothing, NotEnough}

// Lack is what evidence lacks.
type Lack string

// What can be missing.
const (
	NoTCPFields  Lack = "no_tcp_fields"     // records do not have TCP's header
	OneDirection Lack = "one_direction"     // of one direction there is no packet
	Overwritten  Lack = "overwritten"       // bytes were acknowledged of which there is no record
	NoBeginning  Lack = "beginning_missing" // there is no SYN
	Incomplete   Lack = "incomplete"        // records lack hops
	ScaleUnknown Lack = "window_scale"      // it is not known by how far windows are shifted
	TooMany      Lack = "too_many"          // there was no room for all that was under way
	Strange      Lack = "strange"           // sequence numbers fit nothing
	Outside      Lack = "end_not_attached"  // the sender, or the receiver, is not attached
	Between      Lack = "not_attached"      // nodes between are not attached
	Pending      Lack = "not_ended"         // packets have not ended, and are taken for lost
)

// Answer is why a flow was slow, and what speaks for it. Its flow is the direction with most data.
type Answer struct {
	Proto    string `json:"proto"`
	Src      string `json:"src"`
	Dst      string `json:"dst"`
	Sport    int    `json:"sport"`
	Dport    int    `json:"dport"`
	Sender   string `json:"sender,omitempty"`   // the node that data was seen at first
	Receiver string `json:"receiver,omitempty"` // and last; "": it left the attached nodes
	Beyond   string `json:"beyond,omitempty"`   // NODE/PORT by which it left them

	Cause   Cause  `json:"cause"`
	Place   string `json:"place,omitempty"` // NODE, NODE/PORT or a link
	Summary string `json:"summary"`         // of who makes sentences
	// What belongs to the cause; the rest of the answer has it, too.
	Queue    *QueueRow       `json:"-"`
	Loss     *LossRow        `json:"-"`
	Part     *PartRow        `json:"-"`
	Wait     Wait            `json:"wait,omitempty"`
	Held     Cause           `json:"held_most,omitempty"` // of a flow that was not slow: what it waited for most
	Partly   bool            `json:"partly,omitempty"`    // a rule refuses some of the packets
	AckWay   bool            `json:"ack_way,omitempty"`   // Place is on the way of acknowledgements
	SetupNs  int64           `json:"setup_ns,omitempty"`  // from the first SYN to the first data
	NotBegun bool            `json:"not_begun,omitempty"`
	NoAnswer *placenow.Cause `json:"no_answer,omitempty"`     // why Place sent none
	Forks    bool            `json:"forks,omitempty"`         // Place is where packets that overtook each other went by different ways
	Largest  int             `json:"largest_bytes,omitempty"` // of the packets with data that arrived

	Connections   int     `json:"connections"`
	TNs           int64   `json:"t_ns"`
	DurationNs    int64   `json:"duration_ns"`
	Packets       uint64  `json:"packets"`
	AckPackets    uint64  `json:"other_packets"`
	Bytes         uint64  `json:"bytes"`         // of IP
	PayloadBytes  uint64  `json:"payload_bytes"` // sent, again and again
	ThroughputBps uint64  `json:"throughput_bps,omitempty"`
	Lost          uint64  `json:"lost"`
	LostRatio     float64 `json:"lost_ratio"`
	Dropped       uint64  `json:"dropped"`
	Resent        uint64  `json:"resent"`
	ResentRatio   float64 `json:"resent_ratio"`
	Reordered     uint64  `json:"reordered"`
	Marked        uint64  `json:"ce"`
	Syns          uint64  `json:"syns"`
	SynAcks       uint64  `json:"syn_acks"`
	Unreachable   uint64  `json:"icmp_unreachable"`
	Pending       uint64  `json:"not_ended,omitempty"` // packets that have not ended and are taken for lost, of both directions
	Reset         *Reset  `json:"reset,omitempty"`

	Time   *Times               `json:"time,omitempty"`
	RTT    *aggregate.Quantiles `json:"rtt,omitempty"`
	Mean   int64                `json:"rtt_mean_ns,omitempty"`
	Summed int64                `json:"parts_mean_ns,omitempty"` // of all parts together
	// LeftOut are round trips of which RTT and Parts have nothing: while the sender waited for what was lost, or of data
	// that was sent twice.
	LeftOut uint64    `json:"rtt_left_out,omitempty"`
	Parts   []PartRow `json:"parts,omitempty"`
	// Later fragments of datagrams, all and those that were lost: a datagram is lost with one of them. Unassembled are the
	// datagrams whose first fragment arrived in vain.
	Fragments     uint64        `json:"fragments,omitempty"`
	LostFragments uint64        `json:"lost_fragments,omitempty"`
	Unassembled   uint64        `json:"unassembled,omitempty"`
	Untranslated  *Untranslated `json:"untranslated,omitempty"`
	Window        *WindowRow    `json:"window,omitempty"`
	Queues        []QueueRow    `json:"queues,omitempty"`
	Losses        []LossRow     `json:"losses,omitempty"`

	Gaps       *aggregate.Quantiles `json:"gaps,omitempty"`
	Closings   *aggregate.Quantiles `json:"window_closings,omitempty"`
	GapsNs     int64                `json:"gaps_ns,omitempty"` // together
	PeerNs     int64                `json:"peer_ns,omitempty"` // without data in flight, until the other side had sent
	ResentWhy  map[Why]uint64       `json:"resent_why,omitempty"`
	Resends    []ResendRow          `json:"retransmissions,omitempty"`
	MoreResent uint64               `json:"retransmissions_more,omitempty"`
	Lacks      []Lack               `json:"lacks,omitempty"`
	Kernel     *KernelView          `json:"kernel,omitempty"`     // whoever can ask the sender's node sets it
	Others     []Other              `json:"others,omitempty"`     // the next flows that were asked for; whoever asks for several sets it
	DependsOn  []Lack               `json:"depends_on,omitempty"` // of these: the cause may be another without them
	Names      []Flow               `json:"-"`                    // of the flow on its way, as addresses are translated
	Sequence   *Sequence            `json:"-"`                    // nil: Analyzer.Trace was not called
}

// Other is another flow, and what held it.
type Other struct {
	Proto   string `json:"proto"`
	Flow    string `json:"flow"`
	Packets uint64 `json:"packets"`
	Cause   Cause  `json:"cause"`
	Place   string `json:"place,omitempty"`
	Summary string `json:"summary"`
}

// Wait is how a slow receiver, or sender, made the flow wait.
type Wait string

// The ways.
const (
	WindowClosed Wait = "window_closed"
	LateAcks     Wait = "late_acks"
	NoRoom       Wait = "no_room"
	Gaps         Wait = "gaps"
	ShortData    Wait = "short_data"
	ForPeer      Wait = "for_peer"
)

// Reset is the first RST.
type Reset struct {
	Node  string `json:"node"` // that sent it
	Early bool   `json:"early"`
	// Broke: the sender had not said that it was done, and no other connection between the ends can have ended the transfer.
	Broke    bool  `json:"broke,omitempty"`
	Full     bool  `json:"window_full,omitempty"` // the receiver's window was used up then
	Stray    bool  `json:"stray,omitempty"`       // it answers a packet whose addresses were not translated: Answer.Untranslated
	Unacked  int64 `json:"unacknowledged"`        // bytes of the data that were not acknowledged then
	AfterFin bool  `json:"after_fin,omitempty"`   // one end had said that it would send no more
}

// Times are what the sender waited for, ns, from its first data on.
type Times struct {
	Network  int64 `json:"network_ns"`
	Recovery int64 `json:"recovery_ns"`
	Window   int64 `json:"window_ns"`
	Closed   int64 `json:"window_closed_ns"`
	Sender   int64 `json:"sender_ns"`
}

// all is how long the sender was watched.
func (t *Times) all() int64 { return t.Network + t.Recovery + t.Window + t.Closed + t.Sender }

// PartRow is a part of the round trip.
type PartRow struct {
	Way   string              `json:"way"` // data, ack or end
	Kind  Kind                `json:"kind"`
	Name  string              `json:"name"`
	Times aggregate.Quantiles `json:"times"`
	Mean  int64               `json:"mean_ns"` // of all round trips; one without this part has 0
	Share float64             `json:"share"`   // of all round trips together
}

// WindowRow is what the receiver offered, and what was in flight, bytes.
type WindowRow struct {
	Scale    int   `json:"scale"`
	Known    bool  `json:"scale_known"`
	Min      int64 `json:"min"`
	P50      int64 `json:"p50"`
	Max      int64 `json:"max"`
	Flight   int64 `json:"in_flight_p50"`
	FlightTo int64 `json:"in_flight_max"`
	MSS      int   `json:"segment"`
}

// QueueRow is a queue.
type QueueRow struct {
	Way           string              `json:"way"`
	Name          string              `json:"name"`
	Qdisc         string              `json:"qdisc,omitempty"`
	Times         aggregate.Quantiles `json:"times"`
	Waited        uint64              `json:"waited"` // records
	Busy          float64             `json:"busy"`   // share of the time in which a packet of the flow was in it
	RateBps       uint64              `json:"rate_bps,omitempty"`
	Lost          uint64              `json:"lost"`
	ConfiguredBps uint64              `json:"configured_bps,omitempty"`
	BurstBytes    uint64              `json:"burst_bytes,omitempty"`
	Holds         string              `json:"holds,omitempty"` // the kind of the queue that has the limit
	LimitPackets  uint64              `json:"limit_packets,omitempty"`
	LimitBytes    uint64              `json:"limit_bytes,omitempty"`
	MostPackets   int                 `json:"most_packets,omitempty"` // records of the flow that were in it at once
	Exceeded      bool                `json:"exceeded,omitempty"`     // the flow was faster than what is configured
	limits        bool
}

// LossRow is a place of losses.
type LossRow struct {
	Way           string    `json:"way"`
	Node          string    `json:"node"`
	Port          string    `json:"port,omitempty"`
	At            record.At `json:"at,omitempty"`
	Reason        string    `json:"reason,omitempty"`
	Qdisc         string    `json:"qdisc,omitempty"`
	Function      string    `json:"function,omitempty"`
	AfterDelivery bool      `json:"after_delivery,omitempty"`
	Packets       uint64    `json:"packets"`
	Ratio         float64   `json:"ratio"` // of the direction's packets with data
	SmallestBytes int       `json:"smallest_bytes,omitempty"`
	Fragments     bool      `json:"fragments,omitempty"` // later ones, that have no ports
	Syns          uint64    `json:"syns,omitempty"`      // of these packets
	Pending       uint64    `json:"not_ended,omitempty"` // the same: not known to be lost
	placenow.Place
	of *lossPlace
}

// LossPlace is the same as other answers have it.
func (l *LossRow) LossPlace() *aggregate.LossPlace {
	return &aggregate.LossPlace{Node: l.Node, Port: l.Port, At: l.At, Reason: l.Reason, Qdisc: l.Qdisc, Function: l.Function}
}

// Name is where it is.
func (l *LossRow) Name() string { return place(l.Node, l.Port) }

// ResendRow is data that was sent again.
type ResendRow struct {
	TNs       int64        `json:"t_ns"`
	ID        string       `json:"id"`
	Seq       int64        `json:"seq"` // from the flow's first byte
	Bytes     int          `json:"bytes"`
	Segs      int          `json:"segs"`
	Why       Why          `json:"why"`
	Originals []string     `json:"originals,omitempty"`
	Lost      int          `json:"lost,omitempty"` // packets of them
	Loss      *record.Loss `json:"loss,omitempty"`
	QueueNs   int64        `json:"queue_ns,omitempty"`
	AfterNs   int64        `json:"after_ns,omitempty"` // since the original was sent
	TookNs    *int64       `json:"took_ns,omitempty"`  // that the original, or its acknowledgement, took
	Where     string       `json:"where,omitempty"`    // it spent most of that
	WhereNs   int64        `json:"where_ns,omitempty"`
	Ack       string       `json:"ack,omitempty"`
}
