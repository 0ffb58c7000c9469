// SPDX-License-Identifier: Apache-2.0

package topo

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vnetradar/radar/pkg/topo/nstest"
)

const allBits = AllMarks

// conflicts finds those of node a with a mask, as "what mask text".
func conflicts(t *testing.T, n *nstest.Net, mask uint32) []Conflict {
	t.Helper()
	found := FindConflicts(t.Context(), specs(t, n, "a"), mask)
	for i := range found {
		if found[i].Node != "a" {
			t.Errorf("conflict of node %q", found[i].Node)
		}
		found[i].Node = ""
	}
	return found
}

func TestConflictsNone(t *testing.T) {
	n := nstest.New(t, "a")
	n.Run("a", "nft", "add table inet t; add chain inet t c { type filter hook forward priority 0; }; add rule inet t c tcp dport 80 accept; add rule inet t c ct mark 1 accept")
	n.Run("a", "ip", "rule", "add", "to", "10.0.0.0/8", "table", "100")
	if found := conflicts(t, n, allBits); len(found) != 0 {
		t.Errorf("found %v", found)
	}
	n.Run("a", "ip", "rule", "add", "fwmark", "1", "table", "100")
	if found := conflicts(t, n, 0); len(found) != 0 {
		t.Errorf("--carry header has no conflicts, found %v", found)
	}
}

func TestConflicts(t *testing.T) {
	n := nstest.New(t, "a")
	n.Run("a", "ip", "rule", "add", "fwmark", "0x1/0xff", "table", "100", "priority", "7")
	n.Run("a", "ip", "rule", "add", "fwmark", "0x2", "table", "101", "priority", "8")
	n.Run("a", "ip", "-6", "rule", "add", "fwmark", "0x4/0xf", "table", "102", "priority", "9")
	n.Run("a", "sysctl", "-qw", "net.ipv4.fwmark_reflect=1", "net.ipv6.fwmark_reflect=1")
	n.Run("a", "nft", "add table inet t; add chain inet t c { type filter hook forward priority 0; }; add rule inet t c meta mark and 0xff00 == 0x100 drop; add rule inet t c meta mark set 5")
	n.Run("a", "iptables-nft", "-t", "mangle", "-A", "FORWARD", "-j", "MARK", "--set-xmark", "0x10000/0x10000")
	n.Run("a", "iptables-legacy", "-t", "mangle", "-A", "FORWARD", "-j", "CONNMARK", "--restore-mark")
	n.Run("a", "ip6tables-legacy", "-t", "mangle", "-A", "FORWARD", "-m", "mark", "--mark", "0x20000/0x20000", "-j", "DROP")

	want := []Conflict{
		{What: "ip rule", Text: "7: fwmark 0x1/0xff lookup 100", Mask: 0xff},
		{What: "ip rule", Text: "8: fwmark 0x2/0xffffffff lookup 101", Mask: allBits},
		{What: "ip -6 rule", Text: "9: fwmark 0x4/0xf lookup 102", Mask: 0xf},
		{What: "sysctl", Text: "net.ipv4.fwmark_reflect = 1", Mask: allBits},
		{What: "sysctl", Text: "net.ipv6.fwmark_reflect = 1", Mask: allBits},
		{What: "nft", Text: "inet t c: meta mark & 0x0000ff00 == 0x00000100 drop", Mask: 0xff00},
		{What: "nft", Text: "inet t c: meta mark set 0x00000005", Mask: allBits},
		{What: "iptables", Text: "-t mangle -A FORWARD -j CONNMARK --restore-mark --nfmask 0xffffffff --ctmask 0xffffffff", Mask: allBits},
		{What: "iptables", Text: "-t mangle -A FORWARD -j MARK --set-xmark 0x10000/0x10000", Mask: 0x10000},
	}
	want = append(want, Conflict{What: "ip6tables", Text: "-t mangle -A FORWARD -m mark --mark 0x20000/0x20000 -j DROP", Mask: 0x20000})
	if diff := cmp.Diff(want, conflicts(t, n, allBits)); diff != "" {
		t.Errorf("all bits (-want +got):\n%s", diff)
	}
	var narrow []string
	for _, c := range conflicts(t, n, 0xffff0000) {
		narrow = append(narrow, c.Text)
		if c.Mask&0xffff != 0 {
			t.Errorf("%s: mask %#x has bits that are not ours", c.Text, c.Mask)
		}
	}
	if len(narrow) != 7 || strings.Contains(strings.Join(narrow, " "), "0xff00 ") {
		t.Errorf("high bits: %q", narrow)
	}
}

