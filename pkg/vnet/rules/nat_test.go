// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"testing"

	"github.com/vnetradar/radar/lab/test/nstest"
)

// TestNATRules: the ports of rules that translate sources are found, by the kernel's word alone.
func TestNATRules(t *testing.T) {
	const nat = "add table ip t; add map ip t m { type inet_service : inet_service; }; add chain ip t c { type nat hook postrouting priority 100; }; add rule ip t c "
	legacy := func(args ...string) []string {
		return append([]string{"iptables-legacy", "-t", "nat", "-A", "POSTROUTING", "-p", "tcp", "-j"}, args...)
	}
	for _, c := range []struct {
		do        []string
		low, high uint16 // 0: none is found
	}{
		{[]string{"nft", nat + "masquerade"}, lowestPort, highestPort},
		{[]string{"nft", nat + "tcp dport 80 masquerade to :5000-5003"}, 5000, 5003},
		{[]string{"nft", nat + "tcp dport 80 snat to 10.0.0.1:5000"}, 5000, 5000},
		{[]string{"nft", nat + "snat to 10.0.0.1-10.0.0.9"}, lowestPort, highestPort},
		{[]string{"nft", nat + "meta l4proto tcp snat to :tcp dport map @m"}, 0, 0},
		{[]string{"nft", nat + "tcp dport 80 accept"}, 0, 0},
		{[]string{"nft", "add table ip t; add chain ip t c { type nat hook prerouting priority -100; }; add rule ip t c tcp dport 80 dnat to 10.0.0.1:80-90"}, 0, 0},
		{[]string{"iptables-nft", "-t", "nat", "-A", "POSTROUTING", "-p", "udp", "-j", "SNAT", "--to", "10.0.0.1:5-9"}, 5, 9},
		{legacy("MASQUERADE"), lowestPort, highestPort},
		{legacy("MASQUERADE", "--to-ports", "5-9"), 5, 9},
		{legacy("SNAT", "--to", "10.0.0.1:5-9"), 5, 9},
		{append([]string{"ip6"}, legacy("MASQUERADE", "--to-ports", "7")...), 7, 7},
		{append([]string{"ip6"}, legacy("SNAT", "--to", "[fd00::1]:5-9")...), 5, 9},
	} {
		if c.do[0] == "ip6" {
			c.do = c.do[1:]
			c.do[0] = "ip6tables-legacy"
		}
		n := nstest.New(t, "a")
		if out, err := n.Try("a", c.do...); err != nil {
			t.Errorf("%q: %v: %s", c.do, err, out)
			continue
		}
		var list []NATRule
		if err := specs(t, n, "a")[0].Do(func() (err error) { list, err = natRules(); return err }); err != nil {
			t.Fatal(err)
		}
		if c.low == 0 && len(list) == 0 || len(list) == 1 && list[0].Low == c.low && list[0].High == c.high {
			continue
		}
		t.Errorf("%q: %+v, want %d-%d", c.do, list, c.low, c.high)
	}
}

// TestUsedUp: the kernel tries all ports of a small range, and some of a large one.
func TestUsedUp(t *testing.T) {
	for _, c := range []struct {
		low, high uint16
		used      int
		want      bool
	}{
		{5000, 5003, 3, false},
		{5000, 5003, 4, true},
		{5000, 5127, 127, false},
		{lowestPort, highestPort, 50000, false},
		{lowestPort, highestPort, 60000, true},
		{0, 65535, 65536, true},
	} {
		if r := (NATRule{Low: c.low, High: c.high}); r.usedUp(c.used) != c.want {
			t.Errorf("%d of %d-%d: used up %v", c.used, c.low, c.high, !c.want)
		}
	}
}
