// SPDX-License-Identifier: Apache-2.0

package transparency

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

var (
	// radarBin is the binary under test.
	radarBin = os.Getenv("RADAR_BIN")
	// onlyMode is the mode to run in, "": all.
	onlyMode = Mode(os.Getenv("RADAR_MODE"))
	// patience: how much slower than a processor this machine may be (emulation).
	patience = patienceOf(os.Getenv("RADAR_PATIENCE"))
)

func patienceOf(text string) time.Duration {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 1
	}
	return time.Duration(n)
}

func TestMain(m *testing.M) {
	code, err := runTests(m)
	if err != nil {
		fmt.Fprintf(os.Stderr, "lab/transparency: %v\n", err)
		code = 1
	}
	os.Exit(code)
}

func runTests(m *testing.M) (int, error) {
	if os.Geteuid() != 0 {
		return 1, fmt.Errorf("needs root, to make network namespaces and to load BPF programs")
	}
	if onlyMode != "" && onlyMode != Mark && onlyMode != Header {
		return 1, fmt.Errorf("no mode %q: %s or %s", onlyMode, Mark, Header)
	}
	dir, err := os.MkdirTemp("", "radar-transparency-")
	if err != nil {
		return 1, fmt.Errorf("make a directory for the binary: %w", err)
	}
	defer os.RemoveAll(dir)
	if radarBin == "" {
		radarBin = filepath.Join(dir, "radar")
		cmd := exec.Command("go", "build", "-o", radarBin, "./cmd/radar")
		cmd.Dir = filepath.Join("..", "..")
		if out, err := cmd.CombinedOutput(); err != nil {
			return 1, fmt.Errorf("build radar: %w\n%s", err, out)
		}
	}
	if err := stampPackets(); err != nil {
		return 1, err
	}
	code := m.Run()
	if len(table.rows) == 0 {
		if code == 0 && os.Getenv("RADAR_CASE") != "" {
			return 1, fmt.Errorf("no case %q in that mode; all cases: lab/transparency/case_*_test.go", os.Getenv("RADAR_CASE"))
		}
		return code, nil
	}
	fmt.Println()
	if os.Getenv("RADAR_MARKDOWN") != "" {
		return code, writeMarkdown(os.Stdout)
	}
	return code, writeTable(os.Stdout)
}

// stampPackets has the kernel stamp all packets as they come, and not only when a
// capture reads them, from now on: it takes a moment to begin.
func stampPackets() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open a socket: %w", err)
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1); err != nil {
		return fmt.Errorf("ask for time stamps: %w", err)
	}
	time.Sleep(20 * time.Millisecond)
	return nil // open for the life of the process
}

// TestCases runs every case: without radar, then in each mode, and compares. Most of the
// time they wait, so run more at a time than there are CPUs (-parallel).
func TestCases(t *testing.T) {
	pool.t, pool.ready = t, make(map[string][]*domain)
	for i := range cases {
		c := &cases[i]
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			c.test(t)
		})
	}
}

// test runs one case.
func (c *Case) test(t *testing.T) {
	if missing := lacking(t, c.Needs); len(missing) > 0 {
		for _, mode := range c.Modes {
			report(row{point: c.Point, name: c.Name, shows: c.Shows, mode: mode, result: needsText(missing)})
		}
		t.Skip(needsText(missing))
	}
	var base map[string]view
	t.Run(string(Without), func(t *testing.T) { base = run(t, c, Without).views() })
	if base == nil {
		report(row{point: c.Point, name: c.Name, shows: c.Shows, mode: Without, result: failed})
		t.FailNow()
	}
	for _, mode := range c.Modes {
		if onlyMode != "" && !slices.Contains([]Mode{onlyMode}, mode) {
			continue
		}
		t.Run(string(mode), func(t *testing.T) { c.hold(t, mode, base) })
	}
}

// hold runs a case with radar and holds it against the run without.
func (c *Case) hold(t *testing.T, mode Mode, base map[string]view) {
	result := row{point: c.Point, name: c.Name, shows: c.Shows, mode: mode, result: failed}
	defer func() { report(result) }()
	r := run(t, c, mode)
	var list []finding
	result.compared, list = compare(base, r.views())
	checked, wrongs := r.checkRecords()
	result.records = checked
	list = append(list, wrongs...)
	result.unmeasured, result.why, wrongs = r.checkCounters()
	list = append(list, wrongs...)
	if c.Check != nil {
		c.Check(r)
	}
	for _, f := range list {
		if f.kind == difference {
			result.differences++
		} else {
			result.wrong++
		}
	}
	left, known := c.sift(mode, list)
	result.known = known
	result.found = left
	if len(left) > 0 {
		t.Errorf("%s\n%s", c.Shows, describe(left, 60))
	}
	if result.compared == 0 {
		t.Error("nothing was compared: the case sends nothing that anybody outside sees")
	}
	if !t.Failed() {
		result.result = "ok"
	}
}
