// SPDX-License-Identifier: Apache-2.0

// Package p4runtime programs P4 switches by P4Runtime: it loads a compiled program, fills its
// tables, and reads its counters.
package p4runtime

import (
	"fmt"

	p4config "github.com/p4lang/p4runtime/go/p4/config/v1"
	"google.golang.org/protobuf/encoding/prototext"
)

// Program is a compiled P4 program. It knows the numbers that P4Runtime has for the program's
// names. It may be used by several switches at a time.
type Program struct {
	info     *p4config.P4Info
	binary   []byte // for the switch: BMv2's JSON
	tables   map[string]*p4config.Table
	actions  map[string]*p4config.Action
	counters map[string]*p4config.Counter
}

// NewProgram reads a program's description (P4Info as text). binary is what the compiler has made
// for the switch.
func NewProgram(info, binary []byte) (*Program, error) {
	read := new(p4config.P4Info)
	if err := prototext.Unmarshal(info, read); err != nil {
		return nil, fmt.Errorf("read P4Info: %w", err)
	}
	return newProgram(read, binary), nil
}

func newProgram(info *p4config.P4Info, binary []byte) *Program {
	p := &Program{
		info:     info,
		binary:   binary,
		tables:   make(map[string]*p4config.Table),
		actions:  make(map[string]*p4config.Action),
		counters: make(map[string]*p4config.Counter),
	}
	for _, t := range p.info.GetTables() {
		p.tables[t.GetPreamble().GetName()] = t
	}
	for _, a := range p.info.GetActions() {
		p.actions[a.GetPreamble().GetName()] = a
	}
	for _, c := range p.info.GetCounters() {
		p.counters[c.GetPreamble().GetName()] = c
	}
	return p
}

// Lacks returns those of these tables, actions and counters that the program does not have.
func (p *Program) Lacks(names ...string) (missing []string) {
	for _, name := range names {
		if p.tables[name] == nil && p.actions[name] == nil && p.counters[name] == nil {
			missing = append(missing, name)
		}
	}
	return missing
}

// Size is how many entries a table has room for; 0: there is no such table, or it does not say.
func (p *Program) Size(table string) int { return int(p.tables[table].GetSize()) }

func (p *Program) table(name string) (*p4config.Table, error) {
	if t := p.tables[name]; t != nil {
		return t, nil
	}
	return nil, fmt.Errorf("the program has no table %q", name)
}

// action is an action of a table.
func (p *Program) action(t *p4config.Table, name string) (*p4config.Action, error) {
	a := p.actions[name]
	for _, ref := range t.GetActionRefs() {
		if a != nil && ref.GetId() == a.GetPreamble().GetId() {
			return a, nil
		}
	}
	return nil, fmt.Errorf("table %s has no action %q", t.GetPreamble().GetName(), name)
}
