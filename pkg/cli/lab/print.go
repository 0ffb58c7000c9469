// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	scenarios "github.com/vnetradar/radar/lab/scenarios"
	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/lab"
	"github.com/vnetradar/radar/pkg/words"
)

func printUp(k *kit.Kit, l *lab.Lab, took time.Duration) error {
	w := k.Stdout
	if k.Output == kit.FormatJSON {
		return kit.PrintJSON(w, l)
	}
	_, err := fmt.Fprintf(w, "Lab %s is up: %s, %s, %s.\nMeasure it with:\n  radar attach -d --lab %s\n",
		l.Name, words.Plural(len(l.Machines), "machine"), words.Plural(len(l.Links), "link"), words.Duration(float64(took)), l.Name)
	return err
}

func printDown(k *kit.Kit, name string) error {
	w := k.Stdout
	if k.Output == kit.FormatJSON {
		return kit.PrintJSON(w, struct {
			Name    string `json:"name"`
			Removed bool   `json:"removed"`
		}{name, true})
	}
	_, err := fmt.Fprintf(w, "Lab %s is down.\n", name)
	return err
}

// printLabs prints one line for each lab.
func printLabs(k *kit.Kit, labs []*lab.Lab) error {
	w := k.Stdout
	if k.Output == kit.FormatJSON {
		for _, l := range labs {
			if err := kit.PrintJSON(w, l); err != nil {
				return err
			}
		}
		return nil
	}
	t := kit.NewTable(kit.Column{Title: "NAME"}, kit.Column{Title: "STATUS"}, kit.Column{Title: "MACHINES", Right: true},
		kit.Column{Title: "LINKS", Right: true}, kit.Column{Title: "CREATED"}, kit.Column{Title: "SOURCE"})
	for _, l := range labs {
		t.Add(l.Name, string(l.Status), strconv.Itoa(len(l.Machines)), strconv.Itoa(len(l.Links)),
			l.Created.Local().Format(time.DateTime), l.Source)
	}
	return t.Flush(w)
}

// printLab prints the machines and the links of one lab.
func printLab(k *kit.Kit, l *lab.Lab) error {
	if k.Output == kit.FormatJSON {
		return printLabs(k, []*lab.Lab{l})
	}
	w := k.Stdout
	machines := kit.NewTable(kit.Column{Title: "MACHINE"}, kit.Column{Title: "NAMESPACE"}, kit.Column{Title: "INTERFACES"})
	for _, m := range l.Machines {
		machines.Add(m.Name, m.NetNS, strings.Join(interfacesOf(l.Links, m.Name), " "))
	}
	if err := machines.Flush(w); err != nil {
		return err
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	return printLinks(w, l.Links)
}

func printLinks(w io.Writer, list []lab.Link) error {
	links := kit.NewTable(kit.Column{Title: "LINK"}, kit.Column{Title: "KIND"}, kit.Column{Title: "MEMBERS"})
	for _, k := range list {
		members := make([]string, len(k.Members))
		for i, m := range k.Members {
			members[i] = m.String()
		}
		links.Add(k.Name, string(k.Kind), strings.Join(members, " "))
	}
	return links.Flush(w)
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

func completeMachines(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	switch len(args) {
	case 0:
		return kit.CompleteLabs(cmd, args, toComplete)
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
