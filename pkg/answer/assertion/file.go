// SPDX-License-Identifier: Apache-2.0

package assertion

import (
	"encoding"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// Bounds of what users write.
const (
	MaxBytes      = 1 << 20 // of a file
	MaxAssertions = 1024
)

// File is a file of assertions.
type File struct {
	Assertions []Assertion `json:"assertions" about:"What must hold, in the order in which it is told."`
}

// Assertion is one promise. Exactly one of its checks is there.
type Assertion struct {
	Name    string  `json:"name" about:"What the promise is called."`
	Select  Select  `json:"select,omitempty" about:"Of which packets; left out: of all. All fields must match, of a list one value."`
	IfEmpty IfEmpty `json:"if_empty,omitempty" about:"What becomes of it if no packet is selected."`

	NoLoss       *True     `json:"no_loss,omitempty" about:"No packet is lost, and none expires."`
	Loss         *Loss     `json:"loss,omitempty" about:"So many packets are lost at most."`
	Latency      *Latency  `json:"latency,omitempty" about:"Packets take less than that."`
	Path         []string  `json:"path,omitempty" about:"All packets that arrive take this path: the names of its nodes in order."`
	Crosses      []string  `json:"crosses,omitempty" about:"All packets that arrive have visited each of these nodes."`
	NeverCrosses []string  `json:"never_crosses,omitempty" about:"No packet visits one of these nodes."`
	Balance      *Balance  `json:"balance,omitempty" about:"Flows are spread over ways as the weights say (chi-square test)."`
	NAT          *NAT      `json:"nat,omitempty" about:"All packets that arrive have been changed to this on the way."`
	NoReordering *True     `json:"no_reordering,omitempty" about:"No packet arrives behind one of its flow that was sent later."`
	Rate         *Rate     `json:"rate,omitempty" about:"What arrives, from the first packet sent to the last one that arrives, IP bytes."`
	Packets      *Quantity `json:"packets,omitempty" about:"How many packets there are."`

	Cause      []CauseName `json:"cause,omitempty" about:"What held each flow of the packets is one of these causes of docs/explain.md."`
	NeverCause []CauseName `json:"never_cause,omitempty" about:"What held a flow of the packets is none of these causes of docs/explain.md."`

	Line   int `json:"-"` // in the file, from 1
	Column int `json:"-"`
}

// Select says which packets an assertion is about.
type Select struct {
	Src    []string `json:"src,omitempty" about:"Addresses, prefixes or nodes."`
	Dst    []string `json:"dst,omitempty" about:"Addresses, prefixes or nodes."`
	Proto  []string `json:"proto,omitempty" about:"Protocols: tcp, udp, icmp, icmpv6, or numbers."`
	Sport  []string `json:"sport,omitempty" about:"Ports, or ranges such as 1000-2000."`
	Dport  []string `json:"dport,omitempty" about:"Ports, or ranges such as 1000-2000."`
	Node   []string `json:"node,omitempty" about:"Nodes that the packet visited."`
	State  []string `json:"state,omitempty" about:"delivered, left, lost, expired or ignored."`
	Filter string   `json:"filter,omitempty" about:"A filter expression in tcpdump's language."`
}

// Loss bounds losses. AtMost or Below is there.
type Loss struct {
	AtMost *Number `json:"at_most,omitempty" about:"So many packets."`
	Below  *Part   `json:"below,omitempty" about:"Less than this share of the packets: 0.1%, or 0.001."`
	At     string  `json:"at,omitempty" about:"Only those lost there: NODE or NODE/PORT."`
	Reason string  `json:"reason,omitempty" about:"Only those lost for this reason, by the kernel's name, or NOT_SEEN."`
}

// Latency bounds times. One bound at least is there, and one place at most.
type Latency struct {
	P50  *Duration `json:"p50,omitempty" about:"Half of the packets take less: 200us, 5ms, 1s."`
	P90  *Duration `json:"p90,omitempty" about:"90 % take less."`
	P99  *Duration `json:"p99,omitempty" about:"99 % take less."`
	P999 *Duration `json:"p99.9,omitempty" about:"99.9 % take less."`
	Max  *Duration `json:"max,omitempty" about:"All take less."`

	Node  string `json:"node,omitempty" about:"Inside this node; without a place: from the first to the last stamp."`
	Link  string `json:"link,omitempty" about:"On the link behind this port, NODE/PORT, without its queue."`
	Queue string `json:"queue,omitempty" about:"In the queue of this port, NODE/PORT: a packet that did not wait took 0, if any is seen leaving it."`
	Hop   string `json:"hop,omitempty" about:"From this node's egress to the next stamp: queue, link and next node."`
}

// Balance is how flows are to be spread.
type Balance struct {
	Over    Over             `json:"over,omitempty" about:"What is chosen among."`
	At      string           `json:"at,omitempty" about:"The node whose next hops are meant (over: next_hops)."`
	Ways    *Number          `json:"ways,omitempty" about:"How many ways there must be; left out: two or more."`
	Weights map[string]Share `json:"weights,omitempty" about:"Weights by next hop, or by path (h1 > r1 > h2); left out: equal ones."`
	P       *Part            `json:"p,omitempty" about:"It fails where chance alone would be so uneven less often than that; 0.001 if left out."`
}

// NAT is what packets are changed to.
type NAT struct {
	Src   *Prefix `json:"src,omitempty" about:"Source address, or a prefix with it."`
	Dst   *Prefix `json:"dst,omitempty" about:"Destination address, or a prefix with it."`
	Sport *Number `json:"sport,omitempty" about:"Source port."`
	Dport *Number `json:"dport,omitempty" about:"Destination port."`
}

// Rate bounds a rate.
type Rate struct {
	AtLeast *Bitrate `json:"at_least,omitempty" about:"10Mbit, 1.5Gbit, or bits a second."`
	AtMost  *Bitrate `json:"at_most,omitempty" about:"10Mbit, 1.5Gbit, or bits a second."`
}

// Quantity bounds a number.
type Quantity struct {
	AtLeast *Number `json:"at_least,omitempty" about:"So many or more."`
	AtMost  *Number `json:"at_most,omitempty" about:"So many or fewer."`
}

// value is a scalar in a file that is more than text.
type value interface {
	encoding.TextUnmarshaler
	allowed() string   // what may stand there
	schema() jsonValue // of it
}

type jsonValue = map[string]any

// True is a check without a parameter.
type True struct{}

// UnmarshalText implements value.
func (*True) UnmarshalText(b []byte) error { return unless(string(b) == "true") }
func (*True) allowed() string              { return "true, or leave the check out" }
func (*True) schema() jsonValue            { return jsonValue{"const": true} }

// IfEmpty says what becomes of an assertion about no packet.
type IfEmpty string

// The zero value is Fail.
const (
	Fail IfEmpty = "fail"
	Pass IfEmpty = "pass"
)

// UnmarshalText implements value.
func (e *IfEmpty) UnmarshalText(b []byte) error {
	*e = IfEmpty(b)
	return unless(*e == Fail || *e == Pass)
}
func (*IfEmpty) allowed() string   { return "fail or pass" }
func (*IfEmpty) schema() jsonValue { return jsonValue{"enum": []any{Fail, Pass}, "default": Fail} }

// Over is what flows choose among.
type Over string

// The zero value is Paths.
const (
	Paths    Over = "paths"
	NextHops Over = "next_hops"
)

// UnmarshalText implements value.
func (o *Over) UnmarshalText(b []byte) error {
	*o = Over(b)
	return unless(*o == Paths || *o == NextHops)
}
func (*Over) allowed() string   { return "paths or next_hops" }
func (*Over) schema() jsonValue { return jsonValue{"enum": []any{Paths, NextHops}, "default": Paths} }

// Number is a whole number.
type Number uint64

// UnmarshalText implements value.
func (n *Number) UnmarshalText(b []byte) error {
	v, err := strconv.ParseUint(string(b), 10, 53)
	*n = Number(v)
	return err
}
func (*Number) allowed() string   { return "a whole number" }
func (*Number) schema() jsonValue { return jsonValue{"type": "integer", "minimum": 0} }

// Share is a number, or in per cent.
type Share float64

// UnmarshalText implements value.
func (s *Share) UnmarshalText(b []byte) error {
	text, percent := strings.CutSuffix(string(b), "%")
	v, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if percent {
		v /= 100
	}
	*s = Share(v)
	if err != nil {
		return err
	}
	return unless(v > 0 && v < 1e15)
}
func (*Share) allowed() string { return "a number greater than 0, such as 0.1% or 0.001" }
func (*Share) schema() jsonValue {
	return jsonValue{"type": []any{"number", "string"}}
}

// Part is a share below the whole.
type Part float64

// UnmarshalText implements value.
func (p *Part) UnmarshalText(b []byte) error {
	var s Share
	err := s.UnmarshalText(b)
	*p = Part(s)
	if err != nil {
		return err
	}
	return unless(s < 1)
}
func (*Part) allowed() string {
	return "a share below 1: 0.001, or in per cent; for five of a hundred write 5%"
}
func (*Part) schema() jsonValue {
	return jsonValue{"type": []any{"number", "string"}, "exclusiveMinimum": 0, "exclusiveMaximum": 1}
}

// Duration is a time.
type Duration int64

// UnmarshalText implements value.
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	*d = Duration(v)
	if err != nil {
		return err
	}
	return unless(v > 0)
}
func (*Duration) allowed() string   { return "a time such as 200us, 5ms or 1s" }
func (*Duration) schema() jsonValue { return jsonValue{"type": "string"} }

