// SPDX-License-Identifier: Apache-2.0

// Package replies joins questions with their answers: of flows that were delivered, and of those that went back. It knows
// only what was measured; why a node did not answer, its kernel is asked (placenow).
package replies

import (
	"net/netip"
	"slices"

	"github.com/vnetradar/radar/pkg/aggregate"
)

// Seen is what was measured: flows, those that have not ended among them, and the paths that they took.
type Seen struct {
	Flows []aggregate.FlowRow
	Paths []aggregate.PathRow
	// UnderWay reports whether a packet from one address to another is under way, so that its flow is not known yet. Nil:
	// none is.
	UnderWay func(src, dst netip.Addr) bool
	// Before: of flows whose newest packet is younger, Unix ns, nobody knows whether they are answered.
	Before int64
}

// Unanswered is a flow whose packets were delivered, and to which no answer was seen.
type Unanswered struct {
	aggregate.Flow
	Requests uint64 // that were delivered
	Dropped  uint64 // of these, after delivery: a node can free what it cannot answer
	// From and To are the ends as the receiver saw them: others than the flow's where something translated it.
	From, To netip.Addr
	Port     int    // of the receiver, -1: the protocol has none
	Node     string // where they were delivered
	In       string // its port by which they came
	// OtherSource is the source of packets that look as the answer, and come from another address; invalid: there are none.
	OtherSource netip.Addr
}

// Elsewhere is a flow whose answers took another path than it did, and were lost there.
type Elsewhere struct {
	aggregate.Flow
	Path    string // "c > r2 > s"
	Back    string // "s > r1"
	Lost    uint64 // answers
	Answers uint64 // on that path
}

// Choice is what of that is told.
type Choice struct {
	Flows map[string]bool // that are asked for, by name; nil: all
	// Explained reports whether there is another reason why no answer was seen. Nil: there is none.
	Explained func(*Unanswered) bool
	// Tell tells a flow, if its node lets it. It asks the node, so it is called for the first few only. Nil: all are told.
	Tell func(*Unanswered) bool
}

func (c *Choice) has(f *aggregate.Flow) bool { return c.Flows == nil || c.Flows[f.String()] }

func (c *Choice) explained(u *Unanswered) bool { return c.Explained != nil && c.Explained(u) }

func (c *Choice) tell(u *Unanswered) bool { return c.Tell == nil || c.Tell(u) }

// maxTold bounds how many flows of each kind are told, maxAsked of how many the nodes are asked.
const (
	maxTold  = 8
	maxAsked = 32
)

// key is a flow by what its answer has the other way round.
type key struct {
	proto        string
	src, dst     string
	sport, dport int
}

const none = -1

func number(n *int) int {
	if n == nil {
		return none
	}
	return *n
}

// Types of ICMP and ICMPv6.
const (
	echoReply, echo   = 0, 8
	echo6, echoReply6 = 128, 129
)

// isReply and isRequest tell the two directions of an echo apart. Other protocols have no such.
func isReply(f *aggregate.Flow) bool {
	return f.ICMPID != nil && (number(f.ICMPType) == echoReply || number(f.ICMPType) == echoReply6)
}

func isRequest(f *aggregate.Flow) bool {
	return f.ICMPID != nil && (number(f.ICMPType) == echo || number(f.ICMPType) == echo6)
}

// ask is the key of what asks: of packets as their receiver sees them.
func ask(r *aggregate.FlowRow) key {
	k := key{r.Proto, r.Src, r.Dst, number(r.Sport), number(r.Dport)}
	if r.NATSrc != "" {
		k.src = r.NATSrc
	}
	if r.NATDst != "" {
		k.dst = r.NATDst
	}
	if r.NATSport != nil {
		k.sport = *r.NATSport
	}
	if r.NATDport != nil {
		k.dport = *r.NATDport
	}
	if isRequest(&r.Flow) { // the identifier may have been translated, too
		k.sport, k.dport = none, none
	}
	return k
}

// reply is the key of the packets that a flow answers.
func reply(f *aggregate.Flow) key {
	return key{f.Proto, f.Dst, f.Src, number(f.Dport), number(f.Sport)}
}

// asks reports whether somebody who gets such packets answers them.
func asks(f *aggregate.Flow) bool {
	dst, err := netip.ParseAddr(f.Dst)
	switch {
	case err != nil || f.Fragments || dst.IsMulticast() || f.Dst == "255.255.255.255":
		return false
	case f.Proto == "icmp" || f.Proto == "icmpv6":
		return isRequest(f)
	}
	return f.Proto == "tcp" || f.Proto == "udp"
}

// joined are flows with their answers.
type joined struct {
	seen    *Seen
	answers map[key]*aggregate.FlowRow // what goes back, by what it answers
	loose   map[key]*aggregate.FlowRow // the same without the address that answers
	asked   map[key]bool               // what asks: a flow that answers it asks nothing
	paths   map[string]*aggregate.PathRow
}

