// SPDX-License-Identifier: Apache-2.0

package control

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/vnetradar/radar/pkg/fault"
)

var now = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// Each thing that is wrong is one error, which names the field.
func TestWrongIntents(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"- {name: a}\n- {name: a}", `intents[1].name: "a" is that of intents[0], too`},
		{"- {}", `intents[0].name: "": use 1 to 64`},
		{"- {name: a, colour: red}", "intents[0].colour: there is no such field: use created, devices"},
		{"- {name: a, slice: {dport: 99999}}", `intents[0].slice.dport: "99999": use a port, or a range`},
		{"- name: a\n- name: b\n- {name: c, slice: {dport: [80, 20-10]}}", `intents[2].slice.dport[1]: "20-10" ends before it begins: use 10-20`},
		{"- {name: a, slice: {src: 10.0.0.1/8}}", `intents[0].slice.src: "10.0.0.1/8" has bits behind its length: use 10.0.0.0/8`},
		{"- {name: a, slice: {src: 10.0.0.300}}", `intents[0].slice.src: "10.0.0.300": use an address or a prefix`},
		{"- {name: a, slice: {src: 10.0.0.1, dst: '2001:db8::1'}}", "intents[0].slice.dst: src is of the other version of IP"},
		{"- {name: a, slice: {proto: icmp}}", `intents[0].slice.proto: "icmp": use tcp or udp, or leave it out for both (expr: icmp with mode: backpack observes others)`},
		{"- {name: a, slice: {expr: icmp}}", `intents[0].slice.expr: "icmp": INT is put into TCP and UDP, and no packet of these matches`},
		{"- {name: a, mode: xd, slice: {expr: 'host 10.0.0.1 and ip6'}}", `intents[0].slice.expr`},
		{"- {name: a, slice: {dscp: 64}}", "intents[0].slice.dscp: 64: use 0 to 63"},
		{"- {name: a, slice: {dscp: 300}}", "intents[0].slice.dscp: 300: use 0 to 255"},
		{"- {name: a, slice: {expr: tcp, dport: 80}}", "intents[0].slice.expr: dport stands beside it"},
		{"- {name: a, slice: {expr: tcp and}}", "intents[0].slice.expr: "},
		{"- {name: a, states: [node-id, smell]}", `intents[0].states[1]: there is no "smell": use node-id`},
		{"- {name: a, mode: ms}", `intents[0].mode: "ms": use md, md1.0, mx, xd, backpack`},
		{"- {name: a, mode: backpack, hops: 3}", "intents[0].hops: mode backpack has no stack"},
		{"- {name: a, mode: xd, hops: 3}", "intents[0].hops: mode xd has no stack"},
		{"- {name: a, hops: 256}", "intents[0].hops: 256: use 0 to 255"},
		{"- {name: a, sample: -1}", "intents[0].sample: -1: use 0 to 4294967295"},
		{"- {name: a, sample: 4000000000}", "intents[0].sample: 4000000000: use 1 to 2147483648"},
		{"- {name: a, sample: many}", `intents[0].sample: "many": use a number`},
		{"- {name: a, sample: '3'}", `intents[0].sample: "3": use a number, without quotes`},
		{"- {name: a, priority: 1.5}", "intents[0].priority: 1.5: use a whole number"},
		{"- {name: a, expires: 2020-01-01T00:00:00Z}", "intents[0].expires: 2020-01-01T00:00:00Z is over"},
		{"- {name: a, expires: tomorrow}", `intents[0].expires: "tomorrow": use a time such as`},
		{"- {name: a, lifetime: 1h, expires: 2031-01-01T00:00:00Z}", "intents[0].lifetime: expires says it already"},
		{"- {name: a, lifetime: -1h}", `intents[0].lifetime: "-1h": use a time such as`},
		{"- {name: a, fallback: guess}", `intents[0].fallback: "guess": use refuse, approximate`},
		{"- {name: a, devices: [s1, s1]}", `intents[0].devices[1]: "s1" stands there twice`},
		{"- a", `intents[0]: "a": use an object, with fields`},
		{"intents: 3", "intents: 3: use a list"},
		{"intents: []\nconfig: {}", "config: there is no such field here"},
		{"- {name: a, name: b}", `line 1: mapping key "name" already defined`},
		{"- {name: a", "line 1: "},
		{"- &x {name: a}\n- *x", "line 1: anchors and aliases are not read here"},
		{"- {name: !!binary aGk=}", "line 1: tags (!) are not read here"},
		{"- {<<: {name: a}}", "line 1: merges (<<) are not read here"},
		{"[]\n---\n[]", "2 documents: use one"},
		{"- *x", "line 1: anchors and aliases are not read here"},
		{"? a\n: b", "line 1: keys of several lines (?) are not read here"},
		{strings.Repeat("[", MaxBytes), "line 1: lists and objects lie in each other too deep: use 64 at most"},
		{strings.Repeat("{a: ", MaxBytes/4), "line 1: lists and objects lie in each other too deep: use 64 at most"},
		{strings.Repeat("- ", MaxBytes/2), "line 1: lists and objects lie in each other too deep: use 64 at most"},
		{strings.Repeat("#", MaxBytes+1), "1048577 bytes: use 1048576 at most"},
		{"[" + strings.Repeat("{name: a},", MaxIntents+1) + "]", "line 1: a list or an object has more than 1024 entries"},
	} {
		list, err := ReadIntents([]byte(c.text), now)
		short := c.text[:min(len(c.text), 80)]
		switch {
		case err == nil:
			t.Errorf("%s: no error: %+v", short, list)
		case !strings.HasPrefix(err.Error(), c.want) || strings.Contains(err.Error(), "\n") || !errors.Is(err, fault.Usage) || len(FieldErrors(err)) != 1:
			t.Errorf("%s: %q (%d), want %q", short, err, len(FieldErrors(err)), c.want)
		}
	}
}

