// SPDX-License-Identifier: Apache-2.0

package p4runtime

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	p4config "github.com/p4lang/p4runtime/go/p4/config/v1"
	p4 "github.com/p4lang/p4runtime/go/p4/v1"
)

// Command is one line of a file of table entries.
type Command struct {
	Line   int // from 1
	Update *p4.Update
}

// Commands reads table entries in the language of BMv2's own command line, simple_switch_CLI, so
// that one file serves both: table_add, table_set_default and mirroring_add. Empty lines and those
// that begin with # are passed over.
func (p *Program) Commands(text string) ([]Command, error) {
	var list []Command
	number := 0
	for line := range strings.SplitSeq(text, "\n") {
		number++
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		entity, kind, err := p.command(words[0], words[1:])
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		list = append(list, Command{number, &p4.Update{Type: kind, Entity: entity}})
	}
	return list, nil
}

func (p *Program) command(name string, args []string) (*p4.Entity, p4.Update_Type, error) {
	switch name {
	case "table_add":
		e, err := p.tableAdd(args)
		return entity(e), p4.Update_INSERT, err
	case "table_set_default":
		e, err := p.tableSetDefault(args)
		return entity(e), p4.Update_MODIFY, err
	case "mirroring_add":
		e, err := mirroringAdd(args)
		return e, p4.Update_INSERT, err
	}
	return nil, 0, fmt.Errorf("unknown command %q: there are table_add, table_set_default, mirroring_add", name)
}

func entity(e *p4.TableEntry) *p4.Entity {
	return &p4.Entity{Entity: &p4.Entity_TableEntry{TableEntry: e}}
}

// topPriority is the number of the first entry. For simple_switch_CLI 1 comes first, for
// P4Runtime the greatest number does.
const topPriority = 1 << 24

// tableAdd reads TABLE ACTION KEY... => PARAMETER... [PRIORITY].
func (p *Program) tableAdd(args []string) (*p4.TableEntry, error) {
	if len(args) < 2 {
		return nil, errors.New("table_add: write TABLE ACTION KEY... => PARAMETER... [PRIORITY]")
	}
	t, err := p.table(args[0])
	if err != nil {
		return nil, err
	}
	e := &p4.TableEntry{TableId: t.GetPreamble().GetId()}
	rest := args[2:]
	if hasPriority(t) {
		n, err := strconv.Atoi(args[len(args)-1])
		if err != nil || n < 1 || n >= topPriority || len(rest) == 0 {
			return nil, fmt.Errorf("table %s: the last word is no priority from 1 on", args[0])
		}
		e.Priority, rest = int32(topPriority-n), rest[:len(rest)-1]
	}
	keys, params := rest, []string(nil)
	for i, word := range rest {
		if word == "=>" {
			keys, params = rest[:i], rest[i+1:]
		}
	}
	fields := t.GetMatchFields()
	if len(keys) != len(fields) {
		return nil, fmt.Errorf("table %s has %d keys, not %d", args[0], len(fields), len(keys))
	}
	for i, f := range fields {
		m, err := match(f, keys[i])
		if err != nil {
			return nil, fmt.Errorf("table %s, key %s: %w", args[0], f.GetName(), err)
		}
		if m != nil {
			e.Match = append(e.Match, m)
		}
	}
	e.Action, err = p.tableAction(t, args[1], params)
	return e, err
}

// tableSetDefault reads TABLE ACTION PARAMETER...
func (p *Program) tableSetDefault(args []string) (*p4.TableEntry, error) {
	if len(args) < 2 {
		return nil, errors.New("table_set_default: write TABLE ACTION and all PARAMETERs")
	}
	t, err := p.table(args[0])
	if err != nil {
		return nil, err
	}
	e := &p4.TableEntry{TableId: t.GetPreamble().GetId(), IsDefaultAction: true}
	e.Action, err = p.tableAction(t, args[1], args[2:])
	return e, err
}

func (p *Program) tableAction(t *p4config.Table, name string, params []string) (*p4.TableAction, error) {
	a, err := p.action(t, name)
	if err != nil {
		return nil, err
	}
	if len(params) != len(a.GetParams()) {
		return nil, fmt.Errorf("action %s has %d parameters, not %d", name, len(a.GetParams()), len(params))
	}
	action := &p4.Action{ActionId: a.GetPreamble().GetId()}
	for i, param := range a.GetParams() {
		v, err := parseValue(params[i], param.GetBitwidth())
		if err != nil {
			return nil, fmt.Errorf("action %s, parameter %s: %w", name, param.GetName(), err)
		}
		action.Params = append(action.Params, &p4.Action_Param{ParamId: param.GetId(), Value: v})
	}
	return &p4.TableAction{Type: &p4.TableAction_Action{Action: action}}, nil
}

// mirroringAdd reads SESSION PORT.
func mirroringAdd(args []string) (*p4.Entity, error) {
	if len(args) != 2 {
		return nil, errors.New("mirroring_add: write SESSION PORT")
	}
	session, err := strconv.ParseUint(args[0], 0, 32)
	if err != nil {
		return nil, fmt.Errorf("mirroring_add: session %q is no number", args[0])
	}
	port, err := strconv.ParseUint(args[1], 0, 9)
	if err != nil {
		return nil, fmt.Errorf("mirroring_add: port %q is no number below 512", args[1])
	}
	return cloneSession(uint32(session), uint32(port)), nil
}

// cloneSession is a clone session with a copy to each port.
func cloneSession(id uint32, ports ...uint32) *p4.Entity {
	e := &p4.CloneSessionEntry{SessionId: id}
	for _, port := range ports {
		//lint:ignore SA1019 switches of before P4Runtime 1.4 know no other form
		e.Replicas = append(e.Replicas, &p4.Replica{PortKind: &p4.Replica_EgressPort{EgressPort: port}, Instance: 1})
	}
	return &p4.Entity{Entity: &p4.Entity_PacketReplicationEngineEntry{PacketReplicationEngineEntry: &p4.PacketReplicationEngineEntry{
		Type: &p4.PacketReplicationEngineEntry_CloneSessionEntry{CloneSessionEntry: e},
	}}}
}
