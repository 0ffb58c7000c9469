// SPDX-License-Identifier: Apache-2.0

package control

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
	"time"
)

var to = netip.MustParseAddrPort("127.0.0.1:32766")

// with are abilities that differ.
func with(change func(*Abilities)) Abilities {
	a := able
	change(&a)
	return a
}

// Roles follow from what is at the other end of links: all of it.
func TestRoles(t *testing.T) {
	top := chain()
	top.Nodes = append(top.Nodes,
		TopologyNode{Device: Device{Name: "s4", Driver: "ebpf"}, Ports: map[string]Role{"e1": Edge, "e2": "none"}},
		TopologyNode{Device: Device{Name: "s5", Driver: "ebpf"}},
		TopologyNode{Device: Device{Name: "radar", Driver: "backpack"}})
	top.Links = append(top.Links, []string{"s4/e0", "s5/e0", "h1/e1"}, []string{"s4/e2", "s5/e2"}, []string{"s5/e3", "radar/x"})
	g := top.graph()
	var text []string
	for _, name := range top.deviceNames() {
		for _, p := range g.ports[name] {
			text = append(text, name+"/"+p.Name+" "+string(p.Role))
		}
	}
	want := "s1/e0 edge, s1/e1 transit, s2/e0 transit, s2/e1 transit, s3/e0 transit, s3/e1 edge, " +
		"s4/e0 edge, s4/e1 edge, s5/e0 edge, s5/e2 transit, s5/e3 edge"
	if got := strings.Join(text, ", "); got != want {
		t.Errorf("%s", got)
	}
	if g.group["s1"] != g.group["s3"] || g.group["s4"] != g.group["s5"] || g.group["s1"] == g.group["s4"] {
		t.Errorf("groups %v", g.group)
	}
}

