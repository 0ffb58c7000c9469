// SPDX-License-Identifier: Apache-2.0

package p4runtime

import (
	"context"
	"fmt"
	"slices"
	"strings"

	p4config "github.com/p4lang/p4runtime/go/p4/config/v1"
	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/vnetradar/radar/pkg/telemetry/control"
)

// item is an entry of a table, a default action or a clone session.
type item struct {
	entity *p4.Entity // as normal makes it
	key    string     // what it is, whatever its action
	table  *Table     // nil: it is a clone session
}

func (it *item) stage() Stage {
	if it.table == nil {
		return Sinks
	}
	return it.table.Stage
}

func (it *item) guards() bool { return it.table != nil && it.table.Guards }

// isDefault reports whether it is the action of a table without a key, which cannot be removed.
func (it *item) isDefault() bool { return it.entity.GetTableEntry().GetIsDefaultAction() }

// normal is an entity as this package compares it: without what a switch adds by itself, and with values in their
// shortest form (P4Runtime 1.3.0, 8.4), which not every switch answers with.
func normal(e *p4.Entity) *p4.Entity {
	if t := e.GetTableEntry(); t != nil {
		n := &p4.TableEntry{TableId: t.GetTableId(), Priority: t.GetPriority(), IsDefaultAction: t.GetIsDefaultAction()}
		for _, m := range t.GetMatch() {
			n.Match = append(n.Match, normalMatch(m))
		}
		slices.SortFunc(n.Match, func(x, y *p4.FieldMatch) int { return int(x.GetFieldId()) - int(y.GetFieldId()) })
		if a := t.GetAction().GetAction(); a != nil {
			action := &p4.Action{ActionId: a.GetActionId()}
			for _, p := range a.GetParams() {
				action.Params = append(action.Params, &p4.Action_Param{ParamId: p.GetParamId(), Value: shortest(p.GetValue())})
			}
			slices.SortFunc(action.Params, func(x, y *p4.Action_Param) int { return int(x.GetParamId()) - int(y.GetParamId()) })
			n.Action = &p4.TableAction{Type: &p4.TableAction_Action{Action: action}}
		}
		return entity(n)
	}
	c := e.GetPacketReplicationEngineEntry().GetCloneSessionEntry()
	var ports []uint32
	for _, r := range c.GetReplicas() {
		ports = append(ports, port(r))
	}
	return cloneSession(c.GetSessionId(), ports...)
}

// port is that of a replica. P4Runtime 1.4 has two forms.
func port(r *p4.Replica) uint32 {
	var n uint32
	if b := r.GetPort(); b != nil {
		for _, x := range b {
			n = n<<8 | uint32(x)
		}
		return n
	}
	//lint:ignore SA1019 see cloneSession
	return r.GetEgressPort()
}

func normalMatch(m *p4.FieldMatch) *p4.FieldMatch {
	n := proto.Clone(m).(*p4.FieldMatch)
	switch {
	case n.GetExact() != nil:
		n.GetExact().Value = shortest(n.GetExact().GetValue())
	case n.GetLpm() != nil:
		n.GetLpm().Value = shortest(n.GetLpm().GetValue())
	case n.GetTernary() != nil:
		n.GetTernary().Value, n.GetTernary().Mask = shortest(n.GetTernary().GetValue()), shortest(n.GetTernary().GetMask())
	case n.GetRange() != nil:
		n.GetRange().Low, n.GetRange().High = shortest(n.GetRange().GetLow()), shortest(n.GetRange().GetHigh())
	}
	return n
}

// keyOf says what a normal entity is, whatever its action.
func keyOf(e *p4.Entity) string {
	if c := e.GetPacketReplicationEngineEntry().GetCloneSessionEntry(); c != nil {
		return fmt.Sprint("session ", c.GetSessionId())
	}
	t := proto.Clone(e.GetTableEntry()).(*p4.TableEntry)
	t.Action = nil
	b, _ := proto.MarshalOptions{Deterministic: true}.Marshal(t)
	return string(b)
}

// items makes items of entities. Those of tables that are not the layout's are an error.
func (c *conn) items(all []*p4.Entity) (map[string]*item, error) {
	items := make(map[string]*item)
	for _, e := range all {
		it := &item{entity: normal(e)}
		it.key = keyOf(it.entity)
		if t := it.entity.GetTableEntry(); t != nil {
			if it.table = c.tables[t.GetTableId()]; it.table == nil {
				return nil, fmt.Errorf("table %d is not one of INT's", t.GetTableId())
			}
		}
		items[it.key] = it
	}
	return items, nil
}

