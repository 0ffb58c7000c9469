// SPDX-License-Identifier: Apache-2.0

package p4test

import (
	"slices"
	"testing"

	"github.com/vnetradar/radar/p4/recorded"
)

// testdata is what make p4-test RECORD=1 has written.
const testdata = "../testdata"

func recordings(t *testing.T) *recorded.Manifest {
	t.Helper()
	m, err := recorded.Read(testdata)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestRecordedProgram: the recorded packets are those of the program in p4/build.
func TestRecordedProgram(t *testing.T) {
	if m := recordings(t); m.Program != recorded.Sum() {
		t.Errorf("p4/testdata is of program %.12s, p4/build is %.12s: type: make p4-test RECORD=1", m.Program, recorded.Sum())
	}
}

// TestReplay compares what was recorded as make p4-test does.
func TestReplay(t *testing.T) {
	m := recordings(t)
	all := cases()
	if len(m.Cases) != len(all) {
		t.Errorf("%d cases are recorded, there are %d: type: make p4-test RECORD=1", len(m.Cases), len(all))
	}
	for _, c := range all {
		t.Run(c.name, func(t *testing.T) {
			r := m.Case(c.name)
			if r == nil {
				t.Fatal("it is not recorded: type: make p4-test RECORD=1")
			}
			v := verify(c, evidenceOf(c, r))
			complain(t, v)
			if !slices.Equal(v.places, r.Places) {
				t.Errorf("frames were seen at %v, the manifest says %v", v.places, r.Places)
			}
			if v.packets != r.Sent || v.stacks != r.Stacks || v.reports != r.Reports {
				t.Errorf("%d packets, %d stacks, %d reports compared; when it was recorded %d, %d, %d",
					v.packets, v.stacks, v.reports, r.Sent, r.Stacks, r.Reports)
			}
		})
	}
}

// evidenceOf is a recorded case as verify wants it.
func evidenceOf(c *testcase, r *recorded.Case) *evidence {
	ev := &evidence{Captured: make(map[string][][]byte), Counters: r.Counters, Next: r.Next}
	for i := range c.frames {
		ev.Sent = append(ev.Sent, c.frames[i].bytes())
	}
	for link, list := range r.Packets {
		for _, p := range list {
			ev.Captured[link] = append(ev.Captured[link], p.Data)
		}
	}
	return ev
}
