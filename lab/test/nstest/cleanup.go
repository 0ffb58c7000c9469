// SPDX-License-Identifier: Apache-2.0

package nstest

import (
	"fmt"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"testing"
)

// cleanups are those that have not run, in the order in which they came.
var cleanups struct {
	sync.Mutex
	list   []*cleanup
	ending bool // the process ends as soon as they have run
	listen sync.Once
}

type cleanup struct {
	once sync.Once
	f    func()
}

// Cleanup calls f when the test ends, as t.Cleanup does, and also when the process is
// interrupted or terminated (SIGINT, SIGTERM): then testing calls nothing, and what is in
// the kernel would stay there. f may be called while the test goes on, and before what it
// removes is there: call Cleanup first, then make it.
func Cleanup(t testing.TB, f func()) {
	t.Helper()
	cleanups.listen.Do(func() {
		signals := make(chan os.Signal, 1)
		signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
		go func() {
			s := <-signals
			signal.Stop(signals) // a second one ends it at once
			runCleanups()
			fmt.Fprintf(os.Stderr, "%v: cleaned up\n", s)
			os.Exit(130)
		}()
	})
	c := &cleanup{f: f}
	cleanups.Lock()
	if cleanups.ending {
		cleanups.Unlock()
		f()
		select {} // no further: nobody would clean up
	}
	cleanups.list = append(cleanups.list, c)
	cleanups.Unlock()
	t.Cleanup(c.run)
}

// runCleanups calls the newest first.
func runCleanups() {
	for {
		cleanups.Lock()
		n := len(cleanups.list)
		if n == 0 {
			cleanups.ending = true
			cleanups.Unlock()
			return
		}
		c := cleanups.list[n-1]
		cleanups.Unlock()
		done := make(chan struct{})
		go func() { // one that calls t.FailNow ends its goroutine only
			defer close(done)
			c.run()
		}()
		<-done
	}
}

// run calls f, or waits for its end, and forgets it.
func (c *cleanup) run() {
	defer func() {
		cleanups.Lock()
		defer cleanups.Unlock()
		if i := slices.Index(cleanups.list, c); i >= 0 {
			cleanups.list = slices.Delete(cleanups.list, i, i+1)
		}
	}()
	c.once.Do(c.f)
}
