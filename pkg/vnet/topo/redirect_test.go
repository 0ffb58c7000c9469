// SPDX-License-Identifier: Apache-2.0

package topo

import (
	"testing"

	"github.com/vnetradar/radar/lab/test/nstest"
)

// TestRedirects: which nodes can deliver packets to themselves that are addressed to
// others.
func TestRedirects(t *testing.T) {
	for name, c := range map[string]struct {
		commands [][]string
		want     bool
	}{
		"nothing":             {nil, false},
		"filter":              {[][]string{{"nft", "add table inet t; add chain inet t c { type filter hook prerouting priority 0; }"}}, false},
		"source NAT":          {[][]string{{"nft", "add table ip t; add chain ip t c { type nat hook postrouting priority 100; }"}}, false},
		"destination NAT":     {[][]string{{"nft", "add table ip t; add chain ip t c { type nat hook prerouting priority -100; }"}}, true},
		"IPv6":                {[][]string{{"nft", "add table ip6 t; add chain ip6 t c { type nat hook prerouting priority -100; }"}}, true},
		"inet":                {[][]string{{"nft", "add table inet t; add chain inet t c { type nat hook prerouting priority -100; }"}}, true},
		"iptables over nft":   {[][]string{{"iptables-nft", "-t", "nat", "-A", "PREROUTING", "-p", "tcp", "-j", "REDIRECT"}}, true},
		"iptables":            {[][]string{{"iptables-legacy", "-t", "nat", "-A", "PREROUTING", "-p", "tcp", "-j", "REDIRECT"}}, true},
		"iptables, no nat":    {[][]string{{"iptables-legacy", "-t", "filter", "-A", "INPUT", "-j", "ACCEPT"}}, false},
		"address":             {[][]string{{"ip", "address", "add", "10.0.0.1/32", "dev", "lo"}}, false},
		"loopback's network":  {[][]string{{"ip", "address", "add", "10.0.0.1/24", "dev", "lo"}}, true},
		"addresses, no names": {[][]string{{"ip", "route", "add", "local", "10.7.0.0/16", "dev", "lo"}}, true},
		"TPROXY":              {[][]string{{"ip", "route", "add", "local", "default", "dev", "lo", "table", "100"}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			n := nstest.New(t, "a")
			for _, command := range c.commands {
				n.Run("a", command...)
			}
			top, err := Discover(specs(t, n, "a"), nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := top.Nodes[0].Redirects; got != c.want {
				t.Errorf("redirects: %v", got)
			}
		})
	}
}
