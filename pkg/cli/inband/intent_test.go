// SPDX-License-Identifier: Apache-2.0

package inband_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vnetradar/radar/pkg/cli/clitest"
	"github.com/vnetradar/radar/pkg/cli/kit"
)

// newIntents is a state directory of its own, with a topology of two devices that are not there.
func newIntents(t *testing.T) (folder string) {
	t.Helper()
	folder = t.TempDir()
	t.Setenv("RADAR_STATE_DIR", filepath.Join(folder, "state"))
	t.Setenv("RADAR_DOMAIN", "lab")
	put(t, folder, "topology.yaml", `
nodes:
  - {name: h1}
  - {name: s1, driver: ebpf, spec: netns:no-such-s1, options: {congested_at: 10}}
  - {name: s2, driver: ebpf, spec: netns:no-such-s2}
links: [[h1/e0, s1/e0], [s1/e1, s2/e0]]
`)
	did(t, "int", "topology", "set", "-f", filepath.Join(folder, "topology.yaml"))
	return folder
}

// did is what a command prints that must succeed, and may have notes.
func did(t *testing.T, args ...string) string {
	t.Helper()
	stdout, stderr, code := clitest.Radar(t, args...)
	if code != kit.ExitOK {
		t.Fatalf("%v: code %d, %s", args, code, stderr)
	}
	return stdout
}

func put(t *testing.T, folder, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// What is wrong has one line, with the field, and the exit code of wrong usage.
func TestIntentRefuses(t *testing.T) {
	folder := newIntents(t)
	put(t, folder, "wrong.yaml", "nodes:\n  - {name: a, driver: ebpf, spec: 'netns:a', options: {speed: 3}}\n")
	put(t, folder, "spec.yaml", "nodes: [{name: a, driver: ebpf}]\n")
	for _, c := range []struct{ args, want string }{
		{"intent add", "use NAME"},
		{"intent add -x", "unknown shorthand flag"},
		{"intent add a b", "2 arguments: use NAME"},
		{"intent add a --dport 99999", `slice.dport: "99999": use a port`},
		{"intent add a --dscp 64", "--dscp 64: use 0 to 63"},
		{"intent add a --lifetime 1ms", "--lifetime 1ms: use 1s or more"},
		{"intent add a --expires soon", `--expires "soon"`},
		{"intent add a --mode ms", `mode: "ms": use md`},
		{"intent add a --device s3", `devices[0]: there is no device "s3": use s1, s2`},
		{"intent apply", "which file?"},
		{"intent apply -f " + folder + "/none.yaml", "no such file"},
		{"config set --mark dscp=0", `mark: "dscp=0"`},
		{"config set --node-id s9=1", "node_ids.s9: there is no device of that name: use s1, s2"},
		{"config set --node-id s1=x", "--node-id s1=x"},
		{"topology set", "where does it come from?"},
		{"topology set --attached --lab x", "where does it come from?"},
		{"topology set -f " + folder + "/topology.yaml --device s1", "--device is for --lab and --attached"},
		{"topology set -f " + folder + "/wrong.yaml", "nodes[0].options.speed: driver ebpf has no such option: use congested_at, foreign, no_gso"},
		{"topology set -f " + folder + "/spec.yaml", "nodes[0].spec: which namespace is it?"},
	} {
		stdout, stderr, code := clitest.Radar(t, append([]string{"int"}, strings.Fields(c.args)...)...)
		if code != kit.ExitUsage || !strings.Contains(stderr, c.want) || strings.Count(strings.TrimSpace(stderr), "\n") > 1 || stdout != "" {
			t.Errorf("%s: code %d, want %q\n%s%s", c.args, code, c.want, stderr, stdout)
		}
	}
}

// Intents are added, listed, shown, written, read again and removed without a service or a device.
func TestIntentCommands(t *testing.T) {
	folder := newIntents(t)
	did(t, "int", "intent", "add", "web", "--proto", "tcp", "--dport", "80,443", "--dst", "10.0.0.0/8", "--dscp", "0", "--sample", "10", "--states", "node-id,queue", "--priority", "2")
	did(t, "int", "intent", "add", "all", "--fallback", "approximate", "--mode", "xd")
	if out := did(t, "int", "intent", "list"); !strings.Contains(out, "web     pending         2  md    tcp dst 10.0.0.0/8 dport 80,443 dscp 0    1/10  never  -") {
		t.Errorf("list:\n%s", out)
	}
	if out := did(t, "int", "intent", "show", "all"); !strings.Contains(out, "state: pending") || !strings.Contains(out, "mode: xd") {
		t.Errorf("show:\n%s", out)
	}
	for _, format := range []string{"table", "json"} {
		before := did(t, "int", "intent", "export", "-o", format)
		put(t, folder, "again", before)
		did(t, "int", "intent", "apply", "-f", filepath.Join(folder, "again"))
		if after := did(t, "int", "intent", "export", "-o", format); after != before {
			t.Errorf("%s:\n%s\n%s", format, before, after)
		}
		before = did(t, "int", "topology", "show", "-o", format)
		put(t, folder, "again", before)
		did(t, "int", "topology", "set", "-f", filepath.Join(folder, "again"))
		if after := did(t, "int", "topology", "show", "-o", format); after != before {
			t.Errorf("%s:\n%s\n%s", format, before, after)
		}
	}
	did(t, "int", "config", "set", "--node-id", "s2=1", "--collector", "10.0.0.9:3000")
	if out := did(t, "int", "config", "get"); !strings.Contains(out, "s2: 1") || !strings.Contains(out, "s1: 2") || !strings.Contains(out, "collector: 10.0.0.9:3000") {
		t.Errorf("config:\n%s", out)
	}
	if out := did(t, "int", "devices", "-o", "csv"); !strings.Contains(out, "s1,ebpf,2,off,e0,e1,0,") {
		t.Errorf("devices:\n%s", out)
	}
	if out := did(t, "int", "intent", "remove", "web", "--dry-run"); !strings.Contains(out, "s1 (ebpf) cannot be asked: it is gone: there is no netns:no-such-s1") {
		t.Errorf("dry run:\n%s", out)
	}
	did(t, "int", "intent", "remove", "web")
	if out := did(t, "__complete", "int", "intent", "remove", ""); !strings.HasPrefix(out, "all\n") {
		t.Errorf("completion:\n%s", out)
	}
	var schema map[string]any
	if err := json.Unmarshal([]byte(did(t, "int", "intent", "schema")), &schema); err != nil || schema["$defs"] == nil {
		t.Errorf("%v: %v", schema, err)
	}
	if out := did(t, "int", "stop"); out != "INT domain lab: INT is off all devices\n" { // it never was on any
		t.Errorf("stop: %s", out)
	}
}
