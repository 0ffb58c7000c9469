// SPDX-License-Identifier: Apache-2.0

package inband

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/vnetradar/radar/pkg/answer"
	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/telemetry/node"
	"github.com/vnetradar/radar/pkg/vnet/selector"
)

// resolver finds what NODE and NODE/PORT name.
type resolver struct {
	ctx   context.Context
	named map[string]node.Place // nodes that can be called by their name alone
}

// newResolver knows the names of the INT domain's nodes, and of those of radar's own domain.
func newResolver(k *kit.Kit, ctx context.Context) *resolver {
	r := &resolver{ctx, make(map[string]node.Place)}
	if d, err := answer.Network(k.Domain); err == nil {
		for _, n := range d.Nodes {
			if !n.Removed && !n.Machine {
				r.named[n.Name] = n.Place
			}
		}
	}
	if d, err := node.Load(k.Domain); err == nil {
		for _, n := range d.Nodes {
			if _, known := r.named[n.Name]; !known || !n.IsGone() {
				r.named[n.Name] = n.Place
			}
		}
	}
	return r
}

// targets are those of all arguments.
func (r *resolver) targets(args []string) (list []node.Target, err error) {
	for _, arg := range args {
		places, port, err := r.find(arg)
		if err != nil {
			return nil, err
		}
		for _, p := range places {
			list = append(list, node.Target{Place: p, Port: port})
		}
	}
	return list, nil
}

// find finds the nodes and the port of an argument. A selector can have a '/' itself (netns:/path): what
// stands before the last one counts as the node if it is one.
func (r *resolver) find(arg string) (places []node.Place, port string, err error) {
	if p, ok := r.named[arg]; ok {
		return []node.Place{p}, "", nil
	}
	cut := strings.LastIndexByte(arg, '/')
	if cut < 0 {
		places, err = r.nodes(arg)
		return places, "", err
	}
	before, port := arg[:cut], arg[cut+1:]
	if port == "" {
		return nil, "", fault.Usage.Errorf("%s: the name of the port is missing", arg)
	}
	if places, err = r.nodes(before); err == nil {
		return places, port, nil
	}
	if whole, wholeErr := r.nodes(arg); wholeErr == nil {
		return whole, "", nil
	}
	return nil, "", err
}

// nodes finds the nodes that a name or a selector stands for.
func (r *resolver) nodes(word string) (places []node.Place, err error) {
	if p, ok := r.named[word]; ok {
		return []node.Place{p}, nil
	}
	found, err := selector.Resolve(r.ctx, selector.Request{Selectors: []string{word}})
	if err != nil {
		return nil, err
	}
	for _, s := range found.Nodes {
		places = append(places, s.Place)
	}
	if len(places) == 0 {
		return nil, fmt.Errorf("%s found no namespace", word)
	}
	return places, nil
}

// completeTargets completes nodes, and behind '/' their ports.
func completeTargets(k *kit.Kit) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, word string) (choices []cobra.Completion, _ cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(cmd.Context(), kit.CompletionTime)
		defer cancel()
		r := newResolver(k, ctx)
		if cut := strings.LastIndexByte(word, '/'); cut > 0 {
			if places, err := r.nodes(word[:cut]); err == nil && len(places) == 1 {
				list, _ := node.Interfaces(places[0])
				for _, i := range list {
					if !i.Loopback {
						choices = append(choices, word[:cut+1]+i.Name)
					}
				}
				return choices, cobra.ShellCompDirectiveNoFileComp
			}
		}
		for name := range r.named {
			choices = append(choices, name)
		}
		return append(choices, selector.Choices(ctx, word)...), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
}

// completeAttached completes the domain's INT nodes and their ports.
func completeAttached(k *kit.Kit) cobra.CompletionFunc {
	return func(*cobra.Command, []string, string) (choices []cobra.Completion, _ cobra.ShellCompDirective) {
		d, err := node.Load(k.Domain)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		for _, n := range d.Nodes {
			choices = append(choices, n.Name)
			for _, p := range n.Ports {
				choices = append(choices, n.Name+"/"+p.Name)
			}
		}
		return choices, cobra.ShellCompDirectiveNoFileComp
	}
}
