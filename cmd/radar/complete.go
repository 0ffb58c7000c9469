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
	d, err := domain.Load(a.domain)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []cobra.Completion
	for _, n := range d.Nodes {
		if !n.Removed && !slices.Contains(args, n.Name) {
			names = append(names, n.Name)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// completeDomains completes the domains of this machine.
func completeDomains(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	names, _ := domain.List()
	return names, cobra.ShellCompDirectiveNoFileComp
}

// completeWith completes the values of a flag.
func completeWith(cmd *cobra.Command, flag string, values ...cobra.Completion) {
	// It fails for a flag that does not exist only: a mistake here.
	if err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		cobra.CheckErr(err)
	}
}

var stateNames = []cobra.Completion{
	string(record.Delivered), string(record.Lost), string(record.Left),
	string(record.InFlight), string(record.Expired),
}
