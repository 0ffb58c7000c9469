// SPDX-License-Identifier: Apache-2.0

package topo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// AllMarks are all bits of skb->mark.
const AllMarks = ^uint32(0)

// Conflict is a rule or a setting of a node that reads or writes bits of skb->mark.
// One that sets the mark as a whole touches all of them.
type Conflict struct {
	Node string
	What string // "ip rule", "nft", "iptables", "sysctl"
	Text string // the rule
	Mask uint32 // the bits that it touches, of those that were asked for
}

// conflictWorkers bounds how many nodes are searched at once: each can run nft
// and iptables-save.
const conflictWorkers = 4

// FindConflicts looks in each node for what uses bits of mask (AllMarks: for all that
// uses the mark). It is best effort:
// what cannot be read (no nft, no rights, time over) is left out. Sockets that
// set a mark (SO_MARK), tc filters and BPF programs cannot be found.
// The order is that of the nodes.
func FindConflicts(ctx context.Context, nodes []NodeSpec, mask uint32) []Conflict {
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
			found[i] = nodeConflicts(ctx, node, mask)
		}()
	}
	wait.Wait()
	var all []Conflict
	for _, f := range found {
		all = append(all, f...)
	}
	return all
}

func nodeConflicts(ctx context.Context, node NodeSpec, mask uint32) []Conflict {
	var found []Conflict
	// The error says that the namespace is gone: then it has no conflict either.
	_ = node.Do(func() error {
		found = append(found, ruleConflicts()...)
		found = append(found, sysctlConflicts()...)
		found = append(found, nftConflicts(ctx)...)
		found = append(found, iptablesConflicts(ctx)...)
		return nil
	})
	for i := range found {
		found[i].Node = node.Name
	}
	return Overlapping(found, mask)
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

// ruleConflicts finds `ip [-6] rule ... fwmark M[/MASK]` in the thread's namespace.
func ruleConflicts() []Conflict {
	return append(familyRules(unix.AF_INET, "ip rule"), familyRules(unix.AF_INET6, "ip -6 rule")...)
}

func familyRules(family int, what string) []Conflict {
	rules, err := RetryDump(func() ([]netlink.Rule, error) { return netlink.RuleList(family) })
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) { // of a list that still changes, what is there
		return nil
	}
	var found []Conflict
	for _, r := range rules {
		mask := uint32(0)
		switch {
		case r.Mask != nil:
			mask = *r.Mask
		case r.Mark != 0:
			mask = AllMarks
		}
		if mask != 0 {
			found = append(found, Conflict{What: what, Mask: mask,
				Text: fmt.Sprintf("%d: fwmark %#x/%#x lookup %d", r.Priority, r.Mark, mask, r.Table)})
		}
	}
	return found
}

// sysctlConflicts finds settings by which the kernel copies a packet's mark to
// a reply or to a socket, in the thread's namespace.
func sysctlConflicts() []Conflict {
	var found []Conflict
	for _, name := range []string{"ipv4/fwmark_reflect", "ipv4/tcp_fwmark_accept", "ipv6/fwmark_reflect"} {
		b, err := os.ReadFile("/proc/sys/net/" + name)
		if value := strings.TrimSpace(string(b)); err == nil && value != "0" {
			found = append(found, Conflict{What: "sysctl", Mask: AllMarks,
				Text: fmt.Sprintf("net.%s = %s", strings.ReplaceAll(name, "/", "."), value)})
		}
	}
	return found
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
