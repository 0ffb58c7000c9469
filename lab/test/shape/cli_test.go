// SPDX-License-Identifier: Apache-2.0

package shape

import (
	"strings"
	"testing"
)

// The command line: pkg/cli puts commands together, each lies in a folder below it. What they share
// is the kit. The words that it prints are pkg/words and pkg/answer/wording, which other faces have, too.
const (
	cliRoot  = "pkg/cli"
	cliWire  = "pkg/cli/wire" // captures, which commands write by the kit
	cliKit   = "pkg/cli/kit"
	cliGraph = "pkg/cli/graph"
)

// TestCommands: in the command line arrows lead from the root to commands to captures to the kit to drawings.
// Commands do not import each other, and nothing but programs imports any of it.
func TestCommands(t *testing.T) {
	commands := make(map[string]bool)
	for _, p := range list(t) {
		from := strings.TrimPrefix(p.ImportPath, module)
		for _, path := range p.Imports {
			to, _ := strings.CutPrefix(path, module)
			above, below := stepOf(from), stepOf(to)
			if below == outside {
				continue
			}
			arrow := from + " -> " + to
			switch {
			case above == command && below == command && commandOf(from) == commandOf(to):
			case above == outside && !(strings.HasPrefix(from, "cmd/") && below == top) && !strings.HasPrefix(from, "pkg/cli/clitest"):
				t.Errorf("%s: the command line is for programs alone (cmd)", arrow)
			case above == command && below == command:
				t.Errorf("%s: commands do not import each other: what they share is the kit's, or below", arrow)
			case above != outside && below <= above:
				t.Errorf("%s: this arrow points upward", arrow)
			}
		}
		if stepOf(from) == command {
			commands[commandOf(from)] = true
		}
	}
	if len(commands) < 7 {
		t.Errorf("only %d packages of commands in %s", len(commands), cliRoot)
	}
}

// The steps of the command line, from the top.
const (
	top = iota
	command
	captures
	kit
	drawings
	outside // of the command line
)

func stepOf(name string) int {
	switch {
	case name == cliRoot:
		return top
	case name == cliWire:
		return captures
	case name == cliKit:
		return kit
	case name == cliGraph:
		return drawings
	case commandOf(name) != "":
		return command
	}
	return outside
}

// commandOf is the folder below pkg/cli that a package lies in; "" if in none, or in the tests' own.
func commandOf(name string) string {
	rest, ok := strings.CutPrefix(name, cliRoot+"/")
	if !ok || strings.HasPrefix(rest, "clitest") {
		return ""
	}
	folder, _, _ := strings.Cut(rest, "/")
	return folder
}
