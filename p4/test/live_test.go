// SPDX-License-Identifier: Apache-2.0

package p4test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/vnetradar/radar/p4/recorded"
)

// lockedBuffer is what a process prints while the test looks at it.
type lockedBuffer struct {
	sync.Mutex
	b bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.Lock()
	defer l.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.Lock()
	defer l.Unlock()
	return l.b.String()
}

// live ends a test that make p4-test has not started.
func live(t *testing.T) {
	t.Helper()
	if os.Getenv("RADAR_P4") == "" {
		t.Skip("needs BMv2: make p4-test runs it")
	}
}

// mostFaults are those of a case that are printed.
const mostFaults = 12

// TestCases runs every case on switches that run, and compares.
func TestCases(t *testing.T) {
	live(t)
	n := startLab(t, nil)
	n.quieten()
	n.control()
	for s, sw := range n.switches {
		if err := sw.Run(t.Context(), blackholes); err != nil {
			t.Fatalf("s%d: %v", s, err)
		}
	}
	n.capture()
	m := &recorded.Manifest{Program: recorded.Sum(), BMv2: version(t, "simple_switch_grpc"), P4C: compiler(t)}
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "CASE\tPACKETS\tSTACKS\tREPORTS\tRESULT")
	ways := make(map[string]bool)
	for _, c := range cases() {
		ok := t.Run(c.name, func(t *testing.T) {
			n.t = t
			ev := n.play(c)
			v := verify(c, ev)
			for again := 0; c.congested > 0 && queueReports(ev) == 0 && again < 100; again++ {
				n.next = v.next
				ev = n.play(c) // the switches were faster than the sender
				v = verify(c, ev)
			}
			n.next = v.next
			complain(t, v)
			result := "ok"
			if len(v.faults) > 0 {
				result = fmt.Sprintf("%d faults", len(v.faults))
			}
			fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%s\n", c.name, v.packets, v.stacks, v.reports, result)
			for _, link := range []string{"L2", "L3"} {
				ways[link] = ways[link] || len(ev.Captured[link]) > 0
			}
			m.Cases = append(m.Cases, n.recorded(c, ev, v))
		})
		n.t = t
		if !ok && t.Context().Err() != nil {
			break
		}
	}
	w.Flush()
	fmt.Printf("BMv2 %s, p4c %s\n%s", m.BMv2, m.P4C, &table)
	if len(m.Cases) == len(cases()) && (!ways["L2"] || !ways["L3"]) {
		t.Errorf("ways taken: %v, want both", ways)
	}
	if dir := os.Getenv("RADAR_P4_RECORD"); dir != "" && !t.Failed() {
		record(t, m, dir)
	}
}

func queueReports(ev *evidence) (n int) {
	for _, c := range ev.Counters {
		n += c.Done[doneQueue]
	}
	return n
}

func complain(t *testing.T, v *verdict) {
	t.Helper()
	for i, f := range v.faults {
		if i == mostFaults {
			t.Errorf("and %d more", len(v.faults)-i)
			break
		}
		t.Error(f)
	}
}

// recorded is the case for the manifest.
func (n *network) recorded(c *testcase, ev *evidence, v *verdict) *recorded.Case {
	r := &recorded.Case{Name: c.name, Sent: len(ev.Sent), Stacks: v.stacks, Reports: v.reports, Counters: ev.Counters, Next: ev.Next, Places: v.places, Packets: make(map[string][]recorded.Packet)}
	for link, c := range n.captures {
		r.Packets[link], _ = c.packets()
	}
	return r
}

// record replaces the files of p4/testdata.
func record(t *testing.T, m *recorded.Manifest, dir string) {
	t.Helper()
	if len(m.Cases) != len(cases()) {
		t.Fatal("RECORD=1 keeps all cases or none: leave CASE out")
	}
	old, err := filepath.Glob(filepath.Join(dir, "*.pcapng"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range old {
		if err := os.Remove(f); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := m.Write(dir); err != nil {
		t.Fatal(err)
	}
	fmt.Printf("recorded into %s, %s\n", dir, time.Now().Format(time.DateOnly))
}

// version is what a program says of itself, in its last word.
func version(t *testing.T, program string) string {
	t.Helper()
	out, err := exec.Command(program, "--version").CombinedOutput()
	words := strings.Fields(string(out))
	if err != nil || len(words) == 0 {
		t.Fatalf("%s --version: %v\n%s", program, err, out)
	}
	return words[len(words)-1]
}

// compiler is the version of p4c that the program was compiled by.
func compiler(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile("../build.sum")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.SplitSeq(string(b), "\n") {
		if v, ok := strings.CutSuffix(line, "  p4c"); ok {
			return v
		}
	}
	t.Fatal("../build.sum names no p4c")
	return ""
}
