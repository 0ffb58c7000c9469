// SPDX-License-Identifier: Apache-2.0

package p4runtime

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	p4 "github.com/p4lang/p4runtime/go/p4/v1"
)

// info is a program with a table of each kind.
const info = `
tables { preamble { id: 1 name: "exact" } match_fields { id: 1 name: "mac" bitwidth: 48 match_type: EXACT } action_refs { id: 11 } action_refs { id: 12 } }
tables { preamble { id: 2 name: "lpm" } match_fields { id: 1 name: "dst" bitwidth: 32 match_type: LPM } action_refs { id: 11 } }
tables { preamble { id: 3 name: "ternary" } match_fields { id: 1 name: "port" bitwidth: 9 match_type: TERNARY } match_fields { id: 2 name: "src" bitwidth: 128 match_type: TERNARY } action_refs { id: 12 } }
tables { preamble { id: 4 name: "settings" } action_refs { id: 11 } }
actions { preamble { id: 11 name: "send" } params { id: 1 name: "port" bitwidth: 9 } params { id: 2 name: "mac" bitwidth: 48 } }
actions { preamble { id: 12 name: "nothing" } }
`

func program(t *testing.T) *Program {
	t.Helper()
	p, err := NewProgram([]byte(info), nil)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestCommands: lines of simple_switch_CLI become what P4Runtime wants. The P4Runtime specification
// says what that is: shortest values, no field that matches everything, and a priority whose
// greatest number comes first.
func TestCommands(t *testing.T) {
	got, err := program(t).Commands(`# a comment
table_add exact send 02:00:00:00:00:01 => 511 0x0200000000ff

table_add lpm send 10.0.2.0/24 => 0 00:00:00:00:00:00
  table_add lpm send 0.0.0.0/0 => 1 1
table_add ternary nothing 5&&&0x1ff ::ffff:10.0.0.1&&&0xffffffffffffffffffffffffffffffff => 10
table_add ternary nothing 0&&&0 0x100&&&0x100 => 1
table_set_default settings send 1 2
mirroring_add 500 4
`)
	if err != nil {
		t.Fatal(err)
	}
	want := []struct {
		line int
		text string
	}{
		{2, `type: INSERT entity { table_entry { table_id: 1 match { field_id: 1 exact { value: "\002\000\000\000\000\001" } } action { action { action_id: 11 params { param_id: 1 value: "\001\377" } params { param_id: 2 value: "\002\000\000\000\000\377" } } } } }`},
		{4, `type: INSERT entity { table_entry { table_id: 2 match { field_id: 1 lpm { value: "\n\000\002\000" prefix_len: 24 } } action { action { action_id: 11 params { param_id: 1 value: "\000" } params { param_id: 2 value: "\000" } } } } }`},
		{5, `type: INSERT entity { table_entry { table_id: 2 action { action { action_id: 11 params { param_id: 1 value: "\001" } params { param_id: 2 value: "\001" } } } } }`},
		{6, `type: INSERT entity { table_entry { table_id: 3 match { field_id: 1 ternary { value: "\005" mask: "\001\377" } } match { field_id: 2 ternary { value: "\377\377\n\000\000\001" mask: "\377\377\377\377\377\377\377\377\377\377\377\377\377\377\377\377" } } action { action { action_id: 12 } } priority: 16777206 } }`},
		{7, `type: INSERT entity { table_entry { table_id: 3 match { field_id: 2 ternary { value: "\001\000" mask: "\001\000" } } action { action { action_id: 12 } } priority: 16777215 } }`},
		{8, `type: MODIFY entity { table_entry { table_id: 4 action { action { action_id: 11 params { param_id: 1 value: "\001" } params { param_id: 2 value: "\002" } } } is_default_action: true } }`},
		{9, `type: INSERT entity { packet_replication_engine_entry { clone_session_entry { session_id: 500 replicas { egress_port: 4 instance: 1 } } } }`},
	}
	if len(got) != len(want) {
		t.Fatalf("%d commands, want %d", len(got), len(want))
	}
	for i, w := range want {
		u := new(p4.Update)
		if err := prototext.Unmarshal([]byte(w.text), u); err != nil {
			t.Fatal(err)
		}
		if got[i].Line != w.line || !proto.Equal(got[i].Update, u) {
			t.Errorf("command %d, line %d (-want +got):\n%s", i, got[i].Line, cmp.Diff(prototext.Format(u), prototext.Format(got[i].Update)))
		}
	}
}

func TestCommandsErrors(t *testing.T) {
	for line, want := range map[string]string{
		"table_del exact 1":                              `line 1: unknown command "table_del"`,
		"table_add exact":                                "line 1: table_add: write TABLE ACTION",
		"table_add none send 1 => 1 1":                   `the program has no table "none"`,
		"table_add lpm nothing 1/1 =>":                   `table lpm has no action "nothing"`,
		"table_add exact send 1 => 1":                    "action send has 2 parameters, not 1",
		"table_add exact send 1 2 => 1 1":                "table exact has 1 keys, not 2",
		"table_add exact send 1 => 512 1":                "action send, parameter port: 512 does not fit into 9 bits",
		"table_add exact send 1 => -1 1":                 "does not fit",
		"table_add exact send 10.0.0.1 => 1 1":           `"10.0.0.1" is neither a number nor an address of 48 bits`,
		"table_add lpm send 10.0.0.0 => 1 1":             `"10.0.0.0" is no VALUE/LENGTH`,
		"table_add lpm send 10.0.0.0/33 => 1 1":          "is no VALUE/LENGTH",
		"table_add ternary nothing 1 0&&&0 => 1":         `"1" is no VALUE&&&MASK`,
		"table_add ternary nothing 3&&&1 0&&&0 => 1":     "3&&&1 has bits that the mask has not",
		"table_add ternary nothing 0&&&0 0&&&0 =>":       "the last word is no priority",
		"table_add ternary nothing 0&&&0 0&&&0 => 0":     "the last word is no priority",
		"table_add ternary nothing":                      "the last word is no priority",
		"table_set_default settings":                     "table_set_default: write TABLE ACTION",
		"mirroring_add 1":                                "mirroring_add: write SESSION PORT",
		"mirroring_add x 1":                              `session "x" is no number`,
		"mirroring_add 1 512":                            `port "512" is no number below 512`,
		"table_add exact send 1 => 1 1\n\n# x\nnonsense": `line 4: unknown command "nonsense"`,
	} {
		if _, err := program(t).Commands(line); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", line, err, want)
		}
	}
	if _, err := NewProgram([]byte("nonsense"), nil); err == nil || !strings.HasPrefix(err.Error(), "read P4Info:") {
		t.Errorf("a P4Info that is none: %v", err)
	}
}
