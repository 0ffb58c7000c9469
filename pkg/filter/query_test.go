// SPDX-License-Identifier: Apache-2.0

package filter_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/vnetradar/radar/pkg/filter"
	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
)

// Nodes of the test's packets.
const h1, r1, r2 = 1, 2, 3

type names struct{}

func (names) NodeName(node uint16) string { return []string{"?", "h1", "r1", "r2"}[node] }
func (names) PortName(uint16) string      { return "" }
func (names) PortNode(uint16) uint16      { return packet.NoNode }

func addr(text string) packet.Addr { return netip.MustParseAddr(text).As16() }

// natted is a UDP packet from h1, whose source r1 changed, lost at r2.
func natted() *packet.Packet {
	p := &packet.Packet{
		State: record.Lost, HasTuple: true, Tuple: packet.Tuple{Src: addr("10.0.1.1"), Dst: addr("10.0.4.2"), SrcPort: 4000, DstPort: 53}, Proto: 17,
		Hops: []packet.Hop{{Node: h1}, {Node: r1, Changed: true}},
		Lost: true, Loss: packet.Drop{Node: r2, At: record.AtIngress},
	}
	p.Hops[1].Tuple = p.Tuple
	p.Hops[1].Tuple.Src, p.Hops[1].Tuple.SrcPort = addr("192.0.2.1"), 61000
	return p
}

func TestMatch(t *testing.T) {
	echo := natted()
	echo.Proto, echo.ICMP[0], echo.State, echo.Lost = 1, 8, record.Delivered, false
	six := natted()
	six.IPv6, six.Src = true, addr("2001:db8::1")
	orphan := natted()
	orphan.HasTuple, orphan.Hops = false, nil
	changed := natted()
	changed.HasTuple = false
	cut := natted()
	cut.Cut = packet.CutAll
	for _, tc := range []struct {
		name string
		spec filter.Spec
		p    *packet.Packet
		want bool
	}{
		{"everything", filter.Spec{}, natted(), true},
		{"source", filter.Spec{Src: "10.0.1.1"}, natted(), true},
		{"source prefix", filter.Spec{Src: "10.0.0.0/8"}, natted(), true},
		{"source prefix with host bits", filter.Spec{Src: "10.1.2.3/8"}, natted(), true},
		{"one of two", filter.Spec{AnyOf: []filter.Spec{{Dst: "10.0.1.1"}, {Node: "r1"}}}, natted(), true},
		{"none of two", filter.Spec{AnyOf: []filter.Spec{{Dst: "10.0.1.1"}, {Node: "r1", Sport: "53"}}}, natted(), false},
		{"one of two and more", filter.Spec{Proto: "tcp", AnyOf: []filter.Spec{{Src: "10.0.1.1"}}}, natted(), false},
		{"another source", filter.Spec{Src: "10.0.1.2"}, natted(), false},
		{"source is not destination", filter.Spec{Src: "10.0.4.2"}, natted(), false},
		{"source as changed", filter.Spec{Src: "192.0.2.1"}, natted(), true},
		{"one of two sources", filter.Spec{Src: "1.1.1.1, 10.0.1.1"}, natted(), true},
		{"IPv6 source", filter.Spec{Src: "2001:db8::/32"}, six, true},
		{"IPv6 source in brackets", filter.Spec{Src: "[2001:db8::1]"}, six, true},
		{"IPv6 prefix, IPv4 packet", filter.Spec{Src: "2001:db8::/32"}, natted(), false},
		{"everything in IPv4, source not known", filter.Spec{Src: "0.0.0.0/0"}, orphan, false},
		{"destination", filter.Spec{Dst: "10.0.4.0/24"}, natted(), true},
		{"another destination", filter.Spec{Dst: "10.0.5.0/24"}, natted(), false},
		{"protocol", filter.Spec{Proto: "udp"}, natted(), true},
		{"protocol in capitals", filter.Spec{Proto: "UDP"}, natted(), true},
		{"protocol by number", filter.Spec{Proto: "17"}, natted(), true},
		{"one of two protocols", filter.Spec{Proto: "tcp,udp"}, natted(), true},
		{"another protocol", filter.Spec{Proto: "tcp"}, natted(), false},
		{"source port", filter.Spec{Sport: "4000"}, natted(), true},
		{"source port as changed", filter.Spec{Sport: "61000"}, natted(), true},
		{"range", filter.Spec{Dport: "50-53"}, natted(), true},
		{"range beside", filter.Spec{Dport: "54-60"}, natted(), false},
		{"list of ports", filter.Spec{Dport: "1,2,50-60"}, natted(), true},
		{"port of a packet without", filter.Spec{Sport: "0-65535"}, echo, false},
		{"port of a packet that is cut before", filter.Spec{Sport: "0-65535"}, cut, false},
		{"source as changed, else not known", filter.Spec{Src: "192.0.2.1"}, changed, true},
		{"node visited", filter.Spec{Node: "r1"}, natted(), true},
		{"node where lost", filter.Spec{Node: "r2"}, natted(), true},
		{"another node", filter.Spec{Node: "r3"}, natted(), false},
		{"node, not a part of its name", filter.Spec{Node: "r"}, natted(), false},
		{"one of two nodes", filter.Spec{Node: "r9,h1"}, natted(), true},
		{"state", filter.Spec{State: "lost"}, natted(), true},
		{"one of two states", filter.Spec{State: "expired,lost"}, natted(), true},
		{"another state", filter.Spec{State: "in-flight"}, natted(), false},
		{"all fields", filter.Spec{Src: "10.0.1.1", Dst: "10.0.4.2", Proto: "udp", Sport: "4000", Dport: "53", Node: "h1", State: "lost"}, natted(), true},
		{"all fields but one", filter.Spec{Src: "10.0.1.1", Dst: "10.0.4.2", Proto: "udp", Sport: "4000", Dport: "54", Node: "h1", State: "lost"}, natted(), false},
	} {
		f, err := filter.Parse(tc.spec)
		if err != nil {
			t.Errorf("%s: %v", tc.name, err)
			continue
		}
		if got := f.Match(tc.p, names{}); got != tc.want {
			t.Errorf("%s: %+v matches: %v, want %v", tc.name, tc.spec, got, tc.want)
		}
	}
}