// YAML and JSON say the same, a single value stands for a list of one, and what is written is read again.
func TestIntentsRead(t *testing.T) {
	dscp := uint8(46)
	want := []Intent{
		{
			Name: "web", Slice: Slice{Src: []string{"10.0.0.0/8"}, Dst: []string{"10.1.0.1", "2001:db8::/32"}, Proto: "tcp", Dport: []string{"80", "8000-8099"}, DSCP: &dscp},
			States: []string{"node-id", "queue"}, Mode: MD10, Sample: 10, Hops: 4, Priority: -3, Expires: now.Add(90 * time.Minute), Fallback: Approximate, Devices: []string{"s1"},
		},
		{Name: "dns", Slice: Slice{Expr: "udp port 53"}, Mode: XD},
	}
	text := `
intents:
  - name: web
    slice: {src: 10.0.0.0/8, dst: [10.1.0.1, "2001:db8::/32"], proto: tcp, dport: [80, 8000-8099], dscp: 46}
    states: [node-id, queue]
    mode: md1.0
    sample: 10
    hops: 4
    priority: -3
    lifetime: 1h30m
    fallback: approximate
    devices: s1
  - {name: dns, slice: {expr: udp port 53}, mode: xd, devices: }
`
	list, err := ReadIntents([]byte(text), now)
	if err != nil || !reflect.DeepEqual(list, want) {
		t.Errorf("%+v, %v", list, err)
	}
	b, err := json.Marshal(map[string]any{"intents": list})
	if err != nil {
		t.Fatal(err)
	}
	if again, err := ReadIntents(b, now); err != nil || !reflect.DeepEqual(again, want) {
		t.Errorf("as JSON: %+v, %v", again, err)
	}
}

