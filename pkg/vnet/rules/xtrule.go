// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
)

// xtRule is a rule of a legacy table, or a chain's policy, as iptables -L counts them.
type xtRule struct {
	tool, table, chain string
	hook               string // "": the chain is called by others
	number             int    // in its chain, from 1; 0: it is the policy
	packets            uint64 // that came to its target, since it was made or its counters were set to zero
	entry              []byte
}

// String is "iptables filter FORWARD: rule 3".
func (r *xtRule) String() string {
	what := "policy"
	if r.number > 0 {
		what = fmt.Sprintf("rule %d", r.number)
	}
	return fmt.Sprintf("%s %s %s: %s", r.tool, r.table, r.chain, what)
}

// Where ipt_getinfo says which hooks a table has, where their chains begin, and where these chains' policies are.
const (
	xtValidHooks = 32
	xtHookEntry  = 36
	xtUnderflow  = 56
	xtHooks      = 5
)

// xtCounters is the size of struct xt_counters, with which an entry ends before its matches.
const xtCounters = 16

// xtChainHead is the target of the entry with which a chain begins that is no hook's, and with which a table ends.
const xtChainHead = "ERROR"

// rules goes through those of a table.
func (f *xtFamily) rules(table string, info, entries []byte, yield func(xtRule)) {
	begins, policies := make(map[int]int), make(map[int]bool)
	for h := range xtHooks {
		if binary.NativeEndian.Uint32(info[xtValidHooks:])&(1<<h) != 0 {
			begins[int(binary.NativeEndian.Uint32(info[xtHookEntry+4*h:]))] = h
			policies[int(binary.NativeEndian.Uint32(info[xtUnderflow+4*h:]))] = true
		}
	}
	r := xtRule{tool: f.tool, table: table}
	for at, number := 0, 0; len(entries)-at >= f.entry; {
		next := int(binary.NativeEndian.Uint16(entries[at+f.toNext:]))
		if next < f.entry || next > len(entries)-at {
			return
		}
		r.entry = entries[at : at+next]
		if h, is := begins[at]; is {
			r.chain, r.hook, number = strings.ToUpper(hooks[h]), hooks[h], 0
		}
		name, target := f.target(r.entry)
		if name == xtChainHead {
			head, _, _ := bytes.Cut(target, []byte{0})
			r.chain, r.hook, number = string(head), "", 0
		} else {
			number++
			if r.number = number; policies[at] {
				r.number = 0
			}
			r.packets = binary.NativeEndian.Uint64(r.entry[f.entry-xtCounters:])
			yield(r)
		}
		at += next
	}
}

// target is that of an entry: its name, "" for the standard one, and its data.
func (f *xtFamily) target(entry []byte) (name string, data []byte) {
	at := int(binary.NativeEndian.Uint16(entry[f.toTarget:]))
	if at < f.entry || at+xtExtHeader > len(entry) {
		return "", nil
	}
	text, _, _ := bytes.Cut(entry[at+2:at+xtExtHeader-1], []byte{0})
	return string(text), entry[at+xtExtHeader:]
}

// drops reports whether an entry does: by the standard target's verdict, or by a target that may (REJECT, NFQUEUE without a
// reader).
func (f *xtFamily) drops(entry []byte) bool {
	switch name, data := f.target(entry); name {
	case "": // the standard target
		if len(data) >= 4 {
			verdict := int32(binary.NativeEndian.Uint32(data))
			return verdict == -nfDrop-1 || verdict == -nfQueue-1
		}
	case "REJECT", "NFQUEUE", "SYNPROXY", "TPROXY":
		return true
	}
	return false
}
