// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/vnetradar/radar/pkg/domain"
	"github.com/vnetradar/radar/pkg/record"
)

// completeNodes completes the nodes of the domain, except those named already.
func (a *app) completeNodes(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return a.nodesExcept(args, true), cobra.ShellCompDirectiveNoFileComp
}

// completeAttached is completeNodes for what the user attached: what radar found goes by
// itself.
func (a *app) completeAttached(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return a.nodesExcept(args, false), cobra.ShellCompDirectiveNoFileComp
}

func (a *app) nodesExcept(named []string, found bool) (names []cobra.Completion) {
	d, err := domain.Load(a.domain)
	if err != nil {
		return nil
	}
	for _, n := range d.Nodes {
		if !n.Removed && (found || !n.Auto) && !slices.Contains(named, n.Name) {
			names = append(names, n.Name)
		}
	}
	for _, vm := range d.VMs {
		if !vm.Removed && !slices.Contains(named, vm.Name) {
			names = append(names, vm.Name)
		}
	}
	return names
}

// completeDomains completes the domains of this machine.
func completeDomains(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	names, _ := domain.List()
	return names, cobra.ShellCompDirectiveNoFileComp
}

// completeWith completes the values of a flag.
func completeWith(cmd *cobra.Command, flag string, values ...cobra.Completion) {
	completeFlag(cmd, flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

func completeFlag(cmd *cobra.Command, flag string, complete cobra.CompletionFunc) {
	// It fails for a flag that does not exist only: a mistake here.
	if err := cmd.RegisterFlagCompletionFunc(flag, complete); err != nil {
		cobra.CheckErr(err)
	}
}

var stateNames = []cobra.Completion{
	string(record.Delivered), string(record.Lost), string(record.Left),
	string(record.InFlight), string(record.Expired), string(record.Ignored),
}
