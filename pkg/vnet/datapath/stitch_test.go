// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"fmt"
	"regexp"
	"testing"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/vnet/backpack"
	"github.com/vnetradar/radar/pkg/vnet/datapath/program"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

const stitchedPort = "internal|out|true"

// newStitchLab makes a and b, whose other ends tc joins in sw, which nobody attaches.
func newStitchLab(t *testing.T, hook string) *lab {
	t.Helper()
	l := newLab(t, hook, "sw", "a", "b")
	for i, name := range []string{"a", "b"} {
		l.Veth(name, "e0", "sw", "p"+name)
		l.Address(name, "e0", fmt.Sprintf("10.0.0.%d/24", i+1))
		l.Run("sw", "tc", "qdisc", "add", "dev", "p"+name, "clsact")
	}
	l.sew("pa", "pb")
	l.sew("pb", "pa")
	return l
}

// sew redirects what comes in by an interface of sw to another one.
func (l *lab) sew(from, to string) {
	l.t.Helper()
	l.Run("sw", "tc", "filter", "add", "dev", from, "ingress", "prio", "9", "protocol", "all", "u32", "match", "u32", "0", "0", "action", "mirred", "egress", "redirect", "dev", to)
}

func (l *lab) unpick(from string) {
	l.t.Helper()
	l.Run("sw", "tc", "filter", "del", "dev", from, "ingress", "prio", "9")
}

// The two are a link for as long as all that comes to one goes to the other.
func TestStitchedAttachDetach(t *testing.T) {
	anyHook(t, func(t *testing.T, hook string) {
		l := newStitchLab(t, hook)
		all := []string{"sw", "a", "b"}
		indices := regexp.MustCompile(`index \d+`) // of actions, which are made anew
		tc := func() string { return indices.ReplaceAllString(l.tc(all...), "") }
		before := tc()
		r := l.attach("a", "b")
		l.wantFlags("a/e0 "+stitchedPort, "b/e0 "+stitchedPort)
		for _, ends := range [][2]string{{"a", "b"}, {"b", "a"}} {
			p, peer := l.port(r.Domain, ends[0], "e0"), l.port(r.Domain, ends[1], "e0")
			if p.Peer != int(peer.ID) || !p.Stitched || p.Role != domain.Internal {
				t.Errorf("port %+v, want %d at its other end", p, peer.ID)
			}
		}
		l.unpick("pa")
		l.refresh()
		l.wantFlags("a/e0 "+edgePort, "b/e0 "+edgePort)
		l.sew("pa", "pb")
		l.refresh()
		l.wantFlags("a/e0 "+stitchedPort, "b/e0 "+stitchedPort)
		l.detach("b")
		l.wantFlags("a/e0 " + edgePort)
		l.attach("b")
		l.wantFlags("a/e0 "+stitchedPort, "b/e0 "+stitchedPort)
		// The namespace between them becomes a node, and ceases to be one.
		l.attach("sw")
		l.wantFlags("a/e0 "+internalPort, "b/e0 "+internalPort, "sw/pa "+internalPort, "sw/pb "+internalPort)
		l.detach("sw")
		l.refresh() // its programs looked at the packets as well
		l.wantFlags("a/e0 "+stitchedPort, "b/e0 "+stitchedPort)
		l.detachAll()
		if after := tc(); after != before {
			t.Errorf("tc before:\n%s\nand after:\n%s", before, after)
		}
	})
}

// probeRecords are the records of probes.
func (l *lab) probeRecords() (list []record.Record) {
	l.t.Helper()
	h := l.open()
	defer h.Close()
	maps, err := backpack.Open(h.Domain)
	if err != nil {
		l.t.Fatal(err)
	}
	defer maps.Close()
	all, _, err := backpack.Scan(maps, backpack.NewDecoder(h.Domain, nil), backpack.ScanOptions{})
	if err != nil {
		l.t.Fatal(err)
	}
	for _, r := range all {
		if r.Dport != nil && *r.Dport == probePort {
			list = append(list, r)
		}
	}
	return list
}

// Every packet has one story, from a to b, and true bits on the wire.
func TestStitchedPackets(t *testing.T) {
	for _, carry := range []string{program.CarryAuto, program.CarryHeader} {
		t.Run(carry, func(t *testing.T) {
			if carry == program.CarryHeader {
				need.Nightly(t) // the link is the same
			}
			anyHook(t, func(t *testing.T, hook string) {
				const n = 300
				l := newStitchLab(t, hook)
				l.opts.Lease, l.opts.Carry = 0, carry
				l.attach("a", "b")
				p := l.openProbes("a", "e0", "b", "e0", "10.0.0.1", "10.0.0.2")
				o := l.capture("b", 0)
				p.send(n)
				nstest.WaitFor(t, "all packets", func() bool { return o.count() == n })
				o.want(n)
				list := l.probeRecords()
				if len(list) != n {
					t.Errorf("%d records of %d packets", len(list), n)
				}
				for _, r := range list {
					if r.State != record.Delivered || len(r.Hops) != 2 || r.Hops[0].Node != "a" || r.Hops[1].Node != "b" ||
						r.Hops[0].Port != "e0" || r.Hops[1].InPort != "e0" || r.Hops[1].LinkNs == nil {
						t.Fatalf("record %+v", r)
					}
				}
			})
		})
	}
}

// A filter goes while packets are sent: what comes into the namespace between the two then has
// true bits, before anybody has noticed, and when it comes back.
func TestStitchedEnds(t *testing.T) {
	anyHook(t, func(t *testing.T, hook string) {
		const n = 100
		l := newStitchLab(t, hook)
		l.opts.Lease = 0
		l.attach("a", "b")
		p := l.openProbes("a", "e0", "b", "e0", "10.0.0.1", "10.0.0.2")
		o := l.capture("sw", 0)
		p.send(n)
		times := rounds(t, 4)
		for range times {
			l.unpick("pa")
			p.sendUntil(o, n)
			l.refresh()
			p.sendUntil(o, n)
			l.sew("pa", "pb")
			p.sendUntil(o, n)
			l.refresh()
			// The namespace that becomes a node sees bits, as every link inside does.
		}
		o.want(times * 3 * n)
		l.detachAll()
	})
}

// The namespace between the two becomes a node while packets are sent, and ceases to be one: all
// arrive as they were sent.
func TestStitchedNodeLeaves(t *testing.T) {
	anyHook(t, func(t *testing.T, hook string) {
		l := newStitchLab(t, hook)
		l.opts.Lease = 0
		l.attach("a", "b")
		for range rounds(t, 4) {
			s := l.startStream("a", "b", "10.0.0.2")
			l.attach("sw")
			l.detach("sw")
			s.end(program.HookClsact) // what is between two programs that change may be lost
		}
	})
}
