// SPDX-License-Identifier: Apache-2.0

package test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestRandomPackets runs scripts of FuzzPackets that it makes up itself. go fuzz sees what
// inputs reach in Go code, not in BPF programs, and takes several times as long for one.
//
// RADAR_FUZZ says how many scripts ("10000000x") or how long ("60s"), RADAR_FUZZ_SEED which
// (else the clock does), RADAR_FUZZ_RECORD names a file that gets a line about the run.
// A script that fails is kept where FuzzPackets finds it.
func TestRandomPackets(t *testing.T) {
	r := randomRun{limit: limit{scripts: 2000}, seed: 1}
	if text := os.Getenv("RADAR_FUZZ"); text != "" {
		r.limit = parseLimit(t, text)
		seed := cmp.Or(os.Getenv("RADAR_FUZZ_SEED"), strconv.FormatInt(time.Now().UnixNano(), 10))
		var err error
		if r.seed, err = strconv.ParseUint(seed, 10, 64); err != nil {
			t.Fatalf("RADAR_FUZZ_SEED: %v", err)
		}
	}
	r.domains = newFuzzDomains(t)
	defer r.keep(t)
	start := time.Now()
	for !r.limit.reached(r.scripts, start) {
		r.batch(t)
	}
	line := fmt.Sprintf("%s  %9d scripts  %10d packets  %11d hooks  %6.0f s  seed %d", time.Now().UTC().Format("2006-01-02"),
		r.scripts, r.packets, r.hooks, time.Since(start).Seconds(), r.seed)
	t.Log(line)
	if path := os.Getenv("RADAR_FUZZ_RECORD"); path != "" {
		appendLine(t, path, line)
	}
}

// limit ends a run: after so many scripts, or so long.
type limit struct {
	scripts uint64
	time    time.Duration
}

func parseLimit(t testing.TB, text string) (l limit) {
	t.Helper()
	var err error
	if n, ok := strings.CutSuffix(text, "x"); ok {
		l.scripts, err = strconv.ParseUint(n, 10, 64)
	} else {
		l.time, err = time.ParseDuration(text)
	}
	if err != nil || l == (limit{}) {
		t.Fatalf("RADAR_FUZZ=%q: say 10000x or 60s", text)
	}
	return l
}

func (l limit) reached(scripts uint64, start time.Time) bool {
	if l.scripts > 0 {
		return scripts >= l.scripts
	}
	return time.Since(start) >= l.time
}

