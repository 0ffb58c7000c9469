// SPDX-License-Identifier: Apache-2.0

package topo

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// nftConflicts finds nftables rules of the thread's namespace that match on or
// set the mark, and those that copy it to or from the connection's.
func nftConflicts(ctx context.Context) []Conflict {
	if !nftNamesMark() {
		return nil
	}
	out, ok := output(ctx, "nft", "-j", "list", "ruleset")
	if !ok {
		return nil
	}
	rules, err := nftMarkRules(out)
	if err != nil || len(rules) == 0 {
		return nil
	}
	// The JSON form has no text to show; the text form has no structure to trust.
	text, _ := output(ctx, "nft", "-a", "list", "ruleset")
	lines := nftLines(text)
	found := make([]Conflict, 0, len(rules))
	for _, r := range rules {
		where := fmt.Sprintf("%s %s %s", r.Family, r.Table, r.Chain)
		body := lines[nftKey{where, r.Handle}]
		if body == "" {
			body = fmt.Sprintf("handle %d", r.Handle)
		}
		found = append(found, Conflict{What: "nft", Text: where + ": " + body, Mask: r.mask})
	}
	return found
}

// nftNamesMark says whether a rule of the thread's namespace may use the mark: without
// that no tool need be run, of which each takes tens of milliseconds. It is a search for
// what the kernel's form of such a rule must have: the key of a meta expression, or the
// name of one of xtables' extensions, which iptables-nft makes.
func nftNamesMark() bool {
	req := nl.NewNetlinkRequest(unix.NFNL_SUBSYS_NFTABLES<<8|unix.NFT_MSG_GETRULE, unix.NLM_F_DUMP)
	req.AddData(&nl.Nfgenmsg{NfgenFamily: unix.AF_UNSPEC, Version: nl.NFNETLINK_V0})
	msgs, err := req.Execute(unix.NETLINK_NETFILTER, 0)
	if err != nil { // interrupted, say: only where there is no nf_tables are there no rules
		return !errors.Is(err, unix.EOPNOTSUPP) && !errors.Is(err, unix.EPROTONOSUPPORT) && !errors.Is(err, unix.EINVAL)
	}
	key := nl.NewRtAttr(unix.NFTA_META_KEY, binary.BigEndian.AppendUint32(nil, unix.NFT_META_MARK)).Serialize()
	return slices.ContainsFunc(msgs, func(rule []byte) bool {
		return bytes.Contains(rule, key) || bytes.Contains(rule, []byte("mark")) ||
			bytes.Contains(rule, []byte("MARK")) || bytes.Contains(rule, []byte("TPROXY"))
	})
}

type nftRule struct {
	Family string `json:"family"`
	Table  string `json:"table"`
	Chain  string `json:"chain"`
	Handle uint64 `json:"handle"`
	Expr   []any  `json:"expr"`
	mask   uint32
}

// nftMarkRules returns the rules of `nft -j list ruleset` that touch the mark,
// with the bits they touch.
func nftMarkRules(out []byte) ([]nftRule, error) {
	var doc struct {
		Objects []struct {
			Rule *nftRule `json:"rule"`
		} `json:"nftables"`
	}
	if err := json.Unmarshal(out, &doc); err != nil {
		return nil, fmt.Errorf("read nft ruleset: %w", err)
	}
	var rules []nftRule
	for _, o := range doc.Objects {
		if o.Rule == nil {
			continue
		}
		for _, e := range o.Rule.Expr {
			o.Rule.mask |= nftBits(e)
		}
		if o.Rule.mask != 0 {
			rules = append(rules, *o.Rule)
		}
	}
	return rules, nil
}

// nftBits returns the bits of the mark that an expression reads or writes.
func nftBits(e any) uint32 {
	switch v := e.(type) {
	case []any:
		var bits uint32
		for _, child := range v {
			bits |= nftBits(child)
		}
		return bits
	case map[string]any:
		if isMetaMark(v) {
			return AllMarks
		}
		if left, mask, ok := nftBinary(v, "&"); ok {
			return nftBits(left) & mask
		}
		if mask, ok := nftPrefix(v["match"]); ok {
			return mask
		}
		if m, ok := v["mangle"].(map[string]any); ok && isMetaMark(m["key"]) {
			return nftWritten(m["value"])
		}
		var bits uint32
		for _, child := range v {
			bits |= nftBits(child)
		}
		return bits
	}
	return 0
}

// nftPrefix takes a comparison of the mark's upper bits apart, as nft shows one with a
// mask of such bits: addr is the value, len the number of bits.
func nftPrefix(match any) (mask uint32, ok bool) {
	m, _ := match.(map[string]any)
	right, _ := m["right"].(map[string]any)
	prefix, _ := right["prefix"].(map[string]any)
	n, ok := prefix["len"].(float64)
	if !ok || n < 0 || n > 32 || !isMetaMark(m["left"]) {
		return 0, false
	}
	return uint32(uint64(AllMarks) << (32 - int(n))), true
}

// nftWritten returns the bits of the mark that change when it is set to value.
func nftWritten(value any) uint32 {
	if isMetaMark(value) {
		return 0
	}
	if left, mask, ok := nftBinary(value, "&"); ok && isMetaMark(left) {
		return ^mask // the mark itself, less what the mask clears
	}
	for _, op := range []string{"|", "^"} {
		if left, set, ok := nftBinary(value, op); ok {
			return nftWritten(left) | set
		}
	}
	return AllMarks
}

func isMetaMark(e any) bool {
	m, _ := e.(map[string]any)
	meta, _ := m["meta"].(map[string]any)
	return meta["key"] == "mark"
}

// nftBinary takes an operation on an expression and a number apart.
func nftBinary(e any, op string) (left any, number uint32, ok bool) {
	m, _ := e.(map[string]any)
	args, _ := m[op].([]any)
	if len(args) != 2 {
		return nil, 0, false
	}
	n, ok := args[1].(float64)
	return args[0], uint32(n), ok
}

// nftKey is a rule: "family table chain" and its handle.
type nftKey struct {
	where  string
	handle uint64
}

// nftLines returns the text of each rule in `nft -a list ruleset`.
func nftLines(text []byte) map[nftKey]string {
	lines := make(map[nftKey]string)
	var table, chain string
	for sc := bufio.NewScanner(bytes.NewReader(text)); sc.Scan(); {
		body, comment, _ := strings.Cut(strings.TrimSpace(sc.Text()), " # handle ")
		words := strings.Fields(body)
		if len(words) == 4 && words[0] == "table" {
			table = words[1] + " " + words[2]
		}
		if len(words) == 3 && words[0] == "chain" {
			chain = words[1]
		}
		var handle uint64
		if _, err := fmt.Sscan(comment, &handle); err == nil {
			lines[nftKey{table + " " + chain, handle}] = body
		}
	}
	return lines
}
