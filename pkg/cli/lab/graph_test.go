// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/vnetradar/radar/pkg/cli/clitest"
	"github.com/vnetradar/radar/pkg/cli/kit"
)

// A lab is drawn alike whether it runs, lies in a folder, or is built in.
func TestLabGraph(t *testing.T) {
	name := labName(t)
	dir := t.TempDir() + "/" + name
	clitest.Must(t, "lab", "export", "bottleneck", dir)
	folder := clitest.Must(t, "lab", "graph", dir, "-o", "dot")
	builtin := clitest.Must(t, "lab", "graph", "bottleneck", "-o", "dot")
	if want := strings.ReplaceAll(builtin, "bottleneck", name); strings.ReplaceAll(folder, "bottleneck", name) != want {
		t.Errorf("drawn from the folder\n%s, want\n%s", folder, want)
	}
	clitest.Must(t, "lab", "up", dir, "--name", name)
	for _, arg := range []string{name, dir} {
		if got, want := clitest.Must(t, "lab", "graph", arg, "-o", "dot"), strings.ReplaceAll(builtin, "bottleneck", name); got != want {
			t.Errorf("drawn as it runs\n%s, want\n%s", got, want)
		}
	}
	var plan drawing
	if err := json.Unmarshal([]byte(clitest.Must(t, "lab", "graph", name, "-o", "json")), &plan); err != nil {
		t.Fatal(err)
	}
	if !plan.Running || len(plan.Machines) != 6 || len(plan.Links) != 5 {
		t.Errorf("%+v", plan)
	}
	clitest.Golden(t, "lab-graph.mermaid", []byte(clitest.Must(t, "lab", "graph", "chain", "--set", "N=2")))
	clitest.Golden(t, "lab-graph.table", []byte(clitest.Must(t, "lab", "graph", "chain", "--set", "N=2", "-o", "table")))
	if _, stderr, code := clitest.Radar(t, "lab", "graph", "nonsense"); code != kit.ExitFailure || !strings.Contains(stderr, "neither a folder nor a built-in scenario") {
		t.Errorf("exit code %d, said %q", code, stderr)
	}
}
