// SPDX-License-Identifier: Apache-2.0

package domain

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// completeHere registers the completion of flags of attach whose values name nodes, those
// of the same command line among them.
func completeHere(k *kit.Kit, cmd *cobra.Command, f *attachOptions) {
	kit.CompleteFlag(cmd, "carry-header", func(cmd *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
		before, _ := lastPart(word, ",")
		named := strings.Split(before, ",")
		var choices []cobra.Completion
		for _, n := range nodesHere(k, cmd, f, args) {
			if !slices.Contains(named, n.name) {
				choices = append(choices, before+n.name)
			}
		}
		return choices, cobra.ShellCompDirectiveNoFileComp
	})
	kit.CompleteFlag(cmd, "role", func(cmd *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
		before, part := lastPart(word, ",")
		if port, _, ok := strings.Cut(part, "="); ok {
			return []cobra.Completion{before + port + "=" + string(domain.Internal), before + port + "=" + string(domain.Edge)}, cobra.ShellCompDirectiveNoFileComp
		}
		return portsOf(nodesHere(k, cmd, f, args), before, "="), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	})
	kit.CompleteFlag(cmd, "vm", func(cmd *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
		directive := cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
		before, _ := lastPart(word, "=,")
		if !strings.Contains(before, "=") {
			return nil, directive // a name of the user's choice
		}
		named := strings.Split(before[strings.IndexByte(before, '=')+1:], ",")
		ports := slices.DeleteFunc(portsOf(nodesHere(k, cmd, f, args), "", ""), func(p string) bool { return slices.Contains(named, p) })
		for i := range ports {
			ports[i] = before + ports[i]
		}
		return ports, directive
	})
}

// lastPart cuts what a user has written behind the last separator.
func lastPart(word, separators string) (before, part string) {
	i := strings.LastIndexAny(word, separators) + 1
	return word[:i], word[i:]
}

// completedNode is a node that can be named, with its interfaces.
type completedNode struct {
	name  string
	ports []string
}

func portsOf(list []completedNode, before, behind string) (choices []cobra.Completion) {
	for _, n := range list {
		for _, p := range n.ports {
			choices = append(choices, before+n.name+"/"+p+behind)
		}
	}
	return choices
}

// nodesHere are the nodes that are attached, and those that the command line names.
// Whatever cannot be asked now is left out.
func nodesHere(k *kit.Kit, cmd *cobra.Command, f *attachOptions, args []string) (list []completedNode) {
	d, err := domain.Load(k.Domain)
	if err != nil {
		d = nil
	} else {
		for _, n := range d.Nodes {
			if n.Removed || n.Auto {
				continue
			}
			node := completedNode{name: n.Name}
			for _, p := range d.Ports {
				if p.Node == n.ID && !p.Removed {
					node.ports = append(node.ports, p.Name)
				}
			}
			list = append(list, node)
		}
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), kit.CompletionTime)
	defer cancel()
	found, err := f.names.find(ctx, k.Domain, d, args, cmd.Flags())
	if err != nil {
		return list
	}
	for _, n := range found.nodes {
		if !slices.ContainsFunc(list, func(c completedNode) bool { return c.name == n.Name }) {
			list = append(list, completedNode{n.Name, kit.LinkNames(n)})
		}
	}
	return list
}