// Bitrate is in bits a second.
type Bitrate float64

// UnmarshalText implements value. Units are those of tc: powers of 1000.
func (r *Bitrate) UnmarshalText(b []byte) error {
	text, factor := strings.ToLower(strings.TrimSpace(string(b))), 1.0
	for _, unit := range []struct {
		name  string
		value float64
	}{{"kbit", 1e3}, {"mbit", 1e6}, {"gbit", 1e9}, {"bit", 1}} {
		if number, is := strings.CutSuffix(text, unit.name); is {
			text, factor = strings.TrimSpace(number), unit.value
			break
		}
	}
	v, err := strconv.ParseFloat(text, 64)
	*r = Bitrate(v * factor)
	if err != nil {
		return err
	}
	return unless(v > 0 && v < 1e15)
}
func (*Bitrate) allowed() string {
	return "a rate such as 10Mbit, 1.5Gbit, or a number of bits a second"
}
func (*Bitrate) schema() jsonValue { return jsonValue{"type": []any{"number", "string"}} }

// Prefix is an address, or a prefix.
type Prefix struct{ netip.Prefix }

// UnmarshalText implements value.
func (p *Prefix) UnmarshalText(b []byte) (err error) {
	if a, failed := netip.ParseAddr(string(b)); failed == nil {
		p.Prefix = netip.PrefixFrom(a, a.BitLen())
		return nil
	}
	p.Prefix, err = netip.ParsePrefix(string(b))
	return err
}

func (p *Prefix) String() string {
	if p.IsSingleIP() {
		return p.Addr().String()
	}
	return p.Prefix.String()
}
func (*Prefix) allowed() string   { return "an address (10.0.0.1) or a prefix (10.0.0.0/8)" }
func (*Prefix) schema() jsonValue { return jsonValue{"type": "string"} }

func unless(ok bool) error {
	if ok {
		return nil
	}
	return fmt.Errorf("not allowed")
}
