// SPDX-License-Identifier: Apache-2.0

package topo

import (
	"os"
	"slices"
	"strings"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// redirects says whether the thread's namespace can deliver packets to itself whose
// destination is none of its addresses: there are rules that change it (DNAT, REDIRECT)
// before routing. Wide local routes (TPROXY, addresses without an interface) are found
// with its addresses.
func redirects() bool {
	return legacyNAT("ip_tables_names") || legacyNAT("ip6_tables_names") || nftNAT()
}

// legacyNAT says whether xtables has a table nat here: it has once it was first used.
func legacyNAT(file string) bool {
	names, err := os.ReadFile("/proc/thread-self/net/" + file)
	return err == nil && slices.Contains(strings.Fields(string(names)), "nat")
}

// nftNAT says whether nftables has a chain of type nat at prerouting. Failure counts as
// none.
func nftNAT() bool {
	req := nl.NewNetlinkRequest(unix.NFNL_SUBSYS_NFTABLES<<8|unix.NFT_MSG_GETCHAIN, unix.NLM_F_DUMP)
	req.AddData(&nl.Nfgenmsg{NfgenFamily: unix.AF_UNSPEC, Version: nl.NFNETLINK_V0})
	msgs, err := req.Execute(unix.NETLINK_NETFILTER, 0)
	return err == nil && slices.ContainsFunc(msgs, isNATChain)
}

// isNATChain reads NFTA_CHAIN_TYPE and NFTA_CHAIN_HOOK of one message.
func isNATChain(m []byte) bool {
	if len(m) < nl.SizeofNfgenmsg {
		return false
	}
	attrs, err := nl.ParseRouteAttr(m[nl.SizeofNfgenmsg:])
	if err != nil {
		return false
	}
	nat, prerouting := false, false
	for _, a := range attrs {
		switch a.Attr.Type &^ unix.NLA_F_NESTED {
		case unix.NFTA_CHAIN_TYPE:
			nat = strings.TrimRight(string(a.Value), "\x00") == "nat"
		case unix.NFTA_CHAIN_HOOK:
			prerouting = hookNumber(a.Value) == unix.NF_INET_PRE_ROUTING
		}
	}
	return nat && prerouting
}

// hookNumber reads NFTA_HOOK_HOOKNUM, big-endian, -1 if it is not there.
func hookNumber(nested []byte) int {
	attrs, err := nl.ParseRouteAttr(nested)
	if err != nil {
		return -1
	}
	for _, a := range attrs {
		if a.Attr.Type == unix.NFTA_HOOK_HOOKNUM && len(a.Value) == 4 {
			return int(a.Value[3])
		}
	}
	return -1
}