// Rules without the mark need no tool; those with it are not overlooked, whoever made them.
func TestNftNamesMark(t *testing.T) {
	const table = "add table inet t; add chain inet t c { type filter hook prerouting priority -150; }; "
	for _, c := range []struct {
		rule []string
		want bool
	}{
		{[]string{"nft", table}, false},
		{[]string{"nft", table + "add rule inet t c tcp dport 80 counter accept; add rule inet t c iifname eth0 drop"}, false},
		{[]string{"nft", table + "add rule inet t c meta mark 7"}, true},
		{[]string{"nft", table + "add rule inet t c meta mark set ip saddr map { 10.0.0.1 : 1 }"}, true},
		{[]string{"nft", table + "add rule inet t c ct mark set meta mark & 0xf"}, true},
		{[]string{"nft", table + "add rule inet t c ip saddr . meta mark { 10.0.0.1 . 5 } drop"}, true},
		{[]string{"nft", table + "add rule inet t c meta mark vmap { 1 : drop }"}, true},
		{[]string{"iptables-nft", "-A", "FORWARD", "-p", "tcp", "--dport", "80", "-j", "DROP"}, false},
		{[]string{"iptables-nft", "-A", "FORWARD", "-m", "mark", "--mark", "1/0xf"}, true},
		{[]string{"iptables-nft", "-t", "mangle", "-A", "FORWARD", "-j", "MARK", "--set-mark", "1"}, true},
		{[]string{"ip6tables-nft", "-t", "mangle", "-A", "FORWARD", "-j", "CONNMARK", "--save-mark"}, true},
		{[]string{"iptables-nft", "-t", "mangle", "-A", "PREROUTING", "-p", "tcp", "-j", "TPROXY", "--on-port", "1", "--tproxy-mark", "1/3"}, true},
	} {
		n := nstest.New(t, "a")
		n.Run("a", c.rule...)
		var got bool
		if err := specs(t, n, "a")[0].Do(func() error {
			got = nftNamesMark()
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if got != c.want {
			t.Errorf("%q: %v, want %v", c.rule, got, c.want)
		}
	}
}

func TestNftMarkRules(t *testing.T) {
	for expr, want := range map[string]uint32{
		`{"match":{"op":"==","left":{"payload":{"protocol":"tcp","field":"dport"}},"right":80}}`:                  0,
		`{"match":{"op":"==","left":{"meta":{"key":"mark"}},"right":1}}`:                                          allBits,
		`{"match":{"op":"==","left":{"&":[{"meta":{"key":"mark"}},240]},"right":16}}`:                             0xf0,
		`{"match":{"op":"==","left":{"ct":{"key":"mark"}},"right":1}}`:                                            0,
		`{"mangle":{"key":{"meta":{"key":"mark"}},"value":{"&":[{"meta":{"key":"mark"}},4294967040]}}}`:           0xff,
		`{"mangle":{"key":{"meta":{"key":"mark"}},"value":{"|":[{"meta":{"key":"mark"}},3]}}}`:                    3,
		`{"mangle":{"key":{"meta":{"key":"mark"}},"value":{"|":[{"&":[{"meta":{"key":"mark"}},4294967280]},1]}}}`: 0xf,
		`{"mangle":{"key":{"meta":{"key":"mark"}},"value":{"&":[{"ct":{"key":"mark"}},255]}}}`:                    allBits,
		`{"mangle":{"key":{"ct":{"key":"mark"}},"value":{"meta":{"key":"mark"}}}}`:                                allBits,
		`{"mangle":{"key":{"ct":{"key":"mark"}},"value":{"&":[{"meta":{"key":"mark"}},15]}}}`:                     15,
		`{"match":{"op":"==","left":{"meta":{"key":"mark"}},"right":{"prefix":{"addr":117440512,"len":8}}}}`:      0xff000000,
		`{"vmap":{"key":{"meta":{"key":"mark"}},"data":{"set":[[1,{"accept":null}]]}}}`:                           allBits,
		`{"match":{"op":"==","left":{"concat":[{"meta":{"key":"mark"}}]},"right":{"set":[1]}}}`:                   allBits,
	} {
		rules, err := nftMarkRules([]byte(`{"nftables":[{"metainfo":{}},{"rule":{"family":"ip","table":"t","chain":"c","handle":2,"expr":[` + expr + `]}}]}`))
		if err != nil {
			t.Fatal(err)
		}
		got := uint32(0)
		for _, r := range rules {
			got |= r.mask
		}
		if got != want {
			t.Errorf("%s: %#x, want %#x", expr, got, want)
		}
	}
	if _, err := nftMarkRules([]byte("no json")); err == nil {
		t.Error("what is no JSON is read")
	}
}

func TestIptablesBits(t *testing.T) {
	for rule, want := range map[string]uint32{
		"-A FORWARD -p tcp -j ACCEPT":                                                      0,
		"-A FORWARD -m mark --mark 0x1 -j ACCEPT":                                          allBits,
		"-A FORWARD -m mark --mark 0x1/0xf -j ACCEPT":                                      0xf,
		"-A FORWARD -m mark ! --mark 0x1/0xf -j ACCEPT":                                    0xf,
		"-A FORWARD -m connmark --mark 0x1 -j ACCEPT":                                      0,
		"-A FORWARD -j MARK --set-xmark 0x5/0xff":                                          0xff,
		"-A FORWARD -j CONNMARK --set-xmark 0x5/0xff":                                      0,
		"-A FORWARD -j CONNMARK --save-mark --nfmask 0xf0 --ctmask 0xff":                   0xf0,
		"-A PREROUTING -p tcp -j TPROXY --on-port 1 --on-ip 0.0.0.0 --tproxy-mark 0x1/0x3": 3,
	} {
		if got := iptablesBits(strings.Fields(rule)); got != want {
			t.Errorf("%s: %#x, want %#x", rule, got, want)
		}
	}
}

// Ten nodes with a firewall that does not use the mark.
func BenchmarkFindConflicts(b *testing.B) {
	n := nstest.New(b)
	var names []string
	for i := range 10 {
		names = append(names, fmt.Sprintf("n%d", i))
		n.Add(names[i])
		n.Run(names[i], "nft", "add table inet t; add chain inet t c { type filter hook forward priority 0; }; add rule inet t c tcp dport 80 counter accept")
	}
	s := specs(b, n, names...)
	for b.Loop() {
		if found := FindConflicts(b.Context(), s, AllMarks); len(found) > 0 {
			b.Fatal(found)
		}
	}
}