// A config and a topology name what is wrong with them as well.
func TestWrongRest(t *testing.T) {
	config := func(b []byte) error { _, err := ReadConfig(b); return err }
	topology := func(b []byte) error { _, err := ReadTopology(b); return err }
	for _, c := range []struct {
		read       func([]byte) error
		text, want string
	}{
		{config, "mark: dscp=0", `mark: "dscp=0": the value has bits of the mask`},
		{config, "mark: port=32766", "mark: port=32766: that is the port of the reports to 127.0.0.1:32766"},
		{config, "collector: here", `collector: "here": use HOST:PORT`},
		{config, "report: 3.0", `report: "3.0": use 2.0 or 1.0`},
		{config, "quote: 5000", "quote: 5000: use 0 to 1280"},
		{config, "node_ids: {s1: 1, s2: 1}", "node_ids.s2: 1 is the id of s1, too"},
		{config, "node_ids: {s1: 0}", "node_ids.s1: 0: use 1 to 4294967294"},
		{config, "domain_id: 70000", "domain_id: 70000: use 0 to 65535"},
		{topology, "nodes: [{name: a, driver: magic}]", `nodes[0].driver: "magic": use ebpf, p4runtime`},
		{topology, "nodes: [{name: a}, {name: a}]", `nodes[1].name: "a" is that of nodes[0], too`},
		{topology, "nodes: [{name: a, driver: ebpf, spec: netns:x}, {name: b, driver: ebpf, spec: netns:x}]", "nodes[1].spec: netns:x is that of a, too"},
		{topology, "nodes: [{name: a, ports: {e0: edge}}]", "nodes[0].driver: a has settings of a device and no driver"},
		{topology, "nodes: [{name: a, driver: ebpf, ports: {e0: king}}]", `nodes[0].ports.e0: "king": use edge, transit or none`},
		{topology, "nodes: [{name: a, driver: ebpf, mtu: {e0: 10}}]", "nodes[0].mtu.e0: 10: use 68 to 65535"},
		{topology, "nodes: [{name: a}]\nlinks: [[a/e0, b/e0]]", `links[0][1]: there is no node "b"`},
		{topology, "nodes: [{name: a}]\nlinks: [[a/e0, a/e1]]", "links[0][1]: the link leads from a/e0 back to the same node: a/e1"},
		{topology, "nodes: [{name: a}, {name: b}]\nlinks: [[a/e0, b/e0], [a/e0, b/e1]]", "links[1][0]: a/e0 is an end of links[0], too"},
		{topology, "nodes: [{name: a}]\nlinks: [[a/e0]]", "links[0]: it has 1 ends: use two or more"},
		{topology, "nodes: [{name: a}]\nlinks: [[a, a/e0]]", `links[0][0]: "a": use NODE/PORT`},
	} {
		if err := c.read([]byte(c.text)); err == nil || !strings.HasPrefix(err.Error(), c.want) || !errors.Is(err, fault.Usage) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %q", c.text, err, c.want)
		}
	}
}

// What makes no sense together is refused before it is written, and nothing has changed then.
func TestWrongTogether(t *testing.T) {
	t.Setenv("RADAR_STATE_DIR", t.TempDir())
	store := openStore(t)
	if _, err := store.Change(func(w *Wanted) error { start(w); return nil }); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		change func(*Wanted)
		want   string
	}{
		{func(w *Wanted) { w.Intents[0].Devices = []string{"s9"} }, `intents[0].devices[0]: there is no device "s9": use s1, s2, s3`},
		{func(w *Wanted) { w.Intents[0].Mode, w.Config.Mark = MD10, "port=7" }, "intents[0].mode: md1.0 is not marked by a port"},
	} {
		_, err := store.Change(func(w *Wanted) error { c.change(w); return nil })
		if err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
	if w, err := store.Wanted(); err != nil || w.Generation != 1 || w.Config.NodeIDs["s3"] != 3 {
		t.Errorf("%+v, %v", w, err)
	}
}

