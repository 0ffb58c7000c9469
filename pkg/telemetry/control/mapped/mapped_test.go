// SPDX-License-Identifier: Apache-2.0

package mapped

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/lab/test/p4rt"
	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/telemetry/control"
)

const onos = "../../../../docs/int/maps/onos-int.yaml"

func device(address string) control.Device {
	return control.Device{Name: "s1", Driver: "mapped", Spec: address, Options: map[string]any{
		"map": onos, "ports": map[string]any{"eth0": 1, "eth1": 2},
		"set": map[string]any{"report_port": 3, "src_mac": "02:00:00:00:01:03", "mon_mac": "02:00:00:00:00:09", "src": "10.0.9.1"},
	}}
}

func wanted() control.State {
	return control.State{
		NodeID: 7, Mark: "dscp=0x01/0x3f", Collector: netip.MustParseAddrPort("10.0.9.9:32766"), Report: "1.0",
		Ports: []control.DevicePort{{Name: "eth0", Role: control.Edge}, {Name: "eth1", Role: control.Transit}},
		Entries: []control.Entry{{
			Intent: "web", Slice: control.Slice{Src: []string{"10.1.0.0/16"}, Dport: []string{"80"}}, Mode: control.MD10, Instructions: 0xa000, Hops: 4,
		}},
	}
}

func connect(t *testing.T, d control.Device) (control.Conn, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), nstest.Patience)
	defer cancel()
	c, err := new(Driver).Connect(ctx, d)
	if err == nil {
		t.Cleanup(func() { _ = c.Close() })
	}
	return c, err
}

func start(t *testing.T) *p4rt.Server {
	t.Helper()
	info, err := os.ReadFile("testdata/onos-int.p4info.txtpb")
	if err != nil {
		t.Fatal(err)
	}
	return (&p4rt.Server{Info: p4rt.ReadInfo(t, info)}).Start(t)
}

// TestONOS: the tables of ONOS' pipeline hold a state as its own application fills them.
func TestONOS(t *testing.T) {
	s := start(t)
	c, err := connect(t, device(s.Address()))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"+ mirroring_add 500 3",
		"+ table_add egress.process_int_report.tb_generate_report egress.process_int_report.do_report_encapsulation 1 => 0x20000000103 0x20000000009 0xa000901 0xa000909 32766",
		"+ table_add egress.process_int_transit.tb_int_insert egress.process_int_transit.init_metadata 1 => 7",
		"+ table_add ingress.process_int_source_sink.tb_set_sink ingress.process_int_source_sink.int_set_sink 1 =>",
		"+ table_add ingress.process_int_source_sink.tb_set_source ingress.process_int_source_sink.int_set_source 1 =>",
		"+ table_add ingress.process_int_source.tb_int_source ingress.process_int_source.int_source_dscp 0xa010000&&&0xffff0000 0&&&0 0&&&0 80&&&65535 => 2 4 10 0 1",
	}
	lines, err := c.Plan(t.Context(), wanted())
	if err != nil {
		t.Fatal(err)
	}
	for i, l := range lines {
		if strings.Contains(l, "tb_int_source") && i != len(lines)-1 || strings.Contains(l, "tb_set_source") && i != len(lines)-2 {
			t.Errorf("line %d is too early: %s", i, l)
		}
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, slices.Sorted(slices.Values(lines))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if err := c.Apply(t.Context(), wanted()); err != nil {
		t.Fatal(err)
	}
	if ok, err := c.Holds(t.Context()); !ok || err != nil || len(s.Held()) != 6 {
		t.Errorf("it holds %d entries, want 6: %v, %v", len(s.Held()), ok, err)
	}
	if err := c.Clear(t.Context()); err != nil || len(s.Held()) != 0 || len(s.Refused()) > 0 {
		t.Errorf("after Clear: %v, %v, refused %v", err, s.Held(), s.Refused())
	}
	a := c.Abilities()
	if a.MaxEntries != 1024 || !a.MarkDSCP || a.MarkPort || a.Instructions != 0xfc00 || a.Sampling || a.Expressions {
		t.Errorf("abilities: %+v", a)
	}
}

