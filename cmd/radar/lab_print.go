// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	scenarios "github.com/vnetradar/radar/lab"
	"github.com/vnetradar/radar/pkg/lab"
)

// wantsJSON says whether -o json is set, a flag of the root command.
func wantsJSON(cmd *cobra.Command) bool {
	f := cmd.Flags().Lookup("output")
	return f != nil && f.Value.String() == string(formatJSON)
}

func printLabUp(cmd *cobra.Command, l *lab.Lab, took time.Duration) error {
	w := cmd.OutOrStdout()
	if wantsJSON(cmd) {
		return printJSON(w, l)
	}
	_, err := fmt.Fprintf(w, "Lab %s is up: %s, %s, %s.\nMeasure it with:\n  radar attach -d --lab %s\n",
		l.Name, plural(len(l.Machines), "machine"), plural(len(l.Links), "link"), humanDuration(float64(took)), l.Name)
	return err
}

func printLabDown(cmd *cobra.Command, name string, wasRunning bool) error {
	w := cmd.OutOrStdout()
	if wantsJSON(cmd) {
		return printJSON(w, struct {
			Name    string `json:"name"`
			Removed bool   `json:"removed"`
		}{name, wasRunning})
	}
	text := "Lab %s is down.\n"
	if !wasRunning {
		text = "No lab %s is running.\n"
	}
	_, err := fmt.Fprintf(w, text, name)
	return err
}

// printLabs prints one line for each lab.
func printLabs(cmd *cobra.Command, labs []*lab.Lab) error {
	w := cmd.OutOrStdout()
	if wantsJSON(cmd) {
		for _, l := range labs {
			if err := printJSON(w, l); err != nil {
				return err
			}
		}
		return nil
	}
	t := newTable(column{title: "NAME"}, column{title: "STATUS"}, column{title: "MACHINES", right: true},
		column{title: "LINKS", right: true}, column{title: "CREATED"}, column{title: "SOURCE"})
	for _, l := range labs {
		t.add(l.Name, string(l.Status), strconv.Itoa(len(l.Machines)), strconv.Itoa(len(l.Links)),
			l.Created.Local().Format(time.DateTime), l.Source)
	}
	return t.flush(w)
}

// printLab prints the machines and the links of one lab.
func printLab(cmd *cobra.Command, l *lab.Lab) error {
	if wantsJSON(cmd) {
		return printLabs(cmd, []*lab.Lab{l})
	}
	w := cmd.OutOrStdout()
	machines := newTable(column{title: "MACHINE"}, column{title: "NAMESPACE"}, column{title: "INTERFACES"})
	for _, m := range l.Machines {
		machines.add(m.Name, m.NetNS, strings.Join(interfacesOf(l.Links, m.Name), " "))
	}
	if err := machines.flush(w); err != nil {
		return err
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	return printLabLinks(w, l.Links)
}

func printLabLinks(w io.Writer, list []lab.Link) error {
	links := newTable(column{title: "LINK"}, column{title: "KIND"}, column{title: "MEMBERS"})
	for _, k := range list {
		members := make([]string, len(k.Members))
		for i, m := range k.Members {
			members[i] = m.String()
		}
		links.add(k.Name, string(k.Kind), strings.Join(members, " "))
	}
	return links.flush(w)
}

func interfacesOf(links []lab.Link, machine string) []string {
	var names []string
	for _, k := range links {
		for _, m := range k.Members {
			if m.Machine == machine {
				names = append(names, m.Interface)
			}
		}
	}
	slices.Sort(names)
	return names
}

func completeScenarios(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveFilterDirs
	}
	return scenarios.Names(), cobra.ShellCompDirectiveDefault
}

func completeLabs(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
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

func completeMachines(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	switch len(args) {
	case 0:
		return completeLabs(cmd, args, toComplete)
	case 1:
		l, err := lab.Find(args[0])
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		names := make([]string, len(l.Machines))
		for i, m := range l.Machines {
			names[i] = m.Name
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
	return nil, cobra.ShellCompDirectiveDefault
}
