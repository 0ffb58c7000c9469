// SPDX-License-Identifier: Apache-2.0

package p4runtime

import (
	"fmt"
	"math/big"
	"strings"

	p4config "github.com/p4lang/p4runtime/go/p4/config/v1"
	p4 "github.com/p4lang/p4runtime/go/p4/v1"
)

// Text is an entity in the language that Commands reads.
func (p *Program) Text(e *p4.Entity) string {
	if c := e.GetPacketReplicationEngineEntry().GetCloneSessionEntry(); c != nil {
		words := []string{"mirroring_add", fmt.Sprint(c.GetSessionId())}
		for _, r := range c.GetReplicas() {
			words = append(words, fmt.Sprint(port(r)))
		}
		return strings.Join(words, " ")
	}
	entry := e.GetTableEntry()
	t := p.tableByID(entry.GetTableId())
	words := []string{"table_add"}
	if entry.GetIsDefaultAction() {
		words[0] = "table_set_default"
	}
	words = append(words, t.GetPreamble().GetName())
	action := p.actionByID(entry.GetAction().GetAction().GetActionId())
	words = append(words, action.GetPreamble().GetName())
	if !entry.GetIsDefaultAction() {
		for _, f := range t.GetMatchFields() {
			words = append(words, matchText(f, entry.GetMatch()))
		}
		words = append(words, "=>")
	}
	for i, param := range entry.GetAction().GetAction().GetParams() {
		width := int32(0)
		if i < len(action.GetParams()) {
			width = action.GetParams()[i].GetBitwidth()
		}
		words = append(words, valueText(param.GetValue(), width))
	}
	if hasPriority(t) && !entry.GetIsDefaultAction() {
		words = append(words, fmt.Sprint(topPriority-int(entry.GetPriority())))
	}
	return strings.Join(words, " ")
}

func matchText(f *p4config.MatchField, list []*p4.FieldMatch) string {
	for _, m := range list {
		if m.GetFieldId() != f.GetId() {
			continue
		}
		switch {
		case m.GetExact() != nil:
			return valueText(m.GetExact().GetValue(), f.GetBitwidth())
		case m.GetLpm() != nil:
			return fmt.Sprintf("%s/%d", valueText(m.GetLpm().GetValue(), f.GetBitwidth()), m.GetLpm().GetPrefixLen())
		case m.GetTernary() != nil:
			return valueText(m.GetTernary().GetValue(), f.GetBitwidth()) + "&&&" + valueText(m.GetTernary().GetMask(), f.GetBitwidth())
		case m.GetRange() != nil:
			return valueText(m.GetRange().GetLow(), f.GetBitwidth()) + "->" + valueText(m.GetRange().GetHigh(), f.GetBitwidth())
		}
	}
	if f.GetMatchType() == p4config.MatchField_LPM {
		return "0/0"
	}
	return "0&&&0"
}

// valueText is a value as people write it: wide ones and masks in hexadecimal.
func valueText(b []byte, width int32) string {
	n := new(big.Int).SetBytes(b)
	if width > 32 || n.BitLen() > 16 {
		return fmt.Sprintf("0x%x", n)
	}
	return n.String()
}

func (p *Program) tableByID(id uint32) *p4config.Table {
	for _, t := range p.info.GetTables() {
		if t.GetPreamble().GetId() == id {
			return t
		}
	}
	return nil
}

func (p *Program) actionByID(id uint32) *p4config.Action {
	for _, a := range p.info.GetActions() {
		if a.GetPreamble().GetId() == id {
			return a
		}
	}
	return nil
}