// held reads what the switch has of the layout's.
func (c *conn) held(ctx context.Context) (map[string]*item, error) {
	var all []*p4.Entity
	for id := range c.tables {
		e := &p4.TableEntry{TableId: id, IsDefaultAction: len(c.tableInfo(id).GetMatchFields()) == 0}
		found, err := c.sw.read(ctx, entity(e))
		if err != nil {
			return nil, err
		}
		for _, f := range found {
			if f.GetTableEntry().GetIsDefaultAction() == e.GetIsDefaultAction() {
				all = append(all, f)
			}
		}
	}
	for _, id := range c.layout.Sessions() {
		found, err := c.sw.read(ctx, cloneSession(id))
		if code := status.Code(err); err != nil && code != codes.NotFound {
			return nil, err
		}
		all = append(all, found...)
	}
	return c.items(all)
}

// wanted is what the switch is to have.
func (c *conn) wanted(want *control.State) (map[string]*item, error) {
	lines, err := c.layout.Commands(want)
	if err != nil {
		return nil, err
	}
	commands, err := c.sw.program.Commands(strings.Join(lines, "\n"))
	if err != nil {
		return nil, err
	}
	var all []*p4.Entity
	count := make(map[uint32]int)
	for i := range commands {
		e := commands[i].Update.GetEntity()
		all = append(all, e)
		if t := e.GetTableEntry(); t != nil && !t.GetIsDefaultAction() {
			count[t.GetTableId()]++
		}
	}
	for id, n := range count {
		if size := c.tableInfo(id).GetSize(); size > 0 && int64(n) > size {
			return nil, fmt.Errorf("table %s has room for %d entries, and %d are wanted", c.tableInfo(id).GetPreamble().GetName(), size, n)
		}
	}
	return c.items(all)
}

func (c *conn) tableInfo(id uint32) *p4config.Table { return c.sw.program.tableByID(id) }

// batch are changes that are written at once.
type batch struct {
	kind  p4.Update_Type
	items []*item
}

// changes are the batches that make the switch hold what is wanted, in the order in which they are safe.
func changes(held, wanted map[string]*item) (list []batch) {
	var add, modify, remove [stages][]*item
	guarded := false
	for key, it := range wanted {
		was := held[key]
		switch {
		case was == nil && !it.isDefault():
			add[it.stage()] = append(add[it.stage()], it)
		case was == nil || !proto.Equal(was.entity, it.entity):
			modify[it.stage()] = append(modify[it.stage()], it)
			guarded = guarded || it.guards()
		}
	}
	for key, it := range held {
		if wanted[key] == nil && !it.isDefault() {
			remove[it.stage()] = append(remove[it.stage()], it)
			guarded = guarded || it.guards()
		}
	}
	if guarded { // nothing is watched meanwhile
		remove[Watchlist], add[Watchlist], modify[Watchlist] = nil, nil, nil
		for _, it := range held {
			if it.stage() == Watchlist && !it.isDefault() {
				remove[Watchlist] = append(remove[Watchlist], it)
			}
		}
		for _, it := range wanted {
			if it.stage() == Watchlist && !it.isDefault() {
				add[Watchlist] = append(add[Watchlist], it)
			}
		}
	}
	put := func(kind p4.Update_Type, items []*item) {
		slices.SortFunc(items, func(x, y *item) int { return strings.Compare(x.key, y.key) })
		for chunk := range slices.Chunk(items, mostUpdates) {
			list = append(list, batch{kind, chunk})
		}
	}
	put(p4.Update_DELETE, remove[Watchlist])
	put(p4.Update_DELETE, remove[Sources])
	for s := Sinks; s < Watchlist; s++ {
		put(p4.Update_MODIFY, modify[s])
		put(p4.Update_INSERT, add[s])
	}
	put(p4.Update_DELETE, remove[Sinks])
	put(p4.Update_MODIFY, modify[Watchlist])
	put(p4.Update_INSERT, add[Watchlist])
	return list
}

// mostUpdates is how many changes one request has at most: switches limit the length of a message (gRPC: 4 MiB).
const mostUpdates = 512
