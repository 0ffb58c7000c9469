// SPDX-License-Identifier: Apache-2.0

package shape

import (
	"strings"
	"testing"
)

// The command line: pkg/cli puts commands together, each lies in a folder below it, and what they
// share is the kit.
const (
	cliRoot = "pkg/cli"
	cliKit  = "pkg/cli/kit"
)

// TestCommands: in the command line arrows lead from the root to commands to the kit. Commands do
// not import each other, and nothing but programs imports any of it.
func TestCommands(t *testing.T) {
	commands := 0
	for _, p := range list(t) {
		from := strings.TrimPrefix(p.ImportPath, module)
		command := commandOf(from)
		if command != "" && from != cliKit {
			commands++
		}
		for _, path := range p.Imports {
			to, _ := strings.CutPrefix(path, module)
			if to != cliRoot && commandOf(to) == "" {
				continue
			}
			switch arrow := from + " -> " + to; {
			case from == cliRoot, strings.HasPrefix(from, "cmd/") && to == cliRoot, strings.HasPrefix(from, "pkg/cli/clitest") && to == cliKit:
			case command == "":
				t.Errorf("%s: the command line is for programs alone (cmd)", arrow)
			case from == cliKit || to == cliRoot:
				t.Errorf("%s: this arrow points upward", arrow)
			case to != cliKit && commandOf(to) != command:
				t.Errorf("%s: commands do not import each other: what they share is the kit's, or below", arrow)
			}
		}
	}
	if commands < 4 {
		t.Errorf("only %d packages of commands in %s", commands, cliRoot)
	}
}

// commandOf is the folder of a command, or of the kit, that a package lies in; "" if in none.
func commandOf(name string) string {
	rest, ok := strings.CutPrefix(name, cliRoot+"/")
	if !ok || strings.HasPrefix(rest, "clitest") {
		return ""
	}
	command, _, _ := strings.Cut(rest, "/")
	return command
}
