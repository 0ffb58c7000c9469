// SPDX-License-Identifier: Apache-2.0

package p4test

import (
	"regexp"
	"strings"
	"testing"

	scenarios "github.com/vnetradar/radar/lab/scenarios"
	"github.com/vnetradar/radar/p4"
	"github.com/vnetradar/radar/pkg/telemetry/control/p4runtime"
)

var entriesOf = regexp.MustCompile(`(?s)<<"END"\n(.*\n)END\n`)

// TestEntries: the program in p4/build has the tables, actions and parameters that the lab's startup
// files and the cases name.
func TestEntries(t *testing.T) {
	program, err := p4runtime.NewProgram(p4.Info, p4.JSON)
	if err != nil {
		t.Fatal(err)
	}
	s, err := scenarios.Open("int-p4")
	if err != nil {
		t.Fatal(err)
	}
	for _, mode := range []string{md, md10, mx, xd} {
		topo, err := s.Topology(map[string]string{"MODE": mode})
		if err != nil {
			t.Fatal(err)
		}
		switches := 0
		for _, m := range topo.Machines {
			for _, script := range m.Scripts {
				text := entriesOf.FindStringSubmatch(script.Body)
				if text == nil {
					continue
				}
				switches++
				commands, err := program.Commands(text[1])
				if err != nil || len(commands) < 15 {
					t.Errorf("mode %s, %s: %d entries, %v", mode, m.Name, len(commands), err)
				}
				if got := strings.Contains(text[1], "int.watch_"+mode+" "); got != (isEdge(int(m.Name[1]-'0')) || mode == xd) {
					t.Errorf("mode %s, %s: packets are watched: %v", mode, m.Name, got)
				}
			}
		}
		if switches != 4 {
			t.Errorf("mode %s: %d switches have entries, want 4", mode, switches)
		}
	}
	for _, c := range cases() {
		for s := 1; s <= 4; s++ {
			if _, err := program.Commands(c.entries(s)); err != nil {
				t.Errorf("%s, s%d: %v", c.name, s, err)
			}
		}
	}
}
