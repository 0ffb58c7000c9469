// SPDX-License-Identifier: Apache-2.0

package mapped

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/vnetradar/radar/pkg/intwire"
	"github.com/vnetradar/radar/pkg/telemetry/control"
	"github.com/vnetradar/radar/pkg/telemetry/control/p4runtime"
	"github.com/vnetradar/radar/pkg/telemetry/node"
)

// layout is a program as its map says.
type layout struct {
	m *Map
	o *options
	p *p4runtime.Program // of the switch, once it is known
}

// Tables implements p4runtime.Layout.
func (l *layout) Tables() (list []p4runtime.Table) {
	for i := range l.m.Tables {
		t := &l.m.Tables[i]
		if !slices.ContainsFunc(list, func(x p4runtime.Table) bool { return x.Name == t.Name }) {
			list = append(list, p4runtime.Table{Name: t.Name, Stage: stageOf[t.Stage], Guards: t.Marks || t.For == "edges" && t.Stage == "sinks"})
		}
	}
	return list
}

// Sessions implements p4runtime.Layout.
func (l *layout) Sessions() (ids []uint32) {
	for _, s := range l.m.Sessions {
		ids = append(ids, s.ID)
	}
	return ids
}

// Needs implements p4runtime.Layout.
func (l *layout) Needs() (names []string) {
	for i := range l.m.Tables {
		names = append(names, l.m.Tables[i].Action)
		if off := l.m.Tables[i].Off; off != "" {
			names = append(names, off)
		}
	}
	for counter := range l.m.Counters {
		names = append(names, counter)
	}
	return names
}

// Begin implements p4runtime.Beginner: what a key looks like depends on the program.
func (l *layout) Begin(p *p4runtime.Program) error {
	l.p = p
	for i := range l.m.Tables {
		t := &l.m.Tables[i]
		have := p.Fields(t.Name)
		for _, f := range have {
			if _, ok := t.Key[f.Name]; !ok && len(t.Key) > 0 {
				return fieldErrorf(fmt.Sprintf("tables[%d].key", i), "table %s has a key %s: say what it is, or any", t.Name, f.Name)
			}
		}
		for name := range t.Key {
			if !slices.ContainsFunc(have, func(f p4runtime.Field) bool { return f.Name == name }) {
				return fieldErrorf(fmt.Sprintf("tables[%d].key.%s", i, name), "table %s has no such key", t.Name)
			}
		}
		params := p.Params(t.Action)
		for _, name := range params {
			if _, ok := t.Params[name]; !ok {
				return fieldErrorf(fmt.Sprintf("tables[%d].params", i), "action %s has a parameter %s: say what it is", t.Action, name)
			}
		}
		for name := range t.Params {
			if !slices.Contains(params, name) {
				return fieldErrorf(fmt.Sprintf("tables[%d].params.%s", i, name), "action %s has no such parameter", t.Action)
			}
		}
	}
	return nil
}

// Abilities implements p4runtime.Layout.
func (l *layout) Abilities(p *p4runtime.Program) control.Abilities {
	a := &l.m.Abilities
	bitmap, _ := node.ParseInstructions(strings.Join(a.States, ","))
	able := control.Abilities{
		Modes: a.Modes, Instructions: bitmap, Reports: a.Reports, Sampling: a.Sampling, Ranges: a.Ranges, Postcards: a.Postcards,
		MarkDSCP: !strings.HasPrefix(a.Mark, "port="), MarkPort: !strings.HasPrefix(a.Mark, "dscp="),
	}
	for i := range l.m.Tables {
		if t := &l.m.Tables[i]; t.For == "entries" {
			able.MaxEntries = p.Size(t.Name)
		}
	}
	return able
}

// Counters implements p4runtime.Layout.
func (l *layout) Counters() map[string][]string { return l.m.Counters }

