// SPDX-License-Identifier: Apache-2.0

package topo

import (
	"context"
	"os"
	"strconv"
	"strings"
)

// iptablesConflicts finds iptables rules of the thread's namespace that match on
// or set the mark, or copy it to or from the connection's. Rules of iptables-nft
// are nftables rules whose targets nft cannot show.
func iptablesConflicts(ctx context.Context) []Conflict {
	var found []Conflict
	nft := nftNamesMark()
	for _, family := range []struct{ tool, tables string }{
		{"iptables", "ip_tables_names"}, {"ip6tables", "ip6_tables_names"},
	} {
		if names, err := os.ReadFile("/proc/thread-self/net/" + family.tables); err == nil && len(names) > 0 {
			if out, ok := output(ctx, family.tool+"-legacy-save"); ok {
				found = append(found, parseIptables(family.tool, string(out))...)
			} else if out, ok := output(ctx, family.tool+"-save"); ok {
				found = append(found, parseIptables(family.tool, string(out))...)
			}
		}
		if nft {
			if out, ok := output(ctx, family.tool+"-nft-save"); ok {
				found = append(found, parseIptables(family.tool, string(out))...)
			}
		}
	}
	return found
}

// parseIptables reads the output of iptables-save, or of ip6tables-save.
func parseIptables(tool, save string) []Conflict {
	var found []Conflict
	table := ""
	for line := range strings.Lines(save) {
		line = strings.TrimSpace(line)
		if name, ok := strings.CutPrefix(line, "*"); ok {
			table = name
		}
		if !strings.HasPrefix(line, "-A ") {
			continue
		}
		if mask := iptablesBits(strings.Fields(line)); mask != 0 {
			found = append(found, Conflict{What: tool, Text: "-t " + table + " " + line, Mask: mask})
		}
	}
	return found
}

// iptablesBits returns the bits of the mark that a rule reads or writes.
func iptablesBits(words []string) uint32 {
	var bits uint32
	match, target := "", ""
	nfmask, copies := AllMarks, false
	for i, w := range words {
		arg := ""
		if i+1 < len(words) {
			arg = words[i+1]
		}
		switch w {
		case "-m":
			match = arg
		case "-j":
			target = arg
		case "--mark": // of -m mark; that of -m connmark is the connection's
			if match == "mark" {
				bits |= maskOf(arg)
			}
		case "--set-xmark", "--set-mark":
			if target == "MARK" {
				bits |= maskOf(arg)
			}
		case "--save-mark", "--restore-mark":
			copies = true
		case "--nfmask", "--mask":
			if m, err := strconv.ParseUint(arg, 0, 32); err == nil {
				nfmask = uint32(m)
			}
		}
	}
	if copies {
		bits |= nfmask
	}
	if target == "TPROXY" {
		bits |= tproxyBits(words)
	}
	return bits
}

// tproxyBits returns the bits that TPROXY --tproxy-mark V[/M] writes.
func tproxyBits(words []string) uint32 {
	for i, w := range words[:len(words)-1] {
		if w != "--tproxy-mark" {
			continue
		}
		return maskOf(words[i+1])
	}
	return 0
}

// maskOf returns MASK of "VALUE[/MASK]": all bits if there is none.
func maskOf(arg string) uint32 {
	if _, mask, ok := strings.Cut(arg, "/"); ok {
		if m, err := strconv.ParseUint(mask, 0, 32); err == nil {
			return uint32(m)
		}
	}
	return AllMarks
}
