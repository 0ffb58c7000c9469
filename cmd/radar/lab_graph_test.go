// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"strings"
	"testing"
)

// A lab is drawn alike whether it runs, lies in a folder, or is built in.
func TestLabGraph(t *testing.T) {
	name := labName(t)
	dir := t.TempDir() + "/" + name
	mustRadar(t, "lab", "export", "bottleneck", dir)
	folder := mustRadar(t, "lab", "graph", dir, "-o", "dot")
	builtin := mustRadar(t, "lab", "graph", "bottleneck", "-o", "dot")
	if want := strings.ReplaceAll(builtin, "bottleneck", name); strings.ReplaceAll(folder, "bottleneck", name) != want {
		t.Errorf("drawn from the folder\n%s, want\n%s", folder, want)
	}
	mustRadar(t, "lab", "up", dir, "--name", name)
	for _, arg := range []string{name, dir} {
		if got, want := mustRadar(t, "lab", "graph", arg, "-o", "dot"), strings.ReplaceAll(builtin, "bottleneck", name); got != want {
			t.Errorf("drawn as it runs\n%s, want\n%s", got, want)
		}
	}
	var plan labPlan
	if err := json.Unmarshal([]byte(mustRadar(t, "lab", "graph", name, "-o", "json")), &plan); err != nil {
		t.Fatal(err)
	}
	if !plan.Running || len(plan.Machines) != 6 || len(plan.Links) != 5 {
		t.Errorf("%+v", plan)
	}
	golden(t, "lab-graph.mermaid", []byte(mustRadar(t, "lab", "graph", "chain", "--set", "N=2")))
	golden(t, "lab-graph.table", []byte(mustRadar(t, "lab", "graph", "chain", "--set", "N=2", "-o", "table")))
	if _, stderr, code := radar(t, "lab", "graph", "nonsense"); code != exitFailure || !strings.Contains(stderr, "neither a folder nor a built-in scenario") {
		t.Errorf("exit code %d, said %q", code, stderr)
	}
}
