// SPDX-License-Identifier: Apache-2.0

package mapped

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/vnetradar/radar/pkg/telemetry/control"
	"github.com/vnetradar/radar/pkg/telemetry/control/p4runtime"
	"github.com/vnetradar/radar/pkg/telemetry/node"
)

// Map says how a program holds a State. It is a YAML file.
type Map struct {
	Program   string    `yaml:"program"` // a name, for people
	Abilities Abilities `yaml:"abilities"`
	Tables    []Table   `yaml:"tables"`
	Sessions  []Session `yaml:"sessions"`
	// Counters name, for each counter, what its indexes count; "" for those that say nothing.
	Counters map[string][]string `yaml:"counters"`
}

// Abilities are those of switches with the program.
type Abilities struct {
	Modes   []control.Mode `yaml:"modes"`
	States  []string       `yaml:"states"`  // network states that it can fill
	Reports []string       `yaml:"reports"` // versions of telemetry reports
	// Mark is the only mark that the program can give packets, where it cannot be set.
	Mark      string `yaml:"mark"`
	Sampling  bool   `yaml:"sampling"`
	Ranges    bool   `yaml:"ranges"`    // ports are matched by ranges
	Postcards bool   `yaml:"postcards"` // INT-XD needs the watchlist at each switch
}

// Table is a table, or its default action.
type Table struct {
	Name string `yaml:"name"`
	// Stage says when it is written: sinks, sources, watchlist.
	Stage string `yaml:"stage"`
	// For says for what it has an entry each: device, edges, transits, entries.
	For string `yaml:"for"`
	// Mode limits it to entries of that mode.
	Mode control.Mode `yaml:"mode"`
	// Key has a value for each of its match fields. A table without a key has its default action set.
	Key map[string]string `yaml:"key"`
	// Action and Params are its action, and values of the parameters by name. Off is the action of a table without a key
	// where nothing of INT is wanted.
	Action string            `yaml:"action"`
	Params map[string]string `yaml:"params"`
	Off    string            `yaml:"off"`
	// Marks says that the table decides how packets that bear INT are known.
	Marks bool `yaml:"marks"`
}

// Session is a clone session.
type Session struct {
	ID   uint32 `yaml:"id"`
	Port string `yaml:"port"`
}

var stageOf = map[string]p4runtime.Stage{"sinks": p4runtime.Sinks, "sources": p4runtime.Sources, "watchlist": p4runtime.Watchlist}

var kinds = []string{"device", "edges", "transits", "entries"}

// ReadMap reads a map. An error names the field.
func ReadMap(text []byte) (*Map, error) {
	m := new(Map)
	if err := yaml.UnmarshalWithOptions(text, m, yaml.Strict()); err != nil {
		// Without the lines of the file: it may be another one than a map.
		return nil, &control.FieldError{Text: strings.TrimSpace(yaml.FormatError(err, false, false))}
	}
	return m, m.check()
}

func fieldErrorf(field, format string, args ...any) error {
	return &control.FieldError{Field: field, Text: fmt.Sprintf(format, args...)}
}

func (m *Map) check() error {
	if len(m.Tables) == 0 {
		return fieldErrorf("tables", "there is none")
	}
	if len(m.Abilities.Modes) == 0 {
		return fieldErrorf("abilities.modes", "there is none")
	}
	if _, err := node.ParseInstructions(strings.Join(m.Abilities.States, ",")); err != nil || len(m.Abilities.States) == 0 {
		return fieldErrorf("abilities.states", "use %s", strings.Join(node.InstructionNames(), ", "))
	}
	if m.Abilities.Mark != "" {
		if _, err := node.ParseMark(m.Abilities.Mark); err != nil {
			return fieldErrorf("abilities.mark", "%q: use dscp=VALUE/MASK or port=N", m.Abilities.Mark)
		}
	}
	watch := false
	for i := range m.Tables {
		t, path := &m.Tables[i], fmt.Sprintf("tables[%d]", i)
		watch = watch || t.For == "entries"
		if err := t.check(path); err != nil {
			return err
		}
	}
	if !watch {
		return fieldErrorf("tables", "none is for entries: intents have no table")
	}
	for i, s := range m.Sessions {
		if s.ID == 0 {
			return fieldErrorf(fmt.Sprintf("sessions[%d].id", i), "0: use 1 or more")
		}
		if err := checkValue(s.Port, "device"); err != nil {
			return fieldErrorf(fmt.Sprintf("sessions[%d].port", i), "%v", err)
		}
	}
	return nil
}

