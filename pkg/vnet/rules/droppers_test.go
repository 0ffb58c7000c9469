// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"slices"
	"strings"
	"testing"

	"github.com/vnetradar/radar/lab/test/nstest"
)

// TestDroppers: the bound is on what is wanted, not on what others come before; whether it cut, and legacy tables, are in the list.
func TestDroppers(t *testing.T) {
	n := nstest.New(t, "a")
	node := specs(t, n, "a")[0]
	var text strings.Builder
	text.WriteString("add table ip6 a; add chain ip6 a c { type filter hook forward priority 0; policy drop; }; ")
	for range maxDroppers {
		text.WriteString("add rule ip6 a c tcp dport 7 drop; ")
	}
	text.WriteString("add table ip z; add chain ip z c { type filter hook forward priority 0; }; add rule ip z c tcp dport 7 drop")
	n.Run("a", "nft", text.String())
	look := func(family string) DropperList {
		t.Helper()
		found, err := Droppers(node, func(d Dropper) bool { return d.Family == family && d.Hook == "forward" })
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	if found := look("ip"); len(found.List) != 1 || found.List[0].Table != "z" || found.List[0].Handle == 0 || found.Cut {
		t.Errorf("of IPv4: %+v", found)
	}
	if found := look("ip6"); len(found.List) != maxDroppers || !found.Cut {
		t.Errorf("of IPv6: %d, cut: %v", len(found.List), found.Cut)
	}
	legacy := func(want ...string) {
		t.Helper()
		found := slices.DeleteFunc(look("ip").Legacy, func(tool string) bool { return tool == "ebtables" }) // the machine's
		if !slices.Equal(found, want) {
			t.Errorf("legacy tables: %v, want %v", found, want)
		}
	}
	legacy()
	n.Run("a", "iptables-legacy", "-A", "FORWARD", "-p", "udp", "-j", "ACCEPT")
	legacy()
	n.Run("a", "iptables-legacy", "-A", "FORWARD", "-p", "udp", "-j", "DROP")
	legacy("iptables")
	n.Run("a", "ip6tables-legacy", "-P", "FORWARD", "DROP")
	legacy("iptables", "ip6tables")
}

// TestHookDroppers: rules of legacy tables are named as their tool counts them, and only those that packets came to, once
// packets came to any.
func TestHookDroppers(t *testing.T) {
	n := nstest.New(t, "a")
	node := specs(t, n, "a")[0]
	n.Run("a", "ip", "link", "set", "lo", "up")
	look := func(family string, want ...string) {
		t.Helper()
		found, err := HookDroppers(node, func(d Dropper) bool { return d.Family == family })
		if err != nil || found.Cut {
			t.Fatal(err, found.Cut)
		}
		var got []string
		for _, d := range found.List {
			if d.Legacy != "" {
				got = append(got, d.Hook+" "+d.String())
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", family, got, want)
		}
	}
	for _, args := range []string{"-A INPUT -p tcp -j ACCEPT", "-N none", "-N some", "-A some -p tcp -j RETURN", "-A some -p udp --dport 9 -j DROP",
		"-A some -p udp --dport 10 -j REJECT", "-A OUTPUT -j some", "-P FORWARD DROP"} {
		n.Run("a", append([]string{"iptables-legacy"}, strings.Fields(args)...)...)
	}
	n.Run("a", "ip6tables-legacy", "-t", "mangle", "-A", "PREROUTING", "-p", "udp", "-j", "DROP")
	look("ip", "forward iptables filter FORWARD: policy (0 packets)", " iptables filter some: rule 2 (0 packets)", " iptables filter some: rule 3 (0 packets)")
	look("ip6", "prerouting ip6tables mangle PREROUTING: rule 1 (0 packets)")
	n.Run("a", "python3", "-c", "import socket\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\nfor i in range(2):\n    try: s.sendto(b'x', ('127.0.0.1', 9))\n    except PermissionError: pass")
	look("ip", " iptables filter some: rule 2 (2 packets)")
	n.Run("a", "iptables-legacy", "-Z")
	look("ip", "forward iptables filter FORWARD: policy (0 packets)", " iptables filter some: rule 2 (0 packets)", " iptables filter some: rule 3 (0 packets)")
}

// TestBeforeConntrack: what drops before conntrack has seen a packet is known, of a chain's rules, too.
func TestBeforeConntrack(t *testing.T) {
	n := nstest.New(t, "a")
	node := specs(t, n, "a")[0]
	want := map[string]bool{"raw": true, "out": true, "mangle": false, "late": false}
	for chain, hook := range map[string]string{"raw": "prerouting priority -300", "out": "output priority -201", "mangle": "prerouting priority -150", "late": "forward priority -300"} {
		n.Run("a", "nft", "add table ip t; add chain ip t "+chain+" { type filter hook "+hook+"; policy drop; }; add rule ip t "+chain+" udp dport 7 drop")
	}
	found, err := Droppers(node, func(d Dropper) bool { return d.Family == "ip" })
	if err != nil || len(found.List) != 8 {
		t.Fatal(err, found.List)
	}
	for _, d := range found.List {
		if d.BeforeConntrack != want[d.Chain] {
			t.Errorf("%s: before conntrack %v", d, d.BeforeConntrack)
		}
	}
}