// Files that somebody else has put there are not believed.
func TestHostileFiles(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("RADAR_STATE_DIR", dir)
	store := openStore(t)
	if _, err := store.Change(func(w *Wanted) error { start(w); return nil }); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "intents/test/wanted.json")
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	elsewhere := filepath.Join(dir, "elsewhere")
	put := func(f func() error) {
		_ = os.Remove(file)
		if err := f(); err != nil {
			t.Fatal(err)
		}
	}
	for name, make := range map[string]func() error{
		"link":      func() error { return errors.Join(os.WriteFile(elsewhere, good, 0o600), os.Symlink(elsewhere, file)) },
		"directory": func() error { return os.Mkdir(file, 0o700) },
		"cut":       func() error { return os.WriteFile(file, good[:len(good)/2], 0o600) },
		"version":   func() error { return os.WriteFile(file, []byte(`{"version":99}`), 0o600) },
		"nonsense": func() error {
			return os.WriteFile(file, []byte(`{"version":1,"intents":[{"name":"a","mode":"x"}]}`), 0o600)
		},
	} {
		put(make)
		if w, err := store.Wanted(); err == nil {
			t.Errorf("%s: %+v", name, w)
		}
		if _, err := store.Change(func(w *Wanted) error { w.Running = false; return nil }); err == nil {
			t.Errorf("%s: changed", name)
		}
	}
	put(func() error { return os.WriteFile(file, good, 0o600) })
	if err := os.Chmod(filepath.Join(dir, "intents/test"), 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Wanted(); err == nil {
		t.Error("a directory that others may write to is believed")
	}
}

// The schema has every field of an intent, and every value that it may have.
func TestSchema(t *testing.T) {
	var schema struct {
		Defs struct {
			Intent struct {
				Properties map[string]struct {
					Enum       []string
					Properties map[string]any
				}
			} `json:"intent"`
		} `json:"$defs"`
	}
	if err := json.Unmarshal(Schema(), &schema); err != nil {
		t.Fatal(err)
	}
	has := schema.Defs.Intent.Properties
	for name := range fieldsOf(reflect.ValueOf(&intentForm{}).Elem()) {
		if _, is := has[name]; !is {
			t.Errorf("no %s", name)
		}
	}
	for name := range fieldsOf(reflect.ValueOf(&Slice{}).Elem()) {
		if _, is := has["slice"].Properties[name]; !is {
			t.Errorf("no slice.%s", name)
		}
	}
	if got := fmt.Sprint(has["mode"].Enum); got != "[md md1.0 mx xd backpack]" {
		t.Errorf("modes %s", got)
	}
	for name := range said {
		if _, is := has[name]; !is && has["slice"].Properties[name] == nil {
			t.Errorf("%s is described, and there is no such field", name)
		}
	}
}