// What a device cannot do is refused, or approximated if the intent allows it, and reported.
func TestCompile(t *testing.T) {
	all := map[string]Abilities{"s1": able, "s2": able, "s3": able}
	but := func(name string, change func(*Abilities)) map[string]Abilities {
		m := map[string]Abilities{"s1": able, "s2": able, "s3": able}
		m[name] = with(change)
		return m
	}
	tuple := func(a *Abilities) { a.Expressions = false }
	lacks := func(a *Abilities) { a.Expressions, a.Lacks = false, []string{"dscp", "ipv6", "proto"} }
	for _, c := range []struct {
		name      string
		intents   []Intent
		abilities map[string]Abilities
		want      string // entries of s1, s2 and s3
		reported  string // "~" is in front of what is approximated
	}{
		{"all", []Intent{{Name: "a"}}, all, "a:md:fc00 / / a:md:fc00", ""},
		{"one source", []Intent{{Name: "a", Devices: []string{"s3"}}}, all, "/ / a:md:fc00", ""},
		{"not a source", []Intent{{Name: "a", Devices: []string{"s2"}}}, all, "/ /", ""},
		{"postcards", []Intent{{Name: "a", Mode: XD}}, all, "a:xd:fc00 / a:xd:fc00 / a:xd:fc00", ""},
		{"postcards at sources", []Intent{{Name: "a", Mode: XD}}, but("s2", func(a *Abilities) { a.Postcards = false }), "a:xd:fc00 / / a:xd:fc00", ""},
		{
			"priority, age, name",
			[]Intent{{Name: "c", Created: now}, {Name: "b", Created: now}, {Name: "old", Created: now.Add(-1)}, {Name: "first", Priority: 1, Created: now}},
			map[string]Abilities{"s1": able}, "first:md:fc00 old:md:fc00 b:md:fc00 c:md:fc00", "",
		},
		{"over", []Intent{{Name: "a", Expires: now}}, all, "/ /", ""},
		{"mode, source", []Intent{{Name: "a", Mode: MX}}, but("s1", func(a *Abilities) { a.Modes = []Mode{MD} }), "/ /", "s1.mode"},
		{"mode, sink", []Intent{{Name: "a", Mode: MD10, Devices: []string{"s1"}}}, but("s3", func(a *Abilities) { a.Modes = []Mode{MD} }), "/ /", "s3.mode"},
		{"mode, transit", []Intent{{Name: "a", Mode: MD10}}, but("s2", func(a *Abilities) { a.Modes = []Mode{MD} }), "a:md1.0:fc00 / / a:md1.0:fc00", ""},
		{"mode, in its place", []Intent{{Name: "a", Mode: MD10, Fallback: Approximate}}, but("s3", func(a *Abilities) { a.Modes = []Mode{MD} }), "a:md:fc00 / / a:md:fc00", "~s3.mode"},
		{"mode, none in its place", []Intent{{Name: "a", Mode: MX, Fallback: Approximate}}, but("s3", func(a *Abilities) { a.Modes = []Mode{XD} }), "/ /", "s3.mode"},
		{"mark", []Intent{{Name: "a"}}, but("s2", func(a *Abilities) { a.MarkDSCP = false }), "/ /", "s2.mode"},
		{"states", []Intent{{Name: "a", States: []string{"node-id", "queue"}}}, but("s2", func(a *Abilities) { a.Instructions = 0x8000 }), "/ /", "s2.states"},
		{"states, approximated", []Intent{{Name: "a", States: []string{"node-id", "queue"}, Fallback: Approximate}}, but("s2", func(a *Abilities) { a.Instructions = 0x8000 }), "a:md:9000 / / a:md:9000", "~s2.states"},
		{"states that nobody named", []Intent{{Name: "a"}}, but("s2", func(a *Abilities) { a.Instructions = 0x8000 }), "a:md:fc00 / / a:md:fc00", ""},
		{"states of a postcard", []Intent{{Name: "a", Mode: XD, States: []string{"queue"}}}, but("s2", func(a *Abilities) { a.Instructions = 0x8000 }), "a:xd:1000 / / a:xd:1000", "s2.states"},
		{"sample", []Intent{{Name: "a", Sample: 9}}, but("s1", func(a *Abilities) { a.Sampling = false }), "/ / a:md:fc00/9", "s1.sample"},
		{"sample, approximated", []Intent{{Name: "a", Sample: 9, Fallback: Approximate}}, but("s1", func(a *Abilities) { a.Sampling = false }), "a:md:fc00 / / a:md:fc00/9", "~s1.sample"},
		{"expression", []Intent{{Name: "a", Slice: Slice{Expr: "tcp"}}}, but("s1", tuple), `/ / a(expr "tcp"):md:fc00`, "s1.slice.expr"},
		{"expression, approximated", []Intent{{Name: "a", Slice: Slice{Expr: "tcp"}, Fallback: Approximate}}, but("s1", tuple), `a:md:fc00 / / a(expr "tcp"):md:fc00`, "~s1.slice.expr"},
		{
			"lists", []Intent{{Name: "a", Slice: Slice{Src: []string{"10.0.0.1", "10.0.0.2"}, Dport: []string{"80", "443"}}}}, map[string]Abilities{"s1": with(tuple)},
			"a(src 10.0.0.1 dport 80):md:fc00 a(src 10.0.0.1 dport 443):md:fc00 a(src 10.0.0.2 dport 80):md:fc00 a(src 10.0.0.2 dport 443):md:fc00", "",
		},
		{
			"ranges", []Intent{{Name: "a", Slice: Slice{Dport: []string{"6-12"}}}}, map[string]Abilities{"s1": with(func(a *Abilities) { a.Expressions, a.Ranges = false, false })},
			"a(dport 6-7):md:fc00 a(dport 8-11):md:fc00 a(dport 12):md:fc00", "",
		},
		{
			"a field it has not", []Intent{{Name: "a", Slice: Slice{Proto: "tcp"}}, {Name: "b", Slice: Slice{Dport: []string{"80"}}}},
			map[string]Abilities{"s1": with(lacks)}, "b(dport 80):md:fc00", "s1.slice.proto",
		},
		{
			"a field it has not, approximated", []Intent{{Name: "a", Slice: Slice{Proto: "tcp", Dport: []string{"80"}}, Fallback: Approximate}},
			map[string]Abilities{"s1": with(lacks)}, "a(dport 80):md:fc00", "~s1.slice.proto",
		},
		{
			"IPv6", []Intent{{Name: "a", Slice: Slice{Src: []string{"fd00::/64"}}, Fallback: Approximate}, {Name: "b", Slice: Slice{Src: []string{"10.0.0.1", "fd00::1"}}}},
			map[string]Abilities{"s1": with(lacks)}, "/ /", "s1.slice s1.slice",
		},
		{
			"IPv6, approximated", []Intent{{Name: "a", Slice: Slice{Src: []string{"10.0.0.1", "fd00::1"}}, Fallback: Approximate}},
			map[string]Abilities{"s1": with(lacks)}, "a(src 10.0.0.1):md:fc00", "~s1.slice",
		},
		{
			"too many", []Intent{{Name: "a"}, {Name: "b", Slice: Slice{Dport: []string{"1", "3", "5", "7"}}}}, map[string]Abilities{"s1": with(tuple)},
			"a:md:fc00", "s1.slice",
		},
		{
			"too many, approximated", []Intent{{Name: "a", Slice: Slice{Dport: []string{"1", "3", "5", "7", "9"}}, Fallback: Approximate}}, map[string]Abilities{"s1": with(tuple)},
			"a(dport 0-15):md:fc00", "~s1.slice",
		},
		{
			"too many intents", []Intent{{Name: "a"}, {Name: "b"}, {Name: "c"}, {Name: "d"}, {Name: "e"}}, map[string]Abilities{"s1": able},
			"a:md:fc00 b:md:fc00 c:md:fc00 d:md:fc00", "s1.slice",
		},
		{"nobody knows yet", []Intent{{Name: "a"}}, nil, "/ /", ""},
	} {
		w := Wanted{Topology: chain(), Intents: c.intents}
		got := compile(&w, c.abilities, to, now)
		var devices, reported []string
		for _, name := range []string{"s1", "s2", "s3"} {
			var list []string
			for _, e := range got.states[name].Entries {
				text := e.Intent
				if s := e.Slice.String(); s != "all TCP and UDP" {
					text += "(" + s + ")"
				}
				text += fmt.Sprintf(":%s:%04x", e.Mode, e.Instructions)
				if e.Sample > 1 {
					text += fmt.Sprintf("/%d", e.Sample)
				}
				list = append(list, text)
			}
			devices = append(devices, strings.Join(list, " "))
		}
		for _, i := range c.intents {
			for _, r := range got.reasons[i.Name] {
				reported = append(reported, map[bool]string{true: "~"}[r.Approximated]+r.Device+"."+r.Field)
			}
		}
		text := strings.TrimSpace(strings.ReplaceAll(strings.Join(devices, " / "), "  ", " "))
		if strings.TrimSuffix(text, " / /") != strings.TrimSuffix(c.want, " / /") || strings.Join(reported, " ") != c.reported {
			t.Errorf("%s: %q, reported %q; want %q, %q", c.name, text, reported, c.want, c.reported)
		}
	}
}

