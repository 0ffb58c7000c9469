// SPDX-License-Identifier: Apache-2.0

// Package shape holds the direction in which radar's packages import each other.
package shape

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/vnetradar/radar/lab/test/need"
)

const (
	module = "github.com/vnetradar/radar/"
	root   = "../../.." // of the tree, from here
)

// The floors of the house. A package imports packages of its own floor and of those below, never
// of those above. The packages of a system are one floor, and systems never import each other.
const (
	shared    = iota // formats and helpers: they know no system
	hall             // what every system that is attached has
	systems          // what measures
	counts           // what is made of the packets of every system
	agents           // what keeps a domain alive, and counts what it measures
	answers          // questions and their answers
	faces            // what people and programs use
	elsewhere        // the lab's tests and tools: nothing imports them but tests
)

// floors are those of a package, or of all packages below a folder; the longest one counts.
var floors = map[string]int{
	"pkg/bpfobj": shared, "pkg/fault": shared, "pkg/figure": shared, "pkg/yamltext": shared, "pkg/filter": shared, "pkg/hook": shared, "pkg/host": shared,
	"pkg/intwire": shared, "pkg/lab": shared, "pkg/loader": shared, "pkg/packet": shared, "pkg/record": shared, "pkg/words": shared,
	"lab/forward": shared, "lab/scenarios": shared, "p4": shared,

	"pkg/system": hall,

	"pkg/vnet": systems, "pkg/telemetry": systems, "pkg/dut": systems,

	"pkg/aggregate": counts, "pkg/sink": counts, "pkg/store": counts,
	"pkg/join": agents, // above the two systems of which it brings packets together

	"pkg/vnet/agent": agents,

	"pkg/answer": answers, "pkg/recorder": answers, "pkg/steer": answers,

	"pkg/api": faces, "pkg/cli": faces, "cmd": faces,

	"bpf/test": elsewhere, "cmd/bench": elsewhere, "experiments": elsewhere, "lab/kathara": elsewhere, "lab/test": elsewhere, "lab/tools": elsewhere,
	"p4/recorded": elsewhere, "p4/test": elsewhere, "pkg/cli/clitest": elsewhere, "pkg/sink/sinktest": elsewhere, "pkg/vnet/backpack/ringtest": elsewhere,
}

// system says which system a package is of.
var system = map[string]string{"pkg/vnet": "vnet", "pkg/telemetry": "telemetry", "pkg/dut": "dut"}

// silent are packages whose values others make words of: they print nothing, and know no flags.
var silent = []string{"pkg/answer", "pkg/answer/note", "pkg/answer/story"}

// wordy are what such a package does not import.
var wordy = []string{"github.com/spf13/cobra", "github.com/spf13/pflag", "bufio", "io", "log", "log/slog", "os", "text/tabwriter", "text/template", module + "pkg/words", module + "pkg/answer/wording"}

// alone may import nothing of radar but what stands here.
var alone = map[string][]string{
	"pkg/record": nil, "pkg/intwire": nil, // these two are for others to import
	"pkg/packet":      {"pkg/record"},
	"pkg/words":       {"pkg/record"}, // of answers pkg/answer/wording makes words
	"lab/test/oracle": {"pkg/record"}, // it shares no code with what it checks
}

type pkg struct {
	ImportPath string
	Imports    []string
}

// TestImports: arrows between packages point downward, and none between systems.
func TestImports(t *testing.T) {
	for _, p := range list(t) {
		from := strings.TrimPrefix(p.ImportPath, module)
		floor, ok := longest(floors, from)
		if !ok {
			t.Errorf("%s: on which floor is it? Say so in this test", from)
		}
		for _, path := range p.Imports {
			if _, is := alone[from]; is && strings.HasPrefix(path, "github.com/cilium/ebpf") {
				t.Errorf("%s imports %s", from, path)
			}
			if slices.Contains(silent, from) && slices.Contains(wordy, path) {
				t.Errorf("%s imports %s: it prints nothing, and knows no flags", from, path)
			}
			to, ours := strings.CutPrefix(path, module)
			if !ours {
				continue
			}
			arrow := from + " -> " + to
			if only, is := alone[from]; is && !slices.Contains(only, to) {
				t.Errorf("%s: %s imports nothing of radar but %q", arrow, from, only)
			}
			below, _ := longest(floors, to)
			of, _ := longest(system, from)
			other, _ := longest(system, to)
			switch {
			case below <= floor && (of == "" || other == "" || of == other || floor != systems):
			case below > floor:
				t.Errorf("%s: this arrow points upward", arrow)
			default:
				t.Errorf("%s: systems do not import each other", arrow)
			}
		}
	}
}

// list returns the packages, without their tests.
func list(t *testing.T) (all []pkg) {
	t.Helper()
	need.Tree(t)
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports", "./...")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

// longest is what the table says of a package, or of the nearest folder above it.
func longest[T any](table map[string]T, name string) (v T, ok bool) {
	for {
		if v, ok = table[name]; ok {
			return v, true
		}
		i := strings.LastIndexByte(name, '/')
		if i < 0 {
			return v, false
		}
		name = name[:i]
	}
}
