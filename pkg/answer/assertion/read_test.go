// SPDX-License-Identifier: Apache-2.0

package assertion

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/vnetradar/radar/pkg/fault"
)

// What is wrong is named with its place and the words that are allowed, all of it at once.
func TestWrongFiles(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"empty", "", "f.yaml: there is nothing in it"},
		{"syntax", "assertions:\n  - name: [a\n", "f.yaml:2:"},
		{"other document", "- a", "f.yaml:1:1: a list: use an object with the fields assertions"},
		{"no list", "assertions: 1", `f.yaml:1:13: assertions: "1": use a list`},
		{"none", "assertions: []", "assertions: there are 0: use 1 to 1024"},
		{"unknown field", "assertions:\n  - name: a\n    no_los: true\n", "f.yaml:3:5: assertions[0].no_los: there is no such field: use name, select, if_empty, no_loss, loss,"},
		{"unknown inner field", "assertions:\n  - name: a\n    latency: {p98: 1s}\n", "f.yaml:3:15: assertions[0].latency.p98: there is no such field: use p50, p90, p99, p99.9, max, node"},
		{"wrong time", "assertions:\n  - name: a\n    latency:\n      p99: fast\n", `f.yaml:4:12: assertions[0].latency.p99: "fast": use a time such as 200us, 5ms or 1s`},
		{"wrong word", "assertions:\n  - name: a\n    if_empty: maybe\n    no_loss: true\n", `f.yaml:3:15: assertions[0].if_empty: "maybe": use fail or pass`},
		{"false", "assertions:\n  - name: a\n    no_loss: false\n", `f.yaml:3:14: assertions[0].no_loss: "false": use true, or leave the check out`},
		{"no check", "assertions:\n  - name: a\n", "f.yaml:2:"},
		{"no check", "assertions:\n  - name: a\n", "it checks nothing: use one of no_loss, loss, latency, path,"},
		{"two checks", "assertions:\n  - name: a\n    no_loss: true\n    path: [h1]\n", "f.yaml:4:5: assertions[0]: it has 2 checks (no_loss, path)"},
		{"no name", "assertions:\n  - no_loss: true\n", "assertions[0]: it has no name"},
		{"same name", "assertions:\n  - name: a\n    no_loss: true\n  - name: a\n    no_loss: true\n", `f.yaml:4:5: assertions[1].name: "a": line 2 has that name already`},
		{"no bound", "assertions:\n  - name: a\n    latency: {node: r1}\n", "there is no bound: use p50, p90, p99, p99.9 or max"},
		{"two places", "assertions:\n  - name: a\n    latency: {max: 1s, node: r1, link: r1/eth0}\n", "node r1, link r1/eth0: use one of them"},
		{"no port", "assertions:\n  - name: a\n    latency: {max: 1s, link: r1}\n", `f.yaml:3:24: assertions[0].latency.link: "r1": use NODE/PORT`},
		{"loss without bound", "assertions:\n  - name: a\n    loss: {at: r1}\n", "use at_most, a number of packets, or below, a share"},
		{"balance", "assertions:\n  - name: a\n    balance: {over: next_hops}\n", "say of which node (at)"},
		{"balance of", "assertions:\n  - name: a\n    balance: {over: hops, at: s1}\n", `"hops": use paths or next_hops`},
		{"whole loss", "assertions:\n  - name: a\n    loss: {below: 5}\n", `f.yaml:3:19: assertions[0].loss.below: "5": use a share below 1`},
		{"all lost", "assertions:\n  - name: a\n    loss: {below: 100%}\n", "write 5%"},
		{"probability", "assertions:\n  - name: a\n    balance: {p: 1}\n", `assertions[0].balance.p: "1": use a share below 1`},
		{"never nothing", "assertions:\n  - name: a\n    never_crosses: []\n", "f.yaml:3:5: assertions[0].never_crosses: it names no node"},
		{"nothing crossed", "assertions:\n  - name: a\n    crosses: []\n", "assertions[0].crosses: it names no node"},
		{"no path", "assertions:\n  - name: a\n    path: []\n", "assertions[0].path: it names no node"},
		{"anchors", "assertions: &a []", "anchors and aliases are not read here"},
		{"nothing behind it", "assertions:\n  - name: a\n    path:\n", "there is nothing behind it"},
		{"documents", "assertions: []\n---\nassertions: []\n", "2 documents: use one"},
	} {
		_, err := Read("f.yaml", []byte(c.text))
		if err == nil || !errors.Is(err, fault.Usage) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	_, err := Read("f.yaml", []byte("assertions:\n  - name: a\n    path: {}\n  - name: b\n    rate: {at_least: x}\n"))
	if err == nil || strings.Count(err.Error(), "f.yaml:") != 2 {
		t.Errorf("not all that is wrong is named: %v", err)
	}
}

func TestRead(t *testing.T) {
	for _, text := range []string{
		"assertions:\n- name: a\n  select: {dport: 80, proto: [tcp, udp]}\n  rate: {at_least: 1.5Mbit, at_most: 2e6}\n- name: b\n  loss: {below: 0.5%}\n",
		`{"assertions": [{"name": "a", "select": {"dport": [80], "proto": ["tcp", "udp"]}, "rate": {"at_least": "1.5Mbit", "at_most": 2000000}},
			{"name": "b", "loss": {"below": 0.005}}]}`,
	} {
		f, err := Read("f.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		a, b := &f.Assertions[0], &f.Assertions[1]
		if *a.Rate.AtLeast != 1.5e6 || *a.Rate.AtMost != 2e6 || a.Select.Spec().Dport != "80" || a.Select.Spec().Proto != "tcp,udp" || *b.Loss.Below != 0.005 {
			t.Errorf("%+v, %+v", a, b)
		}
		if a.Check() != "rate" || b.Line <= 1 {
			t.Errorf("check %s, line %d", a.Check(), b.Line)
		}
	}
}

// The schema has every field that Read knows.
func TestSchema(t *testing.T) {
	var schema struct {
		Properties struct {
			Assertions struct {
				Items struct {
					Properties map[string]struct {
						Description string `json:"description"`
					} `json:"properties"`
				} `json:"items"`
			} `json:"assertions"`
		} `json:"properties"`
	}
	if err := json.Unmarshal(Schema(), &schema); err != nil {
		t.Fatal(err)
	}
	fields := schema.Properties.Assertions.Items.Properties
	for _, name := range slices.Concat([]string{"name", "select", "if_empty"}, checkNames()) {
		if fields[name].Description == "" {
			t.Errorf("the schema does not describe %s", name)
		}
	}
	for bound, n := range map[string]int{`"exclusiveMaximum": 1`: 2, `"minItems": 1`: 6} {
		if got := strings.Count(string(Schema()), bound); got != n {
			t.Errorf("the schema has %s %d times, want %d", bound, got, n)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte("assertions:\n- name: a\n  no_loss: true\n"))
	f.Add([]byte("assertions: [{name: a, balance: {weights: {a: 1, b: 2}}}]"))
	f.Fuzz(func(t *testing.T, b []byte) {
		file, err := Read("f", b)
		if (err == nil) == (file == nil) {
			t.Errorf("%v, %v", file, err)
		}
	})
}