// Pairs that match the same packets are reported.
func TestConflicts(t *testing.T) {
	dport := func(list ...string) Slice { return Slice{Dport: list} }
	for _, c := range []struct {
		a, b Intent
		want string // "", "some" or "whole"
	}{
		{Intent{}, Intent{}, "whole"},
		{Intent{}, Intent{Slice: dport("80")}, "whole"},
		{Intent{Slice: dport("80")}, Intent{}, "some"},
		{Intent{Slice: dport("80")}, Intent{Slice: dport("81")}, ""},
		{Intent{Slice: dport("80", "81-90")}, Intent{Slice: dport("80-90")}, "whole"},
		{Intent{Slice: dport("80-85")}, Intent{Slice: dport("84-90")}, "some"},
		{Intent{Slice: Slice{Src: []string{"10.0.0.0/8"}}}, Intent{Slice: Slice{Src: []string{"10.1.0.0/16"}, Proto: "tcp"}}, "whole"},
		{Intent{Slice: Slice{Src: []string{"10.0.0.0/16"}}}, Intent{Slice: Slice{Src: []string{"10.0.0.0/8"}}}, "some"},
		{Intent{Slice: Slice{Src: []string{"10.0.0.0/8"}}}, Intent{Slice: Slice{Dst: []string{"10.1.0.0/16"}}}, "some"},
		{Intent{Slice: Slice{Proto: "tcp"}}, Intent{Slice: Slice{Proto: "udp"}}, ""},
		{Intent{Slice: Slice{Expr: "tcp"}}, Intent{Slice: Slice{Expr: "tcp"}}, "whole"},
		{Intent{Slice: Slice{Expr: "tcp"}}, Intent{Slice: Slice{Proto: "tcp"}}, ""}, // it is not known
		{Intent{Mode: Backpack}, Intent{}, ""},
		{Intent{Devices: []string{"s1"}}, Intent{Devices: []string{"s2"}}, ""},
		{Intent{Devices: []string{"s1"}}, Intent{}, "some"},
		{Intent{Devices: []string{"s1", "s2"}}, Intent{Devices: []string{"s2"}}, "whole"},
	} {
		c.a.Name, c.b.Name = "a", "b"
		got := ""
		if list := conflicts([]Intent{c.a, c.b}); len(list) > 0 {
			got = map[bool]string{true: "whole", false: "some"}[list[0].Whole]
		}
		if got != c.want {
			t.Errorf("%v and %v: %q, want %q", &c.a.Slice, &c.b.Slice, got, c.want)
		}
	}
}

// Prefixes of a range are it, and no two share a port.
func TestPortPrefixes(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		a, b := uint16(r.Uint32()), uint16(r.Uint32())
		want := portRange{min(a, b), max(a, b)}
		next := int(want.first)
		for _, p := range want.prefixes() {
			size := int(p.last) - int(p.first) + 1
			if int(p.first) != next || size&(size-1) != 0 || int(p.first)%size != 0 {
				t.Fatalf("%v: %v", want, want.prefixes())
			}
			next = int(p.last) + 1
		}
		if next != int(want.last)+1 {
			t.Fatalf("%v: %v", want, want.prefixes())
		}
	}
}

// As many intents as there may be become as many entries, in their order.
func TestManyIntents(t *testing.T) {
	w := Wanted{Topology: chain()}
	for i := range MaxIntents {
		w.Intents = append(w.Intents, Intent{Name: fmt.Sprint("i", i), Slice: Slice{Dport: []string{fmt.Sprint(i)}}, Created: now.Add(time.Duration(i))})
	}
	got := compile(&w, map[string]Abilities{"s1": with(func(a *Abilities) { a.MaxEntries = 0 })}, to, now)
	if n := len(got.states["s1"].Entries); n != MaxIntents || got.states["s1"].Entries[7].Intent != "i7" {
		t.Errorf("%d entries", n)
	}
}
