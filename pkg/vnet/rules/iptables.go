// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"bytes"
	"context"
	"os"
	"strconv"
	"strings"
)

// iptablesConflicts finds rules of legacy iptables in the thread's namespace that match on or
// set the mark, or copy it to or from the connection's. The kernel says which there are; the
// tool, where there is one, gives them their text. The error is of a table that cannot be read.
func iptablesConflicts(ctx context.Context) (found []Conflict, err error) {
	uses, err := xtUses()
	named := make(map[string]uint32) // bits, by tool and table
	for _, f := range xtFamilies {
		if !usesTool(uses, f.tool) {
			continue
		}
		out, ok := output(ctx, f.tool+"-legacy-save")
		if !ok {
			out, _ = output(ctx, f.tool+"-save")
		}
		for _, c := range parseTables(f.tool, string(out)) {
			found = append(found, c.Conflict)
			named[f.tool+" "+c.table] |= c.Mask
		}
	}
	for _, u := range uses {
		if u.mask&^named[u.tool+" "+u.table] != 0 {
			found = append(found, u.conflict())
		}
	}
	return found, err
}

func usesTool(uses []xtUse, tool string) bool {
	for _, u := range uses {
		if u.tool == tool {
			return true
		}
	}
	return false
}

// ebtablesConflicts finds rules of legacy ebtables. Only its tool is asked, and only where
// the kernel has them: to ask makes empty tables.
func ebtablesConflicts(ctx context.Context) (found []Conflict) {
	modules, err := os.ReadFile("/proc/modules")
	if err != nil || !bytes.Contains(modules, []byte("ebtable_")) {
		return nil
	}
	out, _ := output(ctx, "ebtables-legacy-save")
	for _, c := range parseTables("ebtables", string(out)) {
		found = append(found, c.Conflict)
	}
	return found
}

// tableConflict is one with its table.
type tableConflict struct {
	Conflict
	table string
}

// parseTables reads what iptables-save, ip6tables-save or ebtables-save print.
func parseTables(tool, save string) []tableConflict {
	var found []tableConflict
	table := ""
	for line := range strings.Lines(save) {
		line = strings.TrimSpace(line)
		if name, ok := strings.CutPrefix(line, "*"); ok {
			table = name
		}
		if !strings.HasPrefix(line, "-A ") {
			continue
		}
		if mask := tableBits(tool, strings.Fields(line)); mask != 0 {
			found = append(found, tableConflict{Conflict{What: tool, Text: "-t " + table + " " + line, Mask: mask}, table})
		}
	}
	return found
}

// tableBits returns the bits of the mark that a rule reads or writes.
func tableBits(tool string, words []string) uint32 {
	var bits uint32
	match, target := "", ""
	if tool == "ebtables" { // it names no matches
		match = "mark"
	}
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
			if arg == "HMARK" {
				bits = AllMarks
			}
		case "--mark": // of -m mark; that of -m connmark is the connection's
			if match == "mark" {
				bits |= maskOf(arg)
			}
		case "--set-xmark", "--set-mark":
			if target == "MARK" {
				bits |= maskOf(arg) | valueOf(arg)
			}
		case "--mark-set":
			bits = AllMarks
		case "--mark-or", "--mark-xor":
			bits |= valueOf(arg)
		case "--mark-and":
			bits |= ^valueOf(arg)
		case "--zone", "--zone-orig", "--zone-reply":
			if target == "CT" && arg == "mark" {
				bits = AllMarks
			}
		case "--validmark", "--restore-skmark", "--map-mark":
			bits = AllMarks
		case "--save-mark", "--restore-mark":
			copies = true
		case "--nfmask", "--mask":
			if m, err := strconv.ParseUint(arg, 0, 32); err == nil {
				nfmask = uint32(m)
			}
		case "--tproxy-mark":
			bits |= maskOf(arg) | valueOf(arg)
		}
	}
	if copies {
		bits |= nfmask
	}
	return bits
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

// valueOf returns VALUE of "VALUE[/MASK]".
func valueOf(arg string) uint32 {
	value, _, _ := strings.Cut(arg, "/")
	v, err := strconv.ParseUint(value, 0, 32)
	if err != nil {
		return AllMarks
	}
	return uint32(v)
}
