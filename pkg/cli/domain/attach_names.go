// SPDX-License-Identifier: Apache-2.0

package domain

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/vnet/datapath"
	"github.com/vnetradar/radar/pkg/vnet/datapath/owner"
	"github.com/vnetradar/radar/pkg/vnet/domain"
	"github.com/vnetradar/radar/pkg/vnet/selector"
	"github.com/vnetradar/radar/pkg/vnet/topo"
)

// nameFlags are the flags that say which nodes to attach.
type nameFlags struct {
	docker, allNetNS bool
	lab              string
	watch            bool
}

const (
	flagLab             = "lab"
	flagWatchContainers = "watch-containers"
)

func (f *nameFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.BoolVar(&f.docker, "docker", false, "attach all running containers that have a network of their own")
	flags.StringVarP(&f.lab, flagLab, "t", "", "attach the machines of a running lab, radar's or Kathará's: the folder that it was started from, or its name")
	flags.BoolVar(&f.allNetNS, "all-netns", false, "attach every network namespace that has a name, a container or a process, except this machine's own")
	flags.BoolVar(&f.watch, flagWatchContainers, false, "attach matching containers when they start or are restarted, too")
	if err := cmd.RegisterFlagCompletionFunc(flagLab, completeLabOrDir); err != nil {
		cobra.CheckErr(err)
	}
}

// foundNodes are the nodes that a command names.
type foundNodes struct {
	selectors []string
	nodes     []topo.NodeSpec
	notes     []string
	watch     *bool // nil: not said
}

// ask puts the nodes into a request.
func (n *foundNodes) ask(req *datapath.AttachRequest) {
	req.Nodes, req.Selectors, req.WatchContainers = n.nodes, n.selectors, n.watch
}

// find looks for the nodes that arguments and flags name. existing is the domain
// that they will join, nil if it is new.
func (f *nameFlags) find(ctx context.Context, domainName string, existing *domain.Domain, args []string, flags *pflag.FlagSet) (*foundNodes, error) {
	found := &foundNodes{selectors: selector.Split(args)}
	if flags.Changed(flagWatchContainers) {
		found.watch = &f.watch
	}
	if f.lab != "" {
		selector, err := selector.LabSelector(ctx, f.lab)
		if err != nil {
			return nil, fmt.Errorf("--lab %s: %w", f.lab, err)
		}
		found.selectors = append(found.selectors, selector)
	}
	if f.docker {
		found.selectors = append(found.selectors, selector.AllContainers)
	}
	if f.allNetNS {
		found.selectors = append(found.selectors, selector.AllNamespaces)
	}
	req := selector.Request{Selectors: found.selectors, Wait: f.watch || existing != nil && existing.WatchContainers}
	if existing != nil {
		req.Known = topo.SpecsOf(existing.Nodes)
	}
	result, err := selector.Resolve(ctx, req)
	if err != nil {
		return nil, err
	}
	found.nodes, found.notes = result.Nodes, result.Notes
	if err := found.leaveToOthers(domainName, result.Named); err != nil {
		return nil, err
	}
	if f.watch && len(selector.OfContainers(slices.Concat(found.selectors, selectorsOf(existing)))) == 0 {
		return nil, fault.Usage.Errorf("--%s: name the containers to follow: --docker, docker:NAME, docker:label=KEY, kathara:NAME or --lab", flagWatchContainers)
	}
	return found, nil
}

// leaveToOthers leaves out what was found in bulk and belongs to another domain: it is
// no reason to refuse the rest. The first nodes, named ones, were asked for.
func (n *foundNodes) leaveToOthers(domainName string, named int) error {
	owners, err := owner.Of(domainName, n.nodes[named:])
	if err != nil {
		return err
	}
	mine := n.nodes[:named:named]
	for i, s := range n.nodes[named:] {
		if owners[i] == "" {
			mine = append(mine, s)
			continue
		}
		n.notes = append(n.notes, fmt.Sprintf("%s (%s) is left out: it belongs to domain %q", s.Name, s.Spec, owners[i]))
	}
	n.nodes = mine
	return nil
}

// waits says whether containers that start later join.
func (f *nameFlags) waits(found *foundNodes) bool {
	return f.watch && len(selector.OfContainers(found.selectors)) > 0
}

func selectorsOf(d *domain.Domain) []string {
	if d == nil {
		return nil
	}
	return d.Selectors
}

// nothingNamed says what to do when there is nothing to attach.
func nothingNamed(k *kit.Kit, ctx context.Context, found *foundNodes) error {
	if len(found.notes) > 0 {
		return fmt.Errorf("nothing to attach: %s", strings.Join(found.notes, "; "))
	}
	if len(found.selectors) > 0 {
		return fmt.Errorf("nothing to attach: %s found no namespace", strings.Join(found.selectors, " "))
	}
	if name := selector.LabHere(ctx, "."); name != "" {
		return fault.Usage.Errorf("no node named: lab %s runs here, attach it with: radar attach%s --lab .", name, kit.DomainFlag(k.Domain))
	}
	return fault.Usage.Errorf("no node named, and domain %q is not attached: name the nodes to attach (docker:NAME, netns:NAME, pid:N, --docker, --lab DIR)", k.Domain)
}

// completeSelectors completes what can be attached, except what is named already.
func completeSelectors(cmd *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(cmd.Context(), kit.CompletionTime)
	defer cancel()
	before := word[:strings.LastIndexByte(word, ',')+1]
	named := selector.Split(append(slices.Clone(args), before))
	known := selector.Choices(ctx, word[len(before):])
	known = slices.DeleteFunc(known, func(s string) bool { return slices.Contains(named, s) })
	for i := range known {
		known[i] = before + known[i]
	}
	directive := cobra.ShellCompDirectiveNoFileComp
	if !strings.Contains(word[len(before):], ":") {
		directive |= cobra.ShellCompDirectiveNoSpace // the kind only
	}
	return known, directive
}

// completeLabOrDir completes the labs that run, and folders.
func completeLabOrDir(cmd *cobra.Command, _ []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
	labs, _ := kit.CompleteLabs(cmd, nil, word)
	return labs, cobra.ShellCompDirectiveDefault
}
