// SPDX-License-Identifier: Apache-2.0

package transparency

import (
	"flag"
	"os"
	"slices"
	"strings"
	"testing"
)

// always are the cases of the tier "test", those that take longest first; "nightly" runs all.
// They are as few as go through all of radar's programs that differ, in both modes, and quick.
var always = []string{
	"function/machine",                               // attach --vm, a machine that answers
	"errors/eight-bytes",                             // a router in the domain that is not attached, quotes of 8 bytes, IPv4 and IPv6
	"tcp/plain",                                      // connections of kernels
	"ttl/set-on-bridge",                              // known by content alone
	"ttl/expiry", "pmtu/attached", "errors/to-nodes", // errors that quote IPv4, restored
	"ipv6/expiry",                                      // errors that quote IPv6
	"ipv6/by-key", "ipv6/extensions", "ipv6/fragments", // no label, headers between
	"ipv6/udp-trains-cut",
	"fragments/sent", "fragments/midway", "fragments/repeated-id", "fragments/one-id", // found by key
	"groups/bridge", "groups/router", "bridges/hairpin", "bridges/queue", // copies, closed bridges, losses there
	"nat/hairpin", "nat6/both", "tproxy/bits", // addresses change, packets for others end in a router
	"drops/nftables", "drops6/routing", // losses by rule and by routing
	"tunnels/trains", "tunnels/loss", // inner and outer packets
	"queues/tbf", "queues/tbf-drop", "queues/trains-tbf", // waits, losses, trains that are cut
	"netem/loss", "netem/duplicate", "ecn/marked-on-link",
	"function/forwarder",                               // sends anew what it reads
	"offload/tso", "offload/udp", "offload/cut-inside", // trains of TCP and UDP
	"forms/options", "forms/xdp-switch", "vlan/links", "macvlan/containers",
	"marks/true-fields", "marks/rules", "marks6/true-fields", // rules that look at marks and headers
	"ifb/loss",
	"function/switch-trains",         // trains that are cut behind the hook, found by key
	"mirror/redirect-out", "ifb/out", // what tc does behind the egress hook
}

// inOrder are all cases, those first that are always run: the longest of them must not be the
// last to begin.
func inOrder() []*Case {
	list := make([]*Case, len(cases))
	for i := range cases {
		list[i] = &cases[i]
	}
	rank := func(c *Case) int {
		if i := slices.Index(always, c.Name); i >= 0 {
			return i
		}
		return len(always)
	}
	slices.SortStableFunc(list, func(a, b *Case) int { return rank(a) - rank(b) })
	return list
}

// TestTier: each point has a case in the tier "test", in every mode that any of its cases has.
func TestTier(t *testing.T) {
	have, all := make(map[int]map[Mode]bool), make(map[int]map[Mode]bool)
	for i := range cases {
		c := &cases[i]
		if have[c.Point] == nil {
			have[c.Point], all[c.Point] = make(map[Mode]bool), make(map[Mode]bool)
		}
		for _, mode := range c.Modes {
			all[c.Point][mode] = true
			have[c.Point][mode] = have[c.Point][mode] || slices.Contains(always, c.Name)
		}
	}
	for point, modes := range all {
		for mode := range modes {
			if !have[point][mode] {
				t.Errorf("point %d has no case in mode %s in the tier \"test\"", point, mode)
			}
		}
	}
	for i, name := range always {
		if !slices.ContainsFunc(cases, func(c Case) bool { return c.Name == name }) {
			t.Errorf("there is no case %s", name)
		}
		if slices.Contains(always[:i], name) {
			t.Errorf("%s is named twice", name)
		}
	}
}

// now reports whether a case is run: in its tier, or because somebody has named it.
func (c *Case) now() bool {
	if os.Getenv("RADAR_CASE") != "" || slices.Contains(always, c.Name) {
		return true
	}
	_, of, _ := strings.Cut(flag.Lookup("test.run").Value.String(), "/")
	return of != ""
}
