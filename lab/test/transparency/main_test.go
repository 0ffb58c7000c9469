// SPDX-License-Identifier: Apache-2.0

package transparency

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/lab/test/dropwatch"
	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/lab/test/radarbin"
)

var (
	// onlyMode is the mode to run in, "": all.
	onlyMode = Mode(os.Getenv("RADAR_MODE"))
	// patience: how much slower than a processor this machine may be (emulation).
	patience = patienceOf(os.Getenv("RADAR_PATIENCE"))
)

// clockError is by how much a record's time may be off a capture's: stamps are converted from
// CLOCK_MONOTONIC (pkg/host/clock). Both clocks run at one rate.
const clockError = 10 * time.Microsecond

// mostWait is how long something that must happen may take: the machine may be busy.
var mostWait = patience * nstest.Patience

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
		fmt.Fprintf(os.Stderr, "lab/test/transparency: %v\n", err)
		code = 1
	}
	os.Exit(code)
}

func runTests(m *testing.M) (int, error) {
	if onlyMode != "" && onlyMode != Mark && onlyMode != Header {
		return 1, fmt.Errorf("no mode %q: %s or %s", onlyMode, Mark, Header)
	}
	code := m.Run()
	radarbin.Remove()
	if len(table.rows) == 0 {
		if code == 0 && os.Getenv("RADAR_CASE") != "" && !table.skipped {
			return 1, fmt.Errorf("no case %q in that mode; all cases: lab/test/transparency/case_*_test.go", os.Getenv("RADAR_CASE"))
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
var stampPackets = sync.OnceValue(func() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open a socket: %w", err)
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1); err != nil {
		return fmt.Errorf("ask for time stamps: %w", err)
	}
	time.Sleep(20 * time.Millisecond)
	return nil // open for the life of the process
})

// drops are those of the whole machine while cases run.
var drops struct {
	sync.Mutex
	*dropwatch.Watch
}

// TestCases runs every case: without radar, then in each mode, and compares. Most of the
// time they wait, so run more at a time than there are CPUs (-parallel).
func TestCases(t *testing.T) {
	table.skipped = true
	need.AsRoot(t)
	need.Programs(t, "ip:iproute2", "tc:iproute2", "bridge:iproute2", "nft:nftables", "nsenter:util-linux")
	table.skipped = false
	radarbin.Path(t)
	if err := stampPackets(); err != nil {
		t.Fatal(err)
	}
	drops.Watch = dropwatch.Start(t)
	pool.t, pool.ready = t, make(map[string][]*domain)
	// As t.Parallel does, but in this order.
	next := make(chan *Case)
	var workers sync.WaitGroup
	for range parallel() {
		workers.Go(func() {
			for c := range next {
				t.Run(c.Name, c.test)
			}
		})
	}
	for _, c := range inOrder() {
		next <- c
	}
	close(next)
	workers.Wait()
}

// parallel is how many tests may run at a time (-parallel).
func parallel() int {
	n, err := strconv.Atoi(flag.Lookup("test.parallel").Value.String())
	if err != nil {
		return 1
	}
	return n
}

// test runs one case. The run without radar is no test of its own: any mode can be run by
// itself, and has what it is held against.
func (c *Case) test(t *testing.T) {
	if !c.now() {
		need.Nightly(t)
	}
	if missing := lacking(t, c.Needs); len(missing) > 0 {
		for _, mode := range c.Modes {
			report(row{point: c.Point, name: c.Name, shows: c.Shows, mode: mode, result: needsText(missing)})
		}
		t.Skip(needsText(missing))
	}
	base := c.base(t)
	for _, mode := range c.Modes {
		if onlyMode != "" && onlyMode != mode {
			continue
		}
		t.Run(string(mode), func(t *testing.T) { c.hold(t, mode, base) })
	}
}

// base is what observers see without radar. Its network is gone when it returns.
func (c *Case) base(t *testing.T) map[string]view {
	t.Helper()
	part := &scope{TB: t}
	defer part.end()
	result := row{point: c.Point, name: c.Name, shows: c.Shows, mode: Without, result: failed}
	defer func() {
		if t.Failed() {
			report(result)
		}
	}()
	views := run(part, c, Without).views()
	if t.Failed() {
		t.FailNow()
	}
	return views
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
