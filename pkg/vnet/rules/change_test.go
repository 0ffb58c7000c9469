// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"net/netip"
	"os"
	"slices"
	"testing"

	"github.com/vnetradar/radar/lab/test/nstest"
)

const every = SetsNumber | SetsContent | SetsMSS | SetsAddresses | TakesItself

// TestChangingRules: what rules do to packets is found, by the kernel's word alone.
func TestChangingRules(t *testing.T) {
	const filter = "add table inet t; add chain inet t c { type filter hook forward priority 0; }; add rule inet t c "
	const nat = "add table ip t; add map ip t m { type inet_service : ipv4_addr; }; add chain ip t c { type nat hook prerouting priority -100; }; add rule ip t c "
	const nat6 = "add table ip6 t; add chain ip6 t c { type nat hook prerouting priority -100; }; add rule ip6 t c "
	for _, c := range []struct {
		do   []string
		want Kind
	}{
		{[]string{"nft", filter + "tcp dport 80 accept"}, 0},
		{[]string{"nft", filter + "ip ttl set 9"}, 0},
		{[]string{"nft", filter + "ip dscp set 3"}, 0},
		{[]string{"nft", filter + "ip6 dscp set 3"}, 0},
		{[]string{"nft", filter + "ip6 hoplimit set 3"}, 0},
		{[]string{"nft", filter + "tcp option maxseg exists accept"}, 0},
		{[]string{"nft", filter + "ip id set 7"}, SetsNumber},
		{[]string{"nft", filter + "ip6 flowlabel set 5"}, SetsNumber},
		{[]string{"nft", "add table bridge t; add chain bridge t c { type filter hook forward priority 0; }; add rule bridge t c ip id set 7"}, SetsNumber},
		{[]string{"nft", filter + "ip saddr set 10.0.0.1"}, SetsAddresses},
		{[]string{"nft", filter + "ip6 daddr set fd00::1"}, SetsAddresses},
		{[]string{"nft", filter + "tcp dport set 80"}, SetsAddresses},
		{[]string{"nft", filter + "tcp option maxseg size set 1000"}, SetsMSS},
		{[]string{"nft", filter + "reset tcp option timestamp"}, SetsContent},
		{[]string{"nft", filter + "tcp window set 5"}, SetsContent},
		{[]string{"nft", nat + "tcp dport 80 dnat to 10.0.0.9"}, SetsAddresses},
		{[]string{"nft", nat + "tcp dport 80 dnat to :8080"}, SetsAddresses},
		{[]string{"nft", nat + "tcp dport 80 dnat to 10.0.0.1:8080"}, SetsAddresses | TakesItself},
		{[]string{"nft", nat + "tcp dport 80 dnat to 10.0.0.0-10.0.0.9"}, SetsAddresses | TakesItself},
		{[]string{"nft", nat + "tcp dport 80 dnat to 10.0.0.2-10.0.0.9"}, SetsAddresses},
		{[]string{"nft", nat + "dnat to tcp dport map @m"}, SetsAddresses | TakesItself},
		{[]string{"nft", nat + "redirect"}, SetsAddresses | TakesItself},
		{[]string{"nft", nat6 + "dnat to fd00:1::1"}, SetsAddresses | TakesItself},
		{[]string{"nft", nat6 + "dnat to fd00:1::2"}, SetsAddresses},
		{[]string{"iptables-nft", "-t", "nat", "-A", "PREROUTING", "-j", "DNAT", "--to", "10.0.0.1"}, SetsAddresses | TakesItself},
		{[]string{"iptables-nft", "-t", "nat", "-A", "PREROUTING", "-p", "tcp", "-j", "DNAT", "--to", "10.0.0.2:80"}, SetsAddresses},
		{[]string{"iptables-legacy", "-t", "nat", "-A", "PREROUTING", "-j", "DNAT", "--to", "10.0.0.1"}, SetsAddresses | TakesItself},
		{[]string{"iptables-legacy", "-t", "nat", "-A", "PREROUTING", "-j", "DNAT", "--to", "10.0.0.0-10.0.0.4"}, SetsAddresses | TakesItself},
		{[]string{"iptables-legacy", "-t", "nat", "-A", "PREROUTING", "-j", "DNAT", "--to", "10.0.0.2"}, SetsAddresses},
		{[]string{"iptables-legacy", "-t", "nat", "-A", "PREROUTING", "-p", "udp", "-j", "REDIRECT", "--to-ports", "5"}, SetsAddresses | TakesItself},
		{[]string{"ip6tables-legacy", "-t", "nat", "-A", "PREROUTING", "-j", "DNAT", "--to", "fd00:1::1"}, SetsAddresses | TakesItself},
		{[]string{"ip6tables-legacy", "-t", "nat", "-A", "PREROUTING", "-j", "DNAT", "--to", "fd00:1::2"}, SetsAddresses},
		{[]string{"iptables-legacy", "-t", "nat", "-A", "POSTROUTING", "-j", "MASQUERADE"}, SetsAddresses},
		{[]string{"iptables-legacy", "-t", "mangle", "-A", "FORWARD", "-p", "tcp", "--syn", "-j", "TCPMSS", "--set-mss", "1000"}, SetsMSS},
		{[]string{"iptables-nft", "-t", "mangle", "-A", "FORWARD", "-p", "tcp", "-j", "TCPOPTSTRIP", "--strip-options", "8"}, SetsContent},
		{[]string{"iptables-legacy", "-t", "mangle", "-A", "FORWARD", "-p", "tcp", "--dport", "5", "-j", "DSCP", "--set-dscp", "3"}, 0},
	} {
		n := nstest.New(t, "a")
		n.Run("a", "ip", "addr", "add", "10.0.0.1/32", "dev", "lo")
		n.Run("a", "ip", "addr", "add", "fd00:1::1/128", "dev", "lo", "nodad")
		n.Run("a", "ip", "link", "set", "lo", "up")
		if out, err := n.Try("a", c.do...); err != nil {
			t.Errorf("%q: %v: %s", c.do, err, out)
			continue
		}
		node := specs(t, n, "a")[0]
		var addrs []netip.Addr
		nstest.WaitFor(t, "the address of IPv6, which comes a moment later", func() bool {
			var err error
			addrs, err = node.Locals()
			return err == nil && slices.Contains(addrs, netip.MustParseAddr("fd00:1::1"))
		})
		found, err := findChanging(node, every, addrs)
		if err != nil {
			t.Fatal(err)
		}
		got := Kind(0)
		for _, r := range found {
			got |= r.Kind
		}
		if got != c.want {
			t.Errorf("%q: %v, want %v", c.do, got, c.want)
		}
		if takes := ToItself(node) != ""; takes != (c.want&TakesItself != 0) {
			t.Errorf("%q: it takes packets itself: %v", c.do, takes)
		}
	}
}

// TestOnBridges: rules are named, with their text where a tool has it. Those for what is routed matter to bridges where
// br_netfilter is.
func TestOnBridges(t *testing.T) {
	n := nstest.New(t, "a")
	node := specs(t, n, "a")[0]
	n.Run("a", "nft", "add table bridge t; add chain bridge t c { type filter hook forward priority 0; }; add rule bridge t c tcp option maxseg size set 9")
	if got := OnBridges(t.Context(), node, SetsNumber); len(got) != 0 {
		t.Errorf("another rule: %v", got)
	}
	n.Run("a", "nft", "add table ip t; add chain ip t c { type filter hook forward priority 0; }; add rule ip t c ip id set 5")
	_, err := os.Stat("/proc/sys/net/bridge")
	if got := OnBridges(t.Context(), node, SetsNumber); (len(got) == 1) != (err == nil) {
		t.Errorf("a rule for what is routed: %v, bridges ask them: %v", got, err == nil)
	}
	n.Run("a", "nft", "delete table ip t; add rule bridge t c ip id set 7")
	if got := OnBridges(t.Context(), node, SetsNumber); len(got) != 1 || got[0].String() != "nft bridge t c: ip id set 7" {
		t.Errorf("found %v", got)
	}
}
