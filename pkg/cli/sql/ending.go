// SPDX-License-Identifier: Apache-2.0

package sql

import (
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
)

// ending ends the command at the second of some signals. DuckDB looks only between blocks of rows whether a query is
// to end: one call of a function may take minutes, and all the memory that there is.
type ending struct {
	temp atomic.Pointer[string] // the directory that goes with the command; nil: there is none
}

// atSecond ends the process at the second signal that comes until the returned function is called.
func (e *ending) atSecond(signals ...os.Signal) (release func()) {
	came, done := make(chan os.Signal, 2), make(chan struct{})
	signal.Notify(came, signals...)
	go func() {
		var last os.Signal
		for range 2 {
			select {
			case last = <-came:
			case <-done:
				return
			}
		}
		if dir := e.temp.Load(); dir != nil {
			_ = os.RemoveAll(*dir)
		}
		os.Exit(128 + int(last.(syscall.Signal))) // as shells have it
	}()
	return func() {
		signal.Stop(came)
		close(done)
	}
}
