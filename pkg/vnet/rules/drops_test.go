// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"testing"

	"github.com/vnetradar/radar/lab/test/nstest"
)

// Rules and policies that drop are found among those that do not.
func TestDropping(t *testing.T) {
	n := nstest.New(t, "a")
	node := specs(t, n, "a")[0]
	xt := func(want bool) {
		t.Helper()
		if got, err := Dropping(node); got != want || err != nil {
			t.Errorf("rules of legacy tables that drop: %v, %v; want %v", got, err, want)
		}
	}
	nft := func(want bool) {
		t.Helper()
		var got bool
		if err := node.Do(func() error { got = nftDropping(); return nil }); got != want || err != nil {
			t.Errorf("rules of nf_tables that drop: %v, %v; want %v", got, err, want)
		}
	}
	xt(false)
	n.Run("a", "iptables-legacy", "-N", "other")
	n.Run("a", "iptables-legacy", "-A", "FORWARD", "-p", "udp", "-j", "other")
	n.Run("a", "iptables-legacy", "-A", "other", "-p", "udp", "-j", "RETURN")
	n.Run("a", "iptables-legacy", "-A", "other", "-p", "tcp", "-j", "ACCEPT")
	n.Run("a", "iptables-legacy", "-t", "nat", "-A", "POSTROUTING", "-j", "MASQUERADE")
	xt(false)
	n.Run("a", "iptables-legacy", "-A", "other", "-p", "tcp", "-j", "REJECT")
	xt(true)
	n.Run("a", "iptables-legacy", "-D", "other", "-p", "tcp", "-j", "REJECT")
	xt(false)
	n.Run("a", "ip6tables-legacy", "-A", "FORWARD", "-p", "udp", "-j", "DROP")
	xt(true)
	n.Run("a", "ip6tables-legacy", "-F")
	n.Run("a", "ip6tables-legacy", "-P", "FORWARD", "DROP")
	xt(true)

	nft(false)
	n.Run("a", "nft", "add table inet t; add chain inet t c { type filter hook forward priority 0; }; add rule inet t c tcp dport 80 accept; add rule inet t c counter return")
	nft(false)
	for _, rule := range []string{"udp dport 7 drop", "udp dport 7 reject", "udp dport vmap { 7 : drop }"} {
		n.Run("a", "nft", "add rule inet t c "+rule)
		nft(true)
		n.Run("a", "nft", "flush chain inet t c")
		nft(false)
	}
	n.Run("a", "nft", "add chain inet t c { policy drop; }")
	nft(true)
}