func (t *Table) check(path string) error {
	_, known := stageOf[t.Stage]
	switch {
	case t.Name == "":
		return fieldErrorf(path+".name", "which table is it?")
	case !known:
		return fieldErrorf(path+".stage", "%q: use sinks, sources or watchlist", t.Stage)
	case !slices.Contains(kinds, t.For):
		return fieldErrorf(path+".for", "%q: use %s", t.For, strings.Join(kinds, ", "))
	case (t.For == "entries") != (t.Stage == "watchlist"):
		return fieldErrorf(path+".stage", "tables for entries, and no others, are of stage watchlist")
	case t.Action == "":
		return fieldErrorf(path+".action", "which action has an entry?")
	case len(t.Key) == 0 && t.For != "device":
		return fieldErrorf(path+".key", "a table without a key is for the device")
	case len(t.Key) == 0 && t.Off == "":
		return fieldErrorf(path+".off", "which action has a table without a key where no INT is wanted?")
	case t.Mode != "" && t.For != "entries":
		return fieldErrorf(path+".mode", "only tables for entries have one")
	}
	for name, v := range t.Key {
		if err := checkValue(v, t.For); err != nil {
			return fieldErrorf(path+".key."+name, "%v", err)
		}
	}
	for name, v := range t.Params {
		if err := checkValue(v, t.For); err != nil {
			return fieldErrorf(path+".params."+name, "%v", err)
		}
	}
	return nil
}

// valueForm is NAME, or NAME[HIGH:LOW]: bits of it.
var valueForm = regexp.MustCompile(`^([a-z][a-z0-9_.]*)(?:\[([0-9]+):([0-9]+)\])?$`)

// names are those of values, by what an entry is for. Those of the device hold everywhere.
var names = map[string][]string{
	"device": {"node_id", "domain_id", "mark_dscp", "mark_mask", "mark_port", "collector", "collector_port", "quote"},
	"edges":  {"port"}, "transits": {"port", "mtu"},
	"entries": {"src", "dst", "proto", "sport", "dport", "dscp", "instructions", "words", "hops", "sample", "any"},
}

// checkValue refuses a value that entries of that kind do not have.
func checkValue(text, kind string) error {
	if _, err := strconv.ParseUint(text, 0, 64); err == nil {
		return nil
	}
	parts := valueForm.FindStringSubmatch(text)
	if parts == nil {
		return fmt.Errorf("%q is neither a number nor a NAME nor NAME[HIGH:LOW]", text)
	}
	if strings.HasPrefix(parts[1], "set.") {
		return nil
	}
	if parts[2] != "" {
		high, _ := strconv.Atoi(parts[2])
		low, _ := strconv.Atoi(parts[3])
		if low > high || high > 63 {
			return fmt.Errorf("%q: bits are HIGH:LOW, of 64 at most", text)
		}
	}
	all := append(slices.Clone(names["device"]), names[kind]...)
	if !slices.Contains(all, parts[1]) {
		return fmt.Errorf("there is no value %q here: use %s, set.NAME or a number", parts[1], strings.Join(slices.Compact(slices.Sorted(slices.Values(all))), ", "))
	}
	return nil
}

// sets are the names of values that the map takes from a device.
func (m *Map) sets() (list []string) {
	add := func(text string) {
		if name, ok := strings.CutPrefix(text, "set."); ok {
			list = append(list, name)
		}
	}
	for i := range m.Tables {
		for _, v := range m.Tables[i].Key {
			add(v)
		}
		for _, v := range m.Tables[i].Params {
			add(v)
		}
	}
	for _, s := range m.Sessions {
		add(s.Port)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

func (m *Map) wants(set string) bool { return slices.Contains(m.sets(), set) }