// Commands implements p4runtime.Layout.
func (l *layout) Commands(want *control.State) (lines []string, err error) {
	if len(want.Ports) > 0 && l.m.Abilities.Mark != "" {
		fixed, _ := node.ParseMark(l.m.Abilities.Mark)
		if mark, err := node.ParseMark(want.Mark); err != nil || mark != fixed {
			return nil, fmt.Errorf("the program marks packets by %v, and %s is wanted", fixed, want.Mark)
		}
	}
	for i := range l.m.Tables {
		more, err := l.table(&l.m.Tables[i], want)
		if err != nil {
			return nil, fmt.Errorf("table %s: %w", l.m.Tables[i].Name, err)
		}
		lines = append(lines, more...)
	}
	if len(want.Ports) == 0 {
		return lines, nil
	}
	for _, s := range l.m.Sessions {
		v, err := l.number(s.Port, &scope{want: want})
		if err != nil {
			return nil, fmt.Errorf("clone session %d: %w", s.ID, err)
		}
		lines = append(lines, fmt.Sprintf("mirroring_add %d %s", s.ID, v))
	}
	return lines, nil
}

// scope is of what a value is.
type scope struct {
	want  *control.State
	port  *control.DevicePort
	entry *control.Entry
}

// table makes the entries of one table.
func (l *layout) table(t *Table, want *control.State) (lines []string, err error) {
	if len(t.Key) == 0 {
		if len(want.Ports) == 0 {
			return []string{fmt.Sprintf("table_set_default %s %s", t.Name, t.Off)}, nil
		}
		params, err := l.params(t, &scope{want: want})
		return []string{strings.TrimSpace(fmt.Sprintf("table_set_default %s %s %s", t.Name, t.Action, params))}, err
	}
	if len(want.Ports) == 0 {
		return nil, nil
	}
	add := func(s *scope, priority int) error {
		var keys []string
		fields := l.p.Fields(t.Name)
		for _, f := range fields {
			k, err := l.key(f, t.Key[f.Name], s)
			if err != nil {
				return fmt.Errorf("key %s: %w", f.Name, err)
			}
			keys = append(keys, k)
		}
		params, err := l.params(t, s)
		if err != nil {
			return err
		}
		line := fmt.Sprintf("table_add %s %s %s => %s", t.Name, t.Action, strings.Join(keys, " "), params)
		if slices.ContainsFunc(fields, func(f p4runtime.Field) bool { return f.Kind == p4runtime.Ternary || f.Kind == p4runtime.Range }) {
			line += fmt.Sprintf(" %d", priority)
		}
		lines = append(lines, strings.TrimSpace(line))
		return nil
	}
	switch t.For {
	case "device":
		err = add(&scope{want: want}, 1)
	case "edges", "transits":
		role := map[string]control.Role{"edges": control.Edge, "transits": control.Transit}[t.For]
		for i := range want.Ports {
			if p := &want.Ports[i]; p.Role == role && err == nil {
				err = add(&scope{want: want, port: p}, 1)
			}
		}
	case "entries":
		for i := range want.Entries {
			e := &want.Entries[i]
			if (t.Mode != "" && t.Mode != e.Mode) || err != nil {
				continue
			}
			if err = t.expresses(&e.Slice); err == nil {
				err = add(&scope{want: want, entry: e}, i+1)
			}
			if err != nil {
				err = fmt.Errorf("intent %s: %w", e.Intent, err)
			}
		}
	}
	return lines, err
}

// expresses refuses a slice that asks for what the table has no key for.
func (t *Table) expresses(s *control.Slice) error {
	has := func(name string) bool {
		for _, v := range t.Key {
			if v == name {
				return true
			}
		}
		return false
	}
	for _, f := range []struct {
		name  string
		asked bool
	}{
		{"src", len(s.Src) > 0}, {"dst", len(s.Dst) > 0}, {"proto", s.Proto != ""}, {"sport", len(s.Sport) > 0},
		{"dport", len(s.Dport) > 0}, {"dscp", s.DSCP != nil},
	} {
		if f.asked && !has(f.name) {
			return fmt.Errorf("the program cannot match %s", f.name)
		}
	}
	if s.Expr != "" {
		return fmt.Errorf("tables do not match expressions such as %q", s.Expr)
	}
	return nil
}

