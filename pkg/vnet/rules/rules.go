// SPDX-License-Identifier: Apache-2.0

// Package rules finds what in a node uses skb->mark: rules of nf_tables and xtables, `ip rule`, IPsec, IPVS, and
// settings. Radar's programs need bits of the mark that nothing there reads or writes. It only looks: nothing it
// does changes a node.
package rules

import (
	"context"
	"os/exec"
	"slices"
	"sync"

	"github.com/vnetradar/radar/pkg/vnet/topo"
)

// AllMarks are all bits of skb->mark.
const AllMarks = ^uint32(0)

// Conflict is a rule or a setting of a node that reads or writes bits of skb->mark.
// One that sets the mark as a whole touches all of them.
type Conflict struct {
	Node string
	What string // "ip rule", "nft", "iptables", "ebtables", "xfrm policy", "sysctl", ...
	Text string // the rule
	Mask uint32 // the bits that it touches, of those that were asked for
}

// conflictWorkers bounds how many nodes are searched at once: each can run nft
// and iptables-save.
const conflictWorkers = 4

// Find looks in each node for what uses bits of mask (AllMarks: for all that
// uses the mark). The kernel is asked what there is, tools only for its text.
// It is best effort: what cannot be read (no rights, time over) is left out. Sockets that
// set a mark (SO_MARK), tc filters, sets of ipset and BPF programs cannot be found.
// The order is that of the nodes.
func Find(ctx context.Context, nodes []topo.NodeSpec, mask uint32) []Conflict {
	return findIn(ctx, nodes, mask, func(ctx context.Context) []Conflict {
		return slices.Concat(ruleConflicts(), xfrmConflicts(), nftConflicts(ctx), quietConflicts(ctx))
	})
}

// FindQuiet is Find for what a Watcher does not report.
func FindQuiet(ctx context.Context, nodes []topo.NodeSpec, mask uint32) []Conflict {
	return findIn(ctx, nodes, mask, quietConflicts)
}

// findIn runs find in the namespaces of nodes.
func findIn(ctx context.Context, nodes []topo.NodeSpec, mask uint32, find func(context.Context) []Conflict) []Conflict {
	if mask == 0 {
		return nil
	}
	found := make([][]Conflict, len(nodes))
	var wait sync.WaitGroup
	slots := make(chan struct{}, conflictWorkers)
	for i, node := range nodes {
		wait.Add(1)
		slots <- struct{}{}
		go func() {
			defer func() { <-slots; wait.Done() }()
			// The error says that the namespace is gone: then it has no conflict either.
			_ = node.Do(func() error {
				found[i] = find(ctx)
				return nil
			})
			for k := range found[i] {
				found[i][k].Node = node.Name
			}
			found[i] = Overlapping(found[i], mask)
		}()
	}
	wait.Wait()
	return slices.Concat(found...)
}

// quietConflicts are conflicts whose appearance the kernel does not announce.
func quietConflicts(ctx context.Context) []Conflict {
	tables, err := iptablesConflicts(ctx)
	if err != nil { // nobody knows what is in it
		tables = append(tables, Conflict{What: "iptables", Text: err.Error(), Mask: AllMarks})
	}
	return slices.Concat(sysctlConflicts(), ipvsConflicts(), tables, ebtablesConflicts(ctx))
}

// Overlapping keeps what touches mask, once each.
func Overlapping(found []Conflict, mask uint32) []Conflict {
	var kept []Conflict
	seen := make(map[Conflict]bool)
	for _, c := range found {
		c.Mask &= mask
		if c.Mask != 0 && !seen[c] {
			seen[c] = true
			kept = append(kept, c)
		}
	}
	return kept
}

// output runs a tool in the thread's namespace. ok is false if there is no such
// tool or it fails.
func output(ctx context.Context, tool string, args ...string) (out []byte, ok bool) {
	path, err := exec.LookPath(tool)
	if err != nil {
		return nil, false
	}
	out, err = exec.CommandContext(ctx, path, args...).Output()
	return out, err == nil
}