// TestRefused: what the program cannot do is refused, and nothing is written.
func TestRefused(t *testing.T) {
	s := start(t)
	c, err := connect(t, device(s.Address()))
	if err != nil {
		t.Fatal(err)
	}
	for text, change := range map[string]func(*control.State){
		"intent web: the program cannot match proto":               func(w *control.State) { w.Entries[0].Slice.Proto = "tcp" },
		"2001:db8::/64: the program matches IPv4 alone":            func(w *control.State) { w.Entries[0].Slice.Src = []string{"2001:db8::/64"} },
		"the program marks packets by dscp=0x01/0x3f":              func(w *control.State) { w.Mark = "dscp=0x17/0x3f" },
		`expressions such as "tcp"`:                                func(w *control.State) { w.Entries[0].Slice = control.Slice{Expr: "tcp"} },
		`port "eth7" has no number; there are eth0, eth1, numbers`: func(w *control.State) { w.Ports[0].Name = "eth7" },
	} {
		want := wanted()
		change(&want)
		if err := c.Apply(t.Context(), want); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%v, want %q", err, text)
		}
	}
	if held := s.Held(); len(held) > 0 {
		t.Errorf("something was written: %v", held)
	}
}

// TestMaps: maps that make no sense, or do not fit the program, are refused, and the error names the field.
func TestMaps(t *testing.T) {
	text, err := os.ReadFile(onos)
	if err != nil {
		t.Fatal(err)
	}
	s := start(t)
	for _, c := range []struct{ old, new, want string }{
		{"program:", "programme:", `unknown field "programme"`},
		{"modes: [md1.0]", "modes: []", "abilities.modes: there is none"},
		{"[node-id,", "[node-ids,", "abilities.states: use node-id"},
		{"mark: dscp=0x01/0x3f", "mark: 7", "abilities.mark:"},
		{"stage: sources", "stage: later", `tables[3].stage: "later": use sinks, sources or watchlist`},
		{"for: entries", "for: edges", "tables[4].stage: tables for entries, and no others"},
		{"hdr.ipv4.src_addr: src", "hdr.ipv4.src_addr: source", `tables[4].key.hdr.ipv4.src_addr: there is no value "source" here`},
		{"ins_mask0003: \"instructions[15:12]\"", "ins_mask0003: \"instructions[1:2]\"", "tables[4].params.ins_mask0003: \"instructions[1:2]\": bits are HIGH:LOW"},
		{"switch_id: node_id", "switch: node_id", "tables[2].params: action egress.process_int_transit.init_metadata has a parameter switch_id"},
		{"standard_metadata.ingress_port: port", "port: port", "tables[3].key: table ingress.process_int_source_sink.tb_set_source has a key standard_metadata.ingress_port"},
		{"tb_set_sink\n", "tb_sink\n", "it lacks ingress.process_int_source_sink.tb_sink"},
		{"mon_mac: set.mon_mac", "mon_mac: set.mac", "options.set.mac: "},
	} {
		if !strings.Contains(string(text), c.old) {
			t.Fatalf("the map has no %q", c.old)
		}
		file := filepath.Join(t.TempDir(), "map.yaml")
		if err := os.WriteFile(file, []byte(strings.Replace(string(text), c.old, c.new, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		d := device(s.Address())
		d.Options["map"] = file
		if _, err := connect(t, d); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.new, err, c.want)
		}
	}
	d := device(s.Address())
	d.Options["map"] = "/nowhere"
	if err := new(Driver).Check(d); err == nil || !strings.HasPrefix(err.Error(), "options.map: ") || !errors.Is(err, fault.Usage) {
		t.Errorf("no map: %v", err)
	}
	d = device(s.Address())
	d.Options["set"].(map[string]any)["more"] = 1
	if err := new(Driver).Check(d); err == nil || !strings.HasPrefix(err.Error(), "options.set.more: ") {
		t.Errorf("a value that the map does not take: %v", err)
	}
}