func TestParseErrors(t *testing.T) {
	for _, tc := range []struct {
		spec filter.Spec
		want []string // in the error
	}{
		{filter.Spec{Src: "10.0.0"}, []string{`src "10.0.0"`, "prefix"}},
		{filter.Spec{Src: "10.0.0.1,"}, []string{"src", "address"}},
		{filter.Spec{Dst: "10.0.0.0/33"}, []string{`dst "10.0.0.0/33"`}},
		{filter.Spec{Dst: "fe80::1%eth0"}, []string{"dst"}},
		{filter.Spec{Dst: "[::1"}, []string{`dst "[::1"`, "address"}},
		{filter.Spec{Dst: "::1]"}, []string{"dst"}},
		{filter.Spec{Proto: "tpc"}, []string{`proto "tpc"`, "tcp"}},
		{filter.Spec{Proto: "256"}, []string{"proto"}},
		{filter.Spec{Sport: "http"}, []string{`sport "http"`, "0 to 65535"}},
		{filter.Spec{Sport: "65536"}, []string{"sport"}},
		{filter.Spec{Dport: "20-10"}, []string{`dport "20-10"`}},
		{filter.Spec{Dport: "1-"}, []string{"dport"}},
		{filter.Spec{Dport: "-1"}, []string{"dport"}},
		{filter.Spec{Node: "a,,b"}, []string{"node"}},
		{filter.Spec{State: "dead"}, []string{`state "dead"`, "in_flight"}},
	} {
		f, err := filter.Parse(tc.spec)
		if err == nil || f != nil {
			t.Errorf("%+v: accepted", tc.spec)
			continue
		}
		for _, s := range tc.want {
			if !strings.Contains(err.Error(), s) {
				t.Errorf("%+v: error %q does not say %q", tc.spec, err, s)
			}
		}
	}
}

// A filter names what it asks for as it is compared, however it was written.
func TestAskedFor(t *testing.T) {
	f, err := filter.Parse(filter.Spec{Node: "h1, r1", State: "Lost,in-flight"})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := f.Nodes(), []string{"h1", "r1"}; !slices.Equal(got, want) {
		t.Errorf("nodes %q, want %q", got, want)
	}
	if got, want := f.States(), []record.State{record.Lost, record.InFlight}; !slices.Equal(got, want) {
		t.Errorf("states %q, want %q", got, want)
	}
	if f = nil; f.Nodes() != nil || f.States() != nil {
		t.Error("no filter asks for something")
	}
}

func FuzzParse(f *testing.F) {
	f.Add("10.0.0.0/8", "udp,6", "1-2,3", "r1", "lost")
	f.Fuzz(func(t *testing.T, addr, proto, port, node, state string) {
		flt, err := filter.Parse(filter.Spec{Src: addr, Dst: addr, Proto: proto, Sport: port, Dport: port, Node: node, State: state})
		if (err == nil) != (flt != nil) {
			t.Fatalf("filter %v, error %v", flt, err)
		}
		flt.Match(natted(), names{}) // nil matches too
	})
}
