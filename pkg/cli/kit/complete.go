// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/answer"
	"github.com/vnetradar/radar/pkg/lab"
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/system"
	"github.com/vnetradar/radar/pkg/vnet/topo"
)

// CompleteNodes completes the nodes of the domain, except those named already.
func (k *Kit) CompleteNodes(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return k.NodesExcept(args, true), cobra.ShellCompDirectiveNoFileComp
}

// CompleteAttached is CompleteNodes for what the user attached: what radar found goes by
// itself.
func (k *Kit) CompleteAttached(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return k.NodesExcept(args, false), cobra.ShellCompDirectiveNoFileComp
}

// NodesExcept are the nodes of the domain that are not named yet; those that radar found by itself
// only if asked for.
func (k *Kit) NodesExcept(named []string, found bool) (names []cobra.Completion) {
	d, err := answer.Network(k.Domain)
	if err != nil {
		return nil
	}
	return nodesExcept(d, named, found)
}

func nodesExcept(d *system.Network, named []string, found bool) (names []cobra.Completion) {
	for _, n := range d.Nodes {
		if !n.Removed && (found || !n.Found) && !slices.Contains(named, n.Name) {
			names = append(names, n.Name)
		}
	}
	return names
}

// completeEnds completes END [END] and END-END: nodes, and, once a digit is typed, the addresses that they own.
func (f *SelectFlags) completeEnds(_ *cobra.Command, args []string, typed string) (list []cobra.Completion, directive cobra.ShellCompDirective) {
	if len(args) > 1 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ends := f.knownEnds(typed)
	before := ""
	if len(args) == 0 && !slices.ContainsFunc(ends, func(end string) bool { return strings.HasPrefix(end, typed) }) {
		before = typed[:strings.LastIndexAny(typed, "->")+1]
	}
	for _, end := range ends {
		if !slices.Contains(args, end) {
			list = append(list, before+end)
		}
	}
	return list, cobra.ShellCompDirectiveNoFileComp
}

// knownEnds are the nodes of the domain, or of the recording, and their addresses if one is typed.
func (f *SelectFlags) knownEnds(typed string) (ends []string) {
	k := f.app
	if f.Given() {
		if f.Open(k) != nil || k.recorded.Last.Domain == nil {
			return nil
		}
		ends = nodesExcept(k.recorded.Last.Domain.Network(), nil, true)
	} else {
		ends = k.NodesExcept(nil, true)
	}
	last := typed[strings.LastIndexAny(typed, "->")+1:]
	if last == "" || last[0] < '0' || last[0] > '9' {
		return ends
	}
	for _, node := range slices.Clone(ends) {
		if addrs, err := k.addressesOf([]string{node}); err == nil {
			ends = append(ends, addrs...)
		}
	}
	return ends
}

// CompleteDomains completes the domains of this machine.
func CompleteDomains(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	names, _ := answer.Attached()
	return names, cobra.ShellCompDirectiveNoFileComp
}

// CompleteWith completes the values of a flag.
func CompleteWith(cmd *cobra.Command, flag string, values ...cobra.Completion) {
	CompleteFlag(cmd, flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

// CompleteFlag completes a flag by a function.
func CompleteFlag(cmd *cobra.Command, flag string, complete cobra.CompletionFunc) {
	// It fails for a flag that does not exist only: a mistake here.
	if err := cmd.RegisterFlagCompletionFunc(flag, complete); err != nil {
		cobra.CheckErr(err)
	}
}

// StateNames are the states of packets.
var StateNames = []cobra.Completion{
	string(record.Delivered), string(record.Lost), string(record.Left),
	string(record.InFlight), string(record.Expired), string(record.Ignored),
}

// CompleteLabs completes the first argument with the labs that run.
func CompleteLabs(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	labs, err := lab.List()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	names := make([]string, len(labs))
	for i, l := range labs {
		names[i] = l.Name
	}
	return names, cobra.ShellCompDirectiveDefault
}

// CompletionTime bounds what a completion asks of others.
const CompletionTime = 800 * time.Millisecond

// LinkNames are the names of a namespace's interfaces but the loopback, none if it cannot be
// entered.
func LinkNames(n topo.NodeSpec) (names []string) {
	ns, err := n.Open()
	if err != nil {
		return nil
	}
	defer ns.Close()
	handle, err := netlink.NewHandleAt(ns, unix.NETLINK_ROUTE)
	if err != nil {
		return nil
	}
	defer handle.Close()
	links, _ := handle.LinkList()
	for _, l := range links {
		if l.Attrs().Name != "lo" {
			names = append(names, l.Attrs().Name)
		}
	}
	return names
}
