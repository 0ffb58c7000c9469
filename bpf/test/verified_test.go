// SPDX-License-Identifier: Apache-2.0

package test

import (
	"cmp"
	"errors"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/rlimit"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/pkg/vnet/datapath/program"
)

// ipv4Budget is how many instructions the verifier may look at when a network is attached that has no
// IPv6, where loops are iterators. An attach waits for it.
const ipv4Budget = 400_000

// TestVerified adds up what the verifier looks at in the programs of an attach, and holds it below a
// budget. RADAR_VERIFIED=PROGRAM prints what each function of that program costs (all: of every one).
func TestVerified(t *testing.T) {
	need.AsRoot(t)
	if err := rlimit.RemoveMemlock(); err != nil {
		t.Fatal(err)
	}
	o := program.DefaultOptions()
	o.IPv6 = "off"
	l, err := o.Layout()
	if err != nil {
		t.Fatal(err)
	}
	b, err := program.New(o, l, program.Probe())
	if err != nil {
		t.Fatal(err)
	}
	total := 0
	for _, spec := range b.Specs {
		for _, name := range slices.Sorted(maps.Keys(spec.Programs)) {
			looked := verify(t, spec, name)
			t.Logf("%-20s %7d", name, looked)
			if strings.HasSuffix(name, "6") || name == "radar_local_in" {
				continue // loaded when a node needs it
			}
			total += looked
		}
	}
	t.Logf("an attach without IPv6: %d", total)
	if hasIterators() && total > ipv4Budget {
		t.Errorf("the verifier looks at %d instructions, more than %d", total, ipv4Budget)
	}
}

// verify loads one program and returns how many instructions the verifier looked at.
func verify(t *testing.T, spec *ebpf.CollectionSpec, name string) int {
	t.Helper()
	one := spec.Copy()
	one.Programs = map[string]*ebpf.ProgramSpec{name: one.Programs[name]}
	options := ebpf.CollectionOptions{}
	if wanted := os.Getenv("RADAR_VERIFIED"); wanted == name || wanted == "all" {
		options.Programs = ebpf.ProgramOptions{LogLevel: ebpf.LogLevelInstruction, LogSizeStart: 1 << 29}
	}
	coll, err := ebpf.NewCollectionWithOptions(one, options)
	var refused *ebpf.VerifierError
	if errors.As(err, &refused) {
		t.Fatalf("%s: %v\n%s", name, err, strings.Join(refused.Log[max(0, len(refused.Log)-60):], "\n"))
	}
	if err != nil {
		t.Fatal(err)
	}
	defer coll.Close()
	logFunctions(t, coll.Programs[name].VerifierLog)
	info, err := coll.Programs[name].Info()
	if err != nil {
		t.Fatal(err)
	}
	looked, _ := info.VerifiedInstructions() // 0 where the kernel does not tell (before 5.16)
	return int(looked)
}

var (
	beginsFunction = regexp.MustCompile(`^Validating (\w+)\(\) func#\d+\.\.\.`)
	isInstruction  = regexp.MustCompile(`^\d+: \(`)
)

// logFunctions counts the instructions of each function in the verifier's log. The program itself is
// without a name.
func logFunctions(t *testing.T, log string) {
	t.Helper()
	cost, function := make(map[string]int), "-"
	for line := range strings.Lines(log) {
		if m := beginsFunction.FindStringSubmatch(line); m != nil {
			function = m[1]
		} else if isInstruction.MatchString(line) {
			cost[function]++
		}
	}
	for _, name := range slices.SortedFunc(maps.Keys(cost), func(a, b string) int { return cmp.Compare(cost[b], cost[a]) }) {
		t.Logf("    %-28s %7d", name, cost[name])
	}
}