func join(s *Seen) *joined {
	j := &joined{seen: s, answers: make(map[key]*aggregate.FlowRow), loose: make(map[key]*aggregate.FlowRow),
		asked: make(map[key]bool), paths: make(map[string]*aggregate.PathRow)}
	for i := range s.Flows {
		f := &s.Flows[i]
		j.asked[ask(f)] = true
		if isRequest(&f.Flow) {
			continue
		}
		k := reply(&f.Flow)
		if isReply(&f.Flow) {
			k.sport, k.dport = none, none
		}
		j.answers[k] = f
		k.dst = ""
		j.loose[k] = f
	}
	for i := range s.Paths {
		j.paths[s.Paths[i].Path] = &s.Paths[i]
	}
	return j
}

// Find returns the flows that got no answer, and those whose answers were lost on another path, each with most packets
// first. UDP comes last: much of it needs no answer, and would take the places of what does.
func Find(s *Seen, c *Choice) (unanswered []Unanswered, elsewhere []Elsewhere) {
	j, asked := join(s), 0
	for _, udp := range []bool{false, true} {
		for i := range s.Flows {
			f := &s.Flows[i]
			if (f.Proto == "udp") != udp || !asks(&f.Flow) || !c.has(&f.Flow) {
				continue
			}
			if answer := j.answers[ask(f)]; answer != nil {
				if e, is := j.elsewhere(f, answer); is && len(elsewhere) < maxTold {
					elsewhere = append(elsewhere, e)
				}
				continue
			}
			if len(unanswered) == maxTold || asked == maxAsked {
				continue
			}
			u, is := j.unanswered(f)
			if !is || c.explained(&u) {
				continue
			}
			asked++
			if c.tell(&u) {
				unanswered = append(unanswered, u)
			}
		}
	}
	return unanswered, elsewhere
}

// unanswered is a flow without answers, if its packets came to somebody.
func (j *joined) unanswered(f *aggregate.FlowRow) (u Unanswered, is bool) {
	if f.Delivered == 0 || f.LastNs >= j.seen.Before || j.asked[reply(&f.Flow)] {
		return u, false
	}
	last := j.lastHop(f)
	if last == nil {
		return u, false
	}
	k := ask(f)
	from, err := netip.ParseAddr(k.src)
	to, failed := netip.ParseAddr(k.dst)
	if err != nil || failed != nil || j.seen.UnderWay != nil && j.seen.UnderWay(to, from) {
		return u, false
	}
	u = Unanswered{Flow: f.Flow, Requests: f.Delivered, Dropped: min(f.LocalDrops, f.Delivered), From: from, To: to, Port: k.dport, Node: last.Node, In: last.InPort}
	k.dst = ""
	if other := j.loose[k]; other != nil && k.sport != none && j.firstNode(other) == last.Node {
		u.OtherSource, _ = netip.ParseAddr(other.Src)
	}
	return u, true
}

// lastHop is where most of a flow's packets ended; nil: not known, or copies of them went several ways.
func (j *joined) lastHop(f *aggregate.FlowRow) *aggregate.PathHop {
	for _, p := range f.PathList {
		if way := j.paths[p.Path]; way != nil && way.Delivered > 0 && len(way.Ends) == 0 && len(way.Hops) > 0 {
			return &way.Hops[len(way.Hops)-1]
		}
	}
	return nil
}

func (j *joined) firstNode(f *aggregate.FlowRow) string {
	for _, p := range f.PathList {
		if way := j.paths[p.Path]; way != nil && len(way.Hops) > 0 {
			return way.Hops[0].Node
		}
	}
	return ""
}

// elsewhere reports whether answers were lost on a path that is the way back of none of the flow's. Rows do not say which of
// several paths of a flow its losses are of: then nothing is told.
func (j *joined) elsewhere(f, answer *aggregate.FlowRow) (e Elsewhere, is bool) {
	lost := answer.Lost + answer.Expired // what was dropped after delivery came back
	if lost == 0 || len(f.PathList) == 0 || f.PathsMore || len(answer.PathList) != 1 || answer.PathsMore {
		return e, false
	}
	back := j.paths[answer.PathList[0].Path]
	if back == nil || len(back.Hops) < 2 {
		return e, false
	}
	nodes := nodesOf(back)
	for _, p := range f.PathList {
		way := j.paths[p.Path]
		if way == nil {
			return e, false
		}
		straight := nodesOf(way)
		slices.Reverse(straight)
		if isPrefix(nodes, straight) {
			return e, false
		}
	}
	return Elsewhere{f.Flow, f.PathList[0].Path, back.Path, lost, answer.PathList[0].Packets}, true
}

func nodesOf(p *aggregate.PathRow) (names []string) {
	for i := range p.Hops {
		names = append(names, p.Hops[i].Node)
	}
	return names
}

func isPrefix(of, list []string) bool {
	return len(of) <= len(list) && slices.Equal(of, list[:len(of)])
}
