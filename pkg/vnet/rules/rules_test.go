// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/vnet/topo"
)

const allBits = AllMarks

// conflicts finds those of node a with a mask, as "what mask text".
func conflicts(t *testing.T, n *nstest.Net, mask uint32) []Conflict {
	t.Helper()
	found := Find(t.Context(), specs(t, n, "a"), mask)
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
		{What: "nft", Text: "inet t c: meta mark & 0x0000ff00 == 0x00000100 drop", Mask: 0xff00},
		{What: "nft", Text: "inet t c: meta mark set 0x00000005", Mask: allBits},
		{What: "iptables", Text: "-t mangle -A FORWARD -j MARK --set-xmark 0x10000/0x10000", Mask: 0x10000},
		{What: "sysctl", Text: "net.ipv4.fwmark_reflect = 1", Mask: allBits},
		{What: "sysctl", Text: "net.ipv6.fwmark_reflect = 1", Mask: allBits},
		{What: "iptables", Text: "-t mangle -A FORWARD -j CONNMARK --restore-mark --nfmask 0xffffffff --ctmask 0xffffffff", Mask: allBits},
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

// TestMarkUsers: whatever uses the mark is found, with its bits, by the kernel's word alone:
// a machine need not have the tool that made it.
func TestMarkUsers(t *testing.T) {
	const table = "add table inet t; add chain inet t c { type filter hook prerouting priority -150; }; add rule inet t c "
	nft := func(rule string) []string { return []string{"nft", table + rule} }
	for _, c := range []struct {
		make []string
		want uint32
	}{
		{nft("tcp dport 80 counter accept"), 0},
		{nft("iifname eth0 ct mark 1 drop"), 0},
		{nft("ct mark set 7"), 0},
		{nft("meta mark 7"), allBits},
		{nft("meta mark and 0x8000 == 0x8000 drop"), 0x8000},
		{nft("meta mark 0x80000000/1 counter ip saddr 10.0.0.1 tcp dport 80 drop"), 0x80000000},
		{nft("meta mark 5-9 drop"), allBits},
		{nft("meta mark & 0xffff vmap { 1 : drop }"), 0xffff},
		{nft("ip saddr . meta mark { 10.0.0.1 . 5 } drop"), allBits},
		{nft("meta mark set meta mark & 0xffffff00"), 0xff},
		{nft("meta mark set meta mark | 3 counter"), 3},
		{nft("meta mark set meta mark ^ 0x4000"), 0x4000},
		{nft("meta mark set meta mark & 0xfffffff0 | 1"), 0xf},
		{nft("meta mark set meta mark << 4"), allBits},
		{nft("meta mark set ct mark & 0xff"), allBits},
		{nft("meta mark set ip saddr map { 10.0.0.1 : 1 }"), allBits},
		{nft("ct mark set meta mark & 0xf"), 0xf},
		{nft("ct zone set meta mark map { 1 : 2 }"), allBits},
		{nft("fib saddr . mark oif missing drop"), allBits},
		{[]string{"iptables-nft", "-A", "FORWARD", "-p", "tcp", "--dport", "80", "-j", "DROP"}, 0},
		{[]string{"iptables-nft", "-A", "FORWARD", "-m", "mark", "--mark", "1/0xf"}, 0xf},
		{[]string{"iptables-nft", "-t", "mangle", "-A", "FORWARD", "-j", "MARK", "--set-mark", "1"}, allBits},
		{[]string{"iptables-nft", "-t", "raw", "-A", "PREROUTING", "-j", "CT", "--zone", "mark"}, allBits},
		{[]string{"iptables-nft", "-t", "raw", "-A", "PREROUTING", "-j", "CT", "--zone", "5"}, 0},
		{[]string{"ip6tables-nft", "-t", "mangle", "-A", "FORWARD", "-j", "CONNMARK", "--save-mark"}, allBits},
		{[]string{"iptables-nft", "-t", "mangle", "-A", "PREROUTING", "-p", "tcp", "-j", "TPROXY", "--on-port", "1", "--tproxy-mark", "1/3"}, 3},
		{[]string{"ebtables-nft", "-A", "FORWARD", "--mark", "0x8000/0x8000", "-j", "DROP"}, 0x8000},
		{[]string{"ebtables-nft", "-t", "nat", "-A", "PREROUTING", "-j", "mark", "--mark-or", "0x10"}, 0x10},
		{[]string{"ebtables-nft", "-t", "nat", "-A", "PREROUTING", "-j", "mark", "--mark-and", "0xffffff00"}, 0xff},
		{[]string{"ebtables-nft", "-t", "nat", "-A", "PREROUTING", "-j", "mark", "--mark-set", "0x10"}, allBits},
		{[]string{"iptables-legacy", "-A", "FORWARD", "-p", "tcp", "--dport", "80", "-j", "DROP"}, 0},
		{[]string{"iptables-legacy", "-A", "FORWARD", "-m", "mark", "--mark", "1/0xf"}, 0xf},
		{[]string{"iptables-legacy", "-t", "mangle", "-A", "FORWARD", "-j", "MARK", "--xor-mark", "0x30"}, 0x30},
		{[]string{"iptables-legacy", "-t", "mangle", "-A", "FORWARD", "-j", "CONNMARK", "--set-mark", "1"}, 0},
		{[]string{"iptables-legacy", "-t", "mangle", "-A", "FORWARD", "-j", "CONNMARK", "--save-mark", "--nfmask", "0xf0", "--ctmask", "0xff"}, 0xf0},
		{[]string{"iptables-legacy", "-t", "raw", "-A", "PREROUTING", "-j", "CT", "--zone", "mark"}, allBits},
		{[]string{"iptables-legacy", "-t", "mangle", "-A", "FORWARD", "-j", "HMARK", "--hmark-tuple", "src", "--hmark-mod", "10", "--hmark-rnd", "1"}, allBits},
		{[]string{"iptables-legacy", "-t", "raw", "-A", "PREROUTING", "-m", "rpfilter", "--validmark"}, allBits},
		{[]string{"ip6tables-legacy", "-t", "mangle", "-A", "FORWARD", "-m", "mark", "!", "--mark", "0x20000/0x20000", "-j", "DROP"}, 0x20000},
		{[]string{"ip", "rule", "add", "fwmark", "0x4000/0x4000", "blackhole"}, 0x4000},
		{[]string{"ip", "xfrm", "policy", "add", "src", "10.1.0.0/16", "dst", "10.2.0.0/16", "dir", "fwd", "action", "block", "mark", "0x8000", "mask", "0x8000"}, 0x8000},
		{[]string{"ip", "xfrm", "policy", "add", "src", "10.1.0.0/16", "dst", "10.2.0.0/16", "dir", "fwd", "action", "block"}, 0},
		{[]string{"ip", "xfrm", "state", "allocspi", "src", "10.1.0.1", "dst", "10.2.0.1", "proto", "esp", "mark", "0x30", "mask", "0xf0", "min", "256", "max", "512"}, 0xf0},
	} {
		n := nstest.New(t, "a")
		if out, err := n.Try("a", c.make...); err != nil {
			t.Errorf("%q: %v: %s", c.make, err, out)
			continue
		}
		path := os.Getenv("PATH")
		os.Setenv("PATH", "/nowhere")
		got := uint32(0)
		for _, found := range conflicts(t, n, allBits) {
			got |= found.Mask
		}
		os.Setenv("PATH", path)
		if got != c.want {
			t.Errorf("%q: %#x, want %#x", c.make, got, c.want)
		}
	}
}

// The services of IPVS that a mark chooses; few kernels at hand have it.
func TestParseIPVS(t *testing.T) {
	found := parseIPVS([]byte("IP Virtual Server version 1.2.1 (size=4096)\nProt LocalAddress:Port Scheduler Flags\nTCP  0A000001:0050 rr\nFWM  00000005 wrr\n"))
	if len(found) != 1 || found[0].Text != "service of fwmark 0x00000005" || found[0].Mask != allBits {
		t.Errorf("found %v", found)
	}
}

func TestTableBits(t *testing.T) {
	for rule, want := range map[string]uint32{
		"-A FORWARD -p tcp -j ACCEPT":                                                      0,
		"-A PREROUTING -j CT --zone mark":                                                  allBits,
		"-A PREROUTING -j CT --zone 5":                                                     0,
		"-A FORWARD -j MARK --set-xmark 0x5/0x0":                                           5,
		"-A FORWARD --mark 0x8000/0x8000 -j DROP":                                          0x8000,
		"-A PREROUTING -j mark --mark-or 0x10 --mark-target CONTINUE":                      0x10,
		"-A FORWARD -m mark --mark 0x1 -j ACCEPT":                                          allBits,
		"-A FORWARD -m mark --mark 0x1/0xf -j ACCEPT":                                      0xf,
		"-A FORWARD -m mark ! --mark 0x1/0xf -j ACCEPT":                                    0xf,
		"-A FORWARD -m connmark --mark 0x1 -j ACCEPT":                                      0,
		"-A FORWARD -j MARK --set-xmark 0x5/0xff":                                          0xff,
		"-A FORWARD -j CONNMARK --set-xmark 0x5/0xff":                                      0,
		"-A FORWARD -j CONNMARK --save-mark --nfmask 0xf0 --ctmask 0xff":                   0xf0,
		"-A PREROUTING -p tcp -j TPROXY --on-port 1 --on-ip 0.0.0.0 --tproxy-mark 0x1/0x3": 3,
	} {
		tool := "iptables"
		if !strings.Contains(rule, "-m ") && !strings.Contains(rule, "-p ") && (strings.Contains(rule, "--mark ") || strings.Contains(rule, "-j mark")) {
			tool = "ebtables"
		}
		if got := tableBits(tool, strings.Fields(rule)); got != want {
			t.Errorf("%s: %#x, want %#x", rule, got, want)
		}
	}
}

// Ten nodes with a firewall that does not use the mark.
func BenchmarkFind(b *testing.B) {
	n := nstest.New(b)
	var names []string
	for i := range 10 {
		names = append(names, fmt.Sprintf("n%d", i))
		n.Add(names[i])
		n.Run(names[i], "nft", "add table inet t; add chain inet t c { type filter hook forward priority 0; }; add rule inet t c tcp dport 80 counter accept")
	}
	s := specs(b, n, names...)
	for b.Loop() {
		if found := Find(b.Context(), s, AllMarks); len(found) > 0 {
			b.Fatal(found)
		}
	}
}

// specs are those of nodes.
func specs(t testing.TB, n *nstest.Net, names ...string) []topo.NodeSpec {
	t.Helper()
	args := make([]string, len(names))
	for i, name := range names {
		args[i] = n.Spec(name)
	}
	s, err := topo.ParseSpecs(args)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