func (l *layout) params(t *Table, s *scope) (string, error) {
	var words []string
	for _, name := range l.p.Params(t.Action) {
		v, err := l.number(t.Params[name], s)
		if err != nil {
			return "", fmt.Errorf("parameter %s: %w", name, err)
		}
		words = append(words, v)
	}
	return strings.Join(words, " "), nil
}

// number is a value as Program.Commands reads it.
func (l *layout) number(text string, s *scope) (string, error) {
	parts := valueForm.FindStringSubmatch(text)
	if parts == nil {
		return text, nil // a number
	}
	if name, ok := strings.CutPrefix(parts[1], "set."); ok {
		return fmt.Sprint(l.o.Set[name]), nil
	}
	if parts[1] == "collector" {
		return s.want.Collector.Addr().String(), nil
	}
	n, err := l.value(parts[1], s)
	if err != nil {
		return "", err
	}
	if parts[2] != "" {
		high, _ := strconv.Atoi(parts[2])
		low, _ := strconv.Atoi(parts[3])
		n = n >> low & (1<<(high-low+1) - 1)
	}
	return strconv.FormatUint(n, 10), nil
}

// value is one that is a number.
func (l *layout) value(name string, s *scope) (uint64, error) {
	mark, err := node.ParseMark(s.want.Mark)
	if err != nil {
		return 0, err
	}
	switch name {
	case "node_id":
		return uint64(s.want.NodeID), nil
	case "domain_id":
		return uint64(s.want.DomainID), nil
	case "mark_dscp":
		return uint64(mark.DSCP), nil
	case "mark_mask":
		return uint64(mark.Mask), nil
	case "mark_port":
		return uint64(mark.Port), nil
	case "collector_port":
		return uint64(s.want.Collector.Port()), nil
	case "quote":
		return uint64(s.want.Quote), nil
	case "port":
		n, err := l.o.Reach.PortNumber(s.port.Name)
		return uint64(n), err
	case "mtu":
		if s.port.MTU == 0 {
			return 1500, nil
		}
		return uint64(s.port.MTU), nil
	case "instructions":
		return uint64(s.entry.Instructions), nil
	case "words":
		format := intwire.INT20
		if s.entry.Mode == control.MD10 {
			format = intwire.INT10
		}
		return uint64(intwire.Words(format, s.entry.Instructions, 0)), nil
	case "hops":
		if s.entry.Hops == 0 {
			return control.DefaultHops, nil
		}
		return uint64(s.entry.Hops), nil
	case "sample":
		return uint64(max(s.entry.Sample, 1)), nil
	}
	return 0, fmt.Errorf("%s is no number", name)
}

// key is a match field's.
func (l *layout) key(f p4runtime.Field, text string, s *scope) (string, error) {
	if s.entry == nil || !slices.Contains([]string{"src", "dst", "proto", "sport", "dport", "dscp", "any"}, text) {
		v, err := l.number(text, s)
		return f.One(v), err
	}
	var list []string
	switch text {
	case "src":
		list = s.entry.Slice.Src
	case "dst":
		list = s.entry.Slice.Dst
	case "sport":
		list = s.entry.Slice.Sport
	case "dport":
		list = s.entry.Slice.Dport
	case "proto":
		if s.entry.Slice.Proto != "" {
			list = []string{map[string]string{"tcp": "6", "udp": "17"}[s.entry.Slice.Proto]}
		}
	case "dscp":
		if s.entry.Slice.DSCP != nil {
			list = []string{fmt.Sprint(*s.entry.Slice.DSCP)}
		}
	}
	switch {
	case len(list) == 0:
		return f.Any()
	case len(list) > 1:
		return "", fmt.Errorf("%s: one entry of a table matches one value", strings.Join(list, ", "))
	case text == "src" || text == "dst":
		return f.Address(list[0])
	case text == "sport" || text == "dport":
		return f.Ports(list[0])
	}
	return f.One(list[0]), nil
}
