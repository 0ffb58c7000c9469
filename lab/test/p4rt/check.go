// SPDX-License-Identifier: Apache-2.0

package p4rt

import (
	"fmt"
	"math/big"

	p4config "github.com/p4lang/p4runtime/go/p4/config/v1"
	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

func badf(format string, args ...any) error {
	return status.Errorf(codes.InvalidArgument, format, args...)
}

func (s *Server) table(id uint32) *p4config.Table {
	for _, t := range s.Info.GetTables() {
		if t.GetPreamble().GetId() == id {
			return t
		}
	}
	return nil
}

// key is what an entity is, whatever its action.
func key(e *p4.Entity) string {
	if c := e.GetPacketReplicationEngineEntry().GetCloneSessionEntry(); c != nil {
		return fmt.Sprint("session ", c.GetSessionId())
	}
	t := e.GetTableEntry()
	k := fmt.Sprint("table ", t.GetTableId(), " ", t.GetIsDefaultAction(), " ", t.GetPriority())
	for field := uint32(1); field < 64; field++ { // in any order
		for _, m := range t.GetMatch() {
			if m.GetFieldId() == field {
				b, _ := proto.MarshalOptions{Deterministic: true}.Marshal(m)
				k += fmt.Sprintf(" %x", b)
			}
		}
	}
	return k
}

// matches reports whether a read of one entity finds the other: all entries of a table, its default, a session.
func matches(want, e *p4.Entity) bool {
	if c := want.GetPacketReplicationEngineEntry().GetCloneSessionEntry(); c != nil {
		is := e.GetPacketReplicationEngineEntry().GetCloneSessionEntry()
		return is != nil && (c.GetSessionId() == 0 || c.GetSessionId() == is.GetSessionId())
	}
	t, is := want.GetTableEntry(), e.GetTableEntry()
	return is != nil && is.GetTableId() == t.GetTableId() && is.GetIsDefaultAction() == t.GetIsDefaultAction()
}

// update makes one change, or says why not.
func (s *Server) update(u *p4.Update) error {
	e := u.GetEntity()
	size, limit := 0, int64(0)
	if t := e.GetTableEntry(); t != nil {
		table := s.table(t.GetTableId())
		if table == nil {
			return status.Errorf(codes.NotFound, "no table %d", t.GetTableId())
		}
		if err := s.checkEntry(u.GetType(), table, t); err != nil {
			return err
		}
		limit = table.GetSize()
		for _, h := range s.held {
			if h.GetTableEntry().GetTableId() == t.GetTableId() && !h.GetTableEntry().GetIsDefaultAction() {
				size++
			}
		}
		if t.GetIsDefaultAction() {
			s.held[key(e)] = e
			return nil
		}
	} else if c := e.GetPacketReplicationEngineEntry().GetCloneSessionEntry(); c == nil {
		return status.Errorf(codes.Unimplemented, "only tables and clone sessions are here")
	} else if c.GetSessionId() == 0 || c.GetSessionId() > 32767 {
		return badf("clone session %d", c.GetSessionId())
	}
	_, is := s.held[key(e)]
	switch {
	case u.GetType() == p4.Update_INSERT && is:
		return status.Errorf(codes.AlreadyExists, "Match entry exists, use MODIFY if you wish to change action")
	case u.GetType() != p4.Update_INSERT && !is:
		return status.Errorf(codes.NotFound, "Cannot find match entry")
	case u.GetType() == p4.Update_INSERT && limit > 0 && int64(size) >= limit:
		return status.Errorf(codes.ResourceExhausted, "Table is full")
	case u.GetType() == p4.Update_DELETE:
		delete(s.held, key(e))
	default:
		s.held[key(e)] = e
	}
	return nil
}

// checkEntry holds an entry against its table (sections 9.1, 8.4).
func (s *Server) checkEntry(kind p4.Update_Type, table *p4config.Table, t *p4.TableEntry) error {
	name := table.GetPreamble().GetName()
	if t.GetIsDefaultAction() {
		switch {
		case kind != p4.Update_MODIFY:
			return badf("%s: a default action can only be modified", name)
		case table.GetConstDefaultActionId() != 0:
			return badf("%s: its default action is constant", name)
		case len(t.GetMatch()) > 0 || t.GetPriority() != 0:
			return badf("%s: a default action has no match", name)
		}
		return s.checkAction(table, t.GetAction().GetAction(), true)
	}
	if len(table.GetMatchFields()) == 0 {
		return badf("%s: a table without a key has no entries", name)
	}
	given := make(map[uint32]*p4.FieldMatch)
	for _, m := range t.GetMatch() {
		if given[m.GetFieldId()] != nil {
			return badf("%s: field %d twice", name, m.GetFieldId())
		}
		given[m.GetFieldId()] = m
	}
	ordered := false
	for _, f := range table.GetMatchFields() {
		m := given[f.GetId()]
		delete(given, f.GetId())
		ordered = ordered || f.GetMatchType() == p4config.MatchField_TERNARY || f.GetMatchType() == p4config.MatchField_RANGE
		if err := checkMatch(f, m); err != nil {
			return badf("%s, %s: %v", name, f.GetName(), err)
		}
	}
	switch {
	case len(given) > 0:
		return badf("%s: it has no such fields: %v", name, given)
	case ordered != (t.GetPriority() > 0):
		return badf("%s: priority %d", name, t.GetPriority())
	case kind == p4.Update_DELETE:
		return nil
	}
	return s.checkAction(table, t.GetAction().GetAction(), false)
}

func checkMatch(f *p4config.MatchField, m *p4.FieldMatch) error {
	width := f.GetBitwidth()
	exact := f.GetMatchType() == p4config.MatchField_EXACT
	if m == nil {
		if exact {
			return fmt.Errorf("it must be given")
		}
		return nil
	}
	switch f.GetMatchType() {
	case p4config.MatchField_EXACT:
		if m.GetExact() == nil {
			return fmt.Errorf("it is matched exactly")
		}
		return checkValue(m.GetExact().GetValue(), width)
	case p4config.MatchField_TERNARY:
		if m.GetTernary() == nil {
			return fmt.Errorf("it is ternary")
		}
		v, k := new(big.Int).SetBytes(m.GetTernary().GetValue()), new(big.Int).SetBytes(m.GetTernary().GetMask())
		if k.Sign() == 0 || new(big.Int).AndNot(v, k).Sign() != 0 {
			return fmt.Errorf("%x under mask %x", v, k)
		}
		if err := checkValue(m.GetTernary().GetValue(), width); err != nil {
			return err
		}
		return checkValue(m.GetTernary().GetMask(), width)
	case p4config.MatchField_LPM:
		if m.GetLpm() == nil || m.GetLpm().GetPrefixLen() < 1 || m.GetLpm().GetPrefixLen() > width {
			return fmt.Errorf("it is a prefix of 1 to %d bits", width)
		}
		v := new(big.Int).SetBytes(m.GetLpm().GetValue())
		if low := width - m.GetLpm().GetPrefixLen(); v.Sign() != 0 && int32(v.TrailingZeroBits()) < low {
			return fmt.Errorf("bits behind the prefix are not 0")
		}
		return checkValue(m.GetLpm().GetValue(), width)
	case p4config.MatchField_RANGE:
		if m.GetRange() == nil {
			return fmt.Errorf("it is a range")
		}
		if err := checkValue(m.GetRange().GetLow(), width); err != nil {
			return err
		}
		return checkValue(m.GetRange().GetHigh(), width)
	}
	return fmt.Errorf("kind %v is not known here", f.GetMatchType())
}

// checkValue wants the shortest form that fits.
func checkValue(b []byte, width int32) error {
	switch {
	case len(b) == 0:
		return fmt.Errorf("a value without bytes")
	case len(b) > 1 && b[0] == 0:
		return fmt.Errorf("%x is not the shortest form", b)
	case new(big.Int).SetBytes(b).BitLen() > int(width):
		return fmt.Errorf("%x does not fit into %d bits", b, width)
	}
	return nil
}

func (s *Server) checkAction(table *p4config.Table, a *p4.Action, isDefault bool) error {
	name := table.GetPreamble().GetName()
	for _, ref := range table.GetActionRefs() {
		if ref.GetId() != a.GetActionId() {
			continue
		}
		if isDefault && ref.GetScope() == p4config.ActionRef_TABLE_ONLY || !isDefault && ref.GetScope() == p4config.ActionRef_DEFAULT_ONLY {
			return badf("%s: action %d may not be used there", name, a.GetActionId())
		}
		for _, action := range s.Info.GetActions() {
			if action.GetPreamble().GetId() == a.GetActionId() {
				return checkParams(action, a)
			}
		}
	}
	return badf("%s has no action %d", name, a.GetActionId())
}

func checkParams(action *p4config.Action, a *p4.Action) error {
	given := make(map[uint32][]byte)
	for _, p := range a.GetParams() {
		given[p.GetParamId()] = p.GetValue()
	}
	if len(given) != len(action.GetParams()) || len(a.GetParams()) != len(given) {
		return badf("%s has %d parameters, not %d", action.GetPreamble().GetName(), len(action.GetParams()), len(a.GetParams()))
	}
	for _, p := range action.GetParams() {
		if err := checkValue(given[p.GetId()], p.GetBitwidth()); err != nil {
			return badf("%s, %s: %v", action.GetPreamble().GetName(), p.GetName(), err)
		}
	}
	return nil
}

// padded is an entity as the server answers with it.
func (s *Server) padded(e *p4.Entity) *p4.Entity {
	if !s.Padded || e.GetTableEntry() == nil {
		return e
	}
	e = proto.Clone(e).(*p4.Entity)
	t := s.table(e.GetTableEntry().GetTableId())
	pad := func(b *[]byte, width int32) {
		*b = append(make([]byte, (int(width)+7)/8-len(*b)), *b...)
	}
	for _, m := range e.GetTableEntry().GetMatch() {
		for _, f := range t.GetMatchFields() {
			if f.GetId() != m.GetFieldId() {
				continue
			}
			if x := m.GetExact(); x != nil {
				pad(&x.Value, f.GetBitwidth())
			}
			if x := m.GetTernary(); x != nil {
				pad(&x.Value, f.GetBitwidth())
				pad(&x.Mask, f.GetBitwidth())
			}
		}
	}
	for _, action := range s.Info.GetActions() {
		a := e.GetTableEntry().GetAction().GetAction()
		if action.GetPreamble().GetId() != a.GetActionId() {
			continue
		}
		for _, p := range action.GetParams() {
			for _, v := range a.GetParams() {
				if v.GetParamId() == p.GetId() {
					pad(&v.Value, p.GetBitwidth())
				}
			}
		}
	}
	return e
}