func appendLine(t testing.TB, path, line string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintln(f, line); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// randomRun is one run of TestRandomPackets.
type randomRun struct {
	limit                   limit
	seed                    uint64
	domains                 fuzzDomains
	script                  []byte // in flight
	scripts, packets, hooks uint64
}

// scriptsPerSum is after how many scripts the counters are read, which takes longer than
// a script.
const scriptsPerSum = 200

// batch runs scripts until the counters are read.
func (r *randomRun) batch(t *testing.T) {
	quick := noHelper{t}
	first := r.scripts
	for range scriptsPerSum {
		if r.limit.scripts > 0 && r.scripts >= r.limit.scripts {
			break
		}
		r.script = makeScript(rand.New(rand.NewPCG(r.seed, r.scripts)))
		packets, hooks := r.domains.run(quick, r.script)
		if t.Failed() {
			t.FailNow()
		}
		r.scripts++
		r.packets, r.hooks = r.packets+uint64(packets), r.hooks+uint64(hooks)
	}
	if !r.domains.sumsUp(t) {
		r.search(t, first)
	}
}

// sumsUp reports whether the counters are as they should be, without failing the test.
func (ds fuzzDomains) sumsUp(t testing.TB) bool {
	for _, d := range ds {
		c := tally(d.counters())
		noteMoved(c)
		if c.seen() != c.answered() {
			return false
		}
	}
	return true
}

// search runs the scripts from number first on again, to see after which the counters are
// wrong.
func (r *randomRun) search(t *testing.T, first uint64) {
	for _, d := range r.domains {
		d.clearCounters()
	}
	for n := first; n < r.scripts; n++ {
		r.script = makeScript(rand.New(rand.NewPCG(r.seed, n)))
		r.domains.run(t, r.script)
		r.domains.checkSums(t)
		if t.Failed() {
			t.FailNow()
		}
	}
	r.script = nil
	t.Errorf("seed %d: counters were wrong after scripts %d to %d, but not when those ran again", r.seed, first, r.scripts)
}

// keep writes a script that failed as an input of FuzzPackets.
func (r *randomRun) keep(t *testing.T) {
	if !t.Failed() || r.script == nil {
		return
	}
	r.shrink(t)
	dir := filepath.Join("testdata", "fuzz", "FuzzPackets")
	name := fmt.Sprintf("seed-%d-script-%d", r.seed, r.scripts)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("go test fuzz v1\n[]byte(%q)\n", r.script)
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Logf("to run it again: go test ./bpf/test -run FuzzPackets/%s", name)
}

// shrink leaves out of the script what it fails without.
func (r *randomRun) shrink(t *testing.T) {
	for size := len(r.script) / 2; size > 0; size /= 2 {
		for at := 1; at+size <= len(r.script); {
			shorter := slices.Concat(r.script[:at], r.script[at+size:])
			if r.fails(t, shorter) {
				r.script = shorter
			} else {
				at += size
			}
		}
	}
}

func (r *randomRun) fails(t *testing.T, script []byte) bool {
	var v verdict
	v.TB = t
	done := make(chan bool)
	go func() { // v.Fatal ends it
		defer close(done)
		pinCPU(&v, 0)
		for _, d := range r.domains {
			d.clearCounters()
		}
		r.domains.run(&v, script)
		r.domains.checkSums(&v)
	}()
	<-done
	if v.failed { // it may have left anything
		for _, d := range r.domains {
			d.clearCounters()
		}
		r.domains.prepare()
	}
	return v.failed
}

// verdict keeps a failure to itself.
type verdict struct {
	testing.TB
	failed bool
}

func (v *verdict) Helper()               {}
func (v *verdict) Logf(string, ...any)   {}
func (v *verdict) Errorf(string, ...any) { v.failed = true }
func (v *verdict) Error(...any)          { v.failed = true }
func (v *verdict) Failed() bool          { return v.failed }
func (v *verdict) Cleanup(func())        {} // the thread ends with the goroutine
func (v *verdict) Fatalf(string, ...any) { v.Fatal() }
func (v *verdict) Fatal(...any)          { v.failed = true; runtime.Goexit() }

// noHelper spares t.Helper(), which looks at the stack each time.
type noHelper struct{ testing.TB }

func (noHelper) Helper() {}

// makeScript makes up a script: mostly some lines, at times hundreds.
func makeScript(rnd *rand.Rand) []byte {
	lines := 1 + rnd.IntN(10)
	if rnd.IntN(100) == 0 {
		lines = 50 + rnd.IntN(400)
	}
	script := appendNew([]byte{byte(rnd.Uint32())}, rnd)
	for range lines {
		switch n := rnd.IntN(100); {
		case n < 25:
			script = appendNew(script, rnd)
		case n < 80:
			script = append(script, opMove, byte(rnd.Uint32()), byte(rnd.Uint32()))
		case n < 88:
			script = append(script, opCut, byte(rnd.Uint32()))
		case n < 90:
			script = append(script, opCE, byte(rnd.Uint32()))
		case n < 93:
			script = append(script, opTwice, byte(rnd.Uint32()), byte(rnd.Uint32()))
		case n < 96:
			script = append(script, opLease)
		default:
			script = append(script, opDrop, byte(rnd.Uint32()))
		}
	}
	return script
}

// appendNew adds a packet: as it is, with some fields changed, or cut off anywhere.
func appendNew(script []byte, rnd *rand.Rand) []byte {
	_, names := fixtures()
	i := rnd.IntN(len(names))
	script = append(script, opNew, byte(i), byte(i>>8))
	if isTrain(names[i]) {
		return append(script, 0)
	}
	changes := max(0, rnd.IntN(10)-3) // none as often as not: changed packets often are no good
	script = append(script, byte(changes))
	for n := range changes {
		field := rnd.IntN(nFields)
		if n == changes-1 && rnd.IntN(2) == 0 {
			field = fieldMend // else a wrong checksum hides all other changes
		}
		value := byte(rnd.Uint32())
		if rnd.IntN(3) == 0 {
			value = borders[rnd.IntN(len(borders))]
		}
		script = append(script, byte(field), value)
	}
	return script
}

// borders are values on both sides of which something is different: TTLs, bands, lengths,
// flags, protocols.
var borders = []byte{0, 1, 2, 4, 6, 17, 20, 28, 32, 40, 44, 58, 63, 64, 65, 72, 73, 96, 97, 128, 129, 132, 136, 224, 225, 254, 255}
