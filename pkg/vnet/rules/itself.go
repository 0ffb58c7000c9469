// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"bytes"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/vnet/topo"
)

// ToItself says what delivers packets for others to a node itself: a route of type local to more than
// one address (TPROXY, AnyIP), or a rule that redirects. "": nothing that is known. DNAT to an address
// of the node is not found.
func ToItself(node topo.NodeSpec) (what string) {
	if node.HasWideRoutes() {
		return "a route of type local to many addresses"
	}
	// The error says that the namespace is gone: then it delivers nothing.
	_ = node.Do(func() error {
		if nftRedirects() || xtRedirects() {
			what = "rules that redirect packets to the node itself"
		}
		return nil
	})
	return what
}

// redirecting are the names by which the kernel knows what redirects, in nf_tables and in xtables.
var redirecting = [][]byte{[]byte("redir\x00"), []byte("REDIRECT\x00")}

func namesRedirect(b []byte) bool {
	return bytes.Contains(b, redirecting[0]) || bytes.Contains(b, redirecting[1])
}

// nftRedirects says whether a rule of nf_tables in the thread's namespace redirects.
func nftRedirects() bool {
	return slices.ContainsFunc(nftDump(unix.NFT_MSG_GETRULE), namesRedirect)
}

// xtRedirects says the same of legacy tables. One that cannot be read may have such a rule.
func xtRedirects() bool {
	for f, table := range xtTables {
		if table != "nat" {
			continue
		}
		if entries, err := f.entries(table); err != nil || namesRedirect(entries) {
			return true
		}
	}
	return false
}
