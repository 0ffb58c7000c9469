// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"net/netip"
	"testing"

	"github.com/vnetradar/radar/pkg/aggregate"
	"github.com/vnetradar/radar/pkg/answer/placenow"
	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/vnet/rules"
)

// TestNetfilter: what netfilter's hooks have freed themselves was refused by a rule only if the node says so.
func TestNetfilter(t *testing.T) {
	hook, rule := "nf_hook_slow", "nft_do_chain"
	full := []rules.NoFreePort{{Proto: "tcp", To: netip.MustParseAddrPort("10.0.3.2:5201")}}
	for _, c := range []struct {
		function string
		local    bool                // after delivery
		node     *placenow.Netfilter // nil: it cannot be asked
		want     Cause
	}{
		{rule, false, nil, ByFirewall},
		{rule, true, nil, ByFirewall},
		{hook, false, nil, ByNetfilter},
		{hook, true, nil, ByNetfilter},
		{hook, false, &placenow.Netfilter{Rules: true}, ByFirewall},
		{hook, true, &placenow.Netfilter{Rules: true}, ByFirewall},
		{hook, false, &placenow.Netfilter{}, ByNetfilter},
		{hook, false, &placenow.Netfilter{Rules: true, ConntrackDrops: 3}, ByNetfilter},
		{hook, false, &placenow.Netfilter{Rules: true, ConntrackUnknown: true}, ByNetfilter},
		{hook, false, &placenow.Netfilter{ConntrackDrops: 3, ConntrackNotInserted: 3, NoFreePort: full}, ByNetfilter},
	} {
		w, place := &wire{}, "r1"
		for i := range 4 {
			r := w.packet(true, float64(i)*1000, 1000, packet.TCPSyn, -1, 0, 64240, 0)
			loss := record.Loss{Node: "r1", Port: "eth1", At: record.AtNode, Reason: "NETFILTER_DROP", Function: c.function}
			if c.local {
				place, loss.Node, loss.Port = "h2", "h2", "eth0"
				r.LocalDrop = &loss
			} else {
				lose(r, loss)
			}
		}
		a := New(flow)
		a.Place = func(l *LossRow, of aggregate.Flow, bytes uint64) (now placenow.Place) {
			if of.Src != "10.0.0.1" || *of.Dport != 5201 || bytes != 52 || l.AfterDelivery != c.local {
				t.Errorf("asked for %+v of %d bytes, %+v", of, bytes, l)
			}
			now.Netfilter = c.node
			return now
		}
		for _, r := range w.list {
			a.Add(r)
		}
		ans, ok := a.Finish()
		if !ok || ans.Cause != c.want || ans.Place != place || !ans.NotBegun || ans.Loss.Netfilter != c.node {
			t.Errorf("%s, after delivery %v, the node says %+v: %s at %s, want %s", c.function, c.local, c.node, ans.Cause, ans.Place, c.want)
		}
	}
}

// TestLossTranslated: a node is asked about a flow as it was where its packets were lost, not as other nodes know it.
func TestLossTranslated(t *testing.T) {
	for place, want := range map[string]aggregate.Flow{
		"h1": {Proto: "tcp", Src: "10.0.0.1", Dst: "10.0.3.2", Sport: ptr(4000), Dport: ptr(5201)},
		"r1": {Proto: "tcp", Src: "192.0.2.1", Dst: "10.0.3.2", Sport: ptr(60000), Dport: ptr(5201)},
		"h2": {Proto: "tcp", Src: "192.0.2.1", Dst: "10.0.3.9", Sport: ptr(60000), Dport: ptr(8080)},
	} {
		w := &wire{nat: true}
		r := w.packet(true, 0, 1000, packet.TCPSyn, -1, 0, 64240, 0)
		r.Hops[2].Dst, r.Hops[2].Dport = "10.0.3.9", ptr(8080)
		r.LocalDrop = &record.Loss{Node: place, At: record.AtNode, Reason: "NETFILTER_DROP", Function: "nft_do_chain"}
		a, asked := New(flow), false
		a.Place = func(_ *LossRow, of aggregate.Flow, _ uint64) (now placenow.Place) {
			asked = true
			if of.Src != want.Src || of.Dst != want.Dst || *of.Sport != *want.Sport || *of.Dport != *want.Dport {
				t.Errorf("at %s asked for %+v, want %+v", place, of, want)
			}
			return now
		}
		a.Add(r)
		if _, ok := a.Finish(); !ok || !asked {
			t.Errorf("at %s nobody was asked", place)
		}
	}
}

// TestNoAnswer: the node is asked why, as it saw the SYN, and only if nobody answered.
func TestNoAnswer(t *testing.T) {
	why := &placenow.Cause{Kind: placenow.QueueFull, Node: "h2"}
	for _, answered := range []bool{false, true} {
		w := &wire{nat: true}
		w.packet(true, 0, 1000, packet.TCPSyn, -1, 0, 64240, 0)
		w.packet(true, 1000, 1000, packet.TCPSyn, -1, 0, 64240, 0)
		want := why
		if answered {
			w.open()
			w.data(4, 0, 50)
			want = nil
		}
		a := New(flow)
		a.NoAnswer = func(r *placenow.Request) *placenow.Cause {
			if r.Node != "h2" || r.From.String() != "192.0.2.1" || r.To.String() != "10.0.3.2" || r.Proto != "tcp" || r.Port != 5201 {
				t.Errorf("asked for %+v", r)
			}
			return why
		}
		for _, r := range w.list {
			a.Add(r)
		}
		if ans, ok := a.Finish(); !ok || ans.NoAnswer != want {
			t.Errorf("answered %v: %s, %+v", answered, ans.Cause, ans.NoAnswer)
		}
	}
}
