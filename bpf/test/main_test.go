// SPDX-License-Identifier: Apache-2.0

package test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/pkg/bpfobj"
	"github.com/vnetradar/radar/pkg/filter"
)

// moved collects the counters of all domains.
var moved struct {
	sync.Mutex
	by map[bpfobj.TcRdrCounter]uint64
}

// TestMain fails a whole run in which a counter stayed at 0. Where no test could load the
// programs, each has said so.
func TestMain(m *testing.M) {
	code := m.Run()
	if code == 0 && wholeRun() && moved.by != nil {
		for c, test := range reached {
			if moved.by[c] == 0 && (hasPcap || !strings.HasPrefix(test, "TestWatch")) {
				fmt.Fprintf(os.Stderr, "%s was never reached; %s should\n", counterName(c), test)
				code = 1
			}
		}
	}
	os.Exit(code)
}

// hasPcap says whether libpcap, which compiles --watch, is part of this build: of the
// static one for other kernels it is not.
var hasPcap = func() bool {
	_, err := filter.Compile("tcp")
	return !errors.Is(err, filter.ErrNotBuilt)
}()

func needExpressions(t testing.TB) {
	t.Helper()
	if !hasPcap {
		need.Lack(t, need.Pcap, "build with cgo and without the tag nopcap")
	}
}

// wholeRun says whether nothing was left out by a flag.
func wholeRun() bool {
	for _, name := range []string{"test.run", "test.skip", "test.fuzz", "test.list", "test.bench"} {
		if f := flag.Lookup(name); f != nil && f.Value.String() != "" {
			return false
		}
	}
	return true
}

func noteMoved(counters map[bpfobj.TcRdrCounter]uint64) {
	moved.Lock()
	defer moved.Unlock()
	if moved.by == nil {
		moved.by = make(map[bpfobj.TcRdrCounter]uint64)
	}
	for c, n := range counters {
		moved.by[c] += n
	}
}