// Whatever is read is an intent that makes sense, or an error: never both, never neither.
func FuzzReadIntents(f *testing.F) {
	f.Add([]byte("- {name: a, slice: {dport: [80, 1-2]}, lifetime: 1h}"))
	f.Add([]byte(`{"intents":[{"name":"b","slice":{"src":["10.0.0.0/8"]},"sample":3}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		list, err := ReadIntents(b, now)
		if err != nil && list != nil {
			t.Errorf("%v, and %+v", err, list)
		}
		if err == nil && CheckIntents(list, now) != nil {
			t.Errorf("%+v", list)
		}
	})
}

// A list that is too long is refused before it is parsed, wherever it stands and however it is written; many short
// ones are none. No message is longer than the text that it is about.
func TestLongLists(t *testing.T) {
	rows := func(n int, row string) string { return strings.Repeat(row, n) }
	for name, text := range map[string]string{
		"lines": rows(MaxIntents+1, "- {}\n"), "brackets": "[" + rows(MaxIntents, "{},") + "{}]", "JSON": `{"intents":[` + rows(MaxIntents, `{"name":"a"},`) + `{"name":"a"}]}`,
		"values": "- name: a\n  states:\n" + rows(MaxIntents+1, "  - q\n"), "values deeper": "- name: a\n  states:\n" + rows(MaxIntents+1, "    - q\n"),
		"below intents": "intents:\n" + rows(MaxIntents+1, "- name: a\n"), "fields": "- {" + rows(MaxIntents+1, "a: 1,") + "}", "fields in lines": rows(MaxIntents+1, "a: 1\n"),
	} {
		if _, err := ReadIntents([]byte(text), now); err == nil || !strings.Contains(err.Error(), "a list or an object has more than 1024 entries") {
			t.Errorf("%s: %.200v", name, err)
		}
	}
	var block, flow strings.Builder
	for i := range MaxIntents {
		fmt.Fprintf(&block, "- name: a%d\n  slice:\n    dport:\n    - 80\n    - 81\n    sport: [1, 2, 3]\n  states: [node-id, queue]\n  devices:\n  - s1\n", i)
		fmt.Fprintf(&flow, `%s{"name":"a%d","slice":{"dport":["80","81"]},"states":["node-id","queue"]}`, map[bool]string{true: "[", false: ","}[i == 0], i)
	}
	for _, text := range []string{block.String(), flow.String() + "]"} {
		if list, err := ReadIntents([]byte(text), now); err != nil || len(list) != MaxIntents {
			t.Errorf("%d intents, %.300v", len(list), err)
		}
	}
	for name, text := range map[string]string{
		"no intents": "[" + rows(MaxIntents-1, "a,") + "a]", "no states": "- {name: a, states: [" + rows(MaxIntents-1, "q,") + "q]}", "unnamed": "[" + rows(MaxIntents-1, "{},") + "{}]",
	} {
		if _, err := ReadIntents([]byte(text), now); err == nil || len(FieldErrors(err)) > 2*mostErrors {
			t.Errorf("%s: %d errors", name, len(FieldErrors(err)))
		}
	}
}

// TestPatchConfig: a part of a config is changed, and the rest stays; what is wrong is named, and nothing is changed.
func TestPatchConfig(t *testing.T) {
	had := Config{Mark: "port=5000", Collector: "10.0.0.9:32766", Report: "2.0", Quote: 40, NodeIDs: map[string]uint32{"a": 1, "b": 2}}
	for body, change := range map[string]func(*Config){
		"{}":                                func(*Config) {},
		`{"quote": 64}`:                     func(c *Config) { c.Quote = 64 },
		`{"mark": null, "report": "1.0"}`:   func(c *Config) { c.Mark, c.Report = "", "1.0" },
		`{"node_ids": {"c": 7}}`:            func(c *Config) { c.NodeIDs["c"] = 7 },
		`{"node_ids": {"a": 2}}`:            func(c *Config) { c.NodeIDs = map[string]uint32{"a": 2} },
		`{"node_ids": {"a": 2, "b": 1}}`:    func(c *Config) { c.NodeIDs = map[string]uint32{"a": 2, "b": 1} },
		`{"node_ids": {"a": null}}`:         func(c *Config) { delete(c.NodeIDs, "a") },
		`{"node_ids": null, "quote": null}`: func(c *Config) { c.NodeIDs, c.Quote = map[string]uint32{}, 0 },
	} {
		want := had
		want.NodeIDs = maps.Clone(had.NodeIDs)
		change(&want)
		if got, err := PatchConfig([]byte(body), had); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, %+v, want %+v", body, err, got, want)
		}
	}
	for body, want := range map[string]string{
		`{"quote": "many"}`: "quote: ", `{"qoute": 1}`: "qoute: there is no such field", `[1]`: "a list: use an object", `{"quote": 99999}`: "quote",
		`{"node_ids": {"a": "x"}}`: "node_ids.a: ", `{"mark": "port=0"}`: "mark",
	} {
		if _, err := PatchConfig([]byte(body), had); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", body, err, want)
		}
	}
	if !reflect.DeepEqual(had.NodeIDs, map[string]uint32{"a": 1, "b": 2}) {
		t.Errorf("the config itself has changed: %v", had)
	}
}
