// SPDX-License-Identifier: Apache-2.0

package sql

import (
	"errors"
	"io/fs"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

// together is how long after the first signal others are taken for the same wish: timeout(1) signals its child and then
// its group, a parent may hand on what the terminal has sent to all, and a terminal that closes sends SIGHUP twice.
const together = 500 * time.Millisecond

// mostTries is how often a directory is removed in which a query still makes files.
const mostTries = 1000

// ending ends the command at a second signal. DuckDB looks only between blocks of rows whether a query is to end: one
// call of a function may take minutes, and all the memory that there is.
type ending struct {
	say func() // that the command goes on, and what a further signal does

	mu    sync.Mutex // what is made is noted under it, so that nothing is missed
	paths map[string]struct{}
}

func newEnding(say func()) *ending { return &ending{say: say, paths: make(map[string]struct{})} }

// atSecond ends the process at a second signal that comes until the returned function is called.
func (e *ending) atSecond(signals ...os.Signal) (release func()) {
	came, done := make(chan os.Signal, 8), make(chan struct{})
	signal.Notify(came, signals...)
	go func() {
		if s := e.second(came, done, time.After); s != nil {
			e.mu.Lock() // nothing is made any more
			e.clear()
			os.Exit(128 + int(s.(syscall.Signal))) // as shells have it
		}
	}()
	return func() {
		signal.Stop(came)
		close(done)
	}
}

// second is a signal that somebody has sent who knows that the command goes on after the first; nil: done is closed.
// SIGHUP is none: nobody waits at a terminal that has gone.
func (e *ending) second(came <-chan os.Signal, done <-chan struct{}, after func(time.Duration) <-chan time.Time) os.Signal {
	select {
	case <-came:
	case <-done:
		return nil
	}
	for over := after(together); ; {
		select {
		case <-over:
			over = nil
			for len(came) > 0 { // they came before
				<-came
			}
			e.say()
		case s := <-came:
			if over == nil && s != syscall.SIGHUP {
				return s
			}
		case <-done:
			return nil
		}
	}
}

// directory makes a temporary directory that goes with the command, however it ends. The caller calls remove.
func (e *ending) directory(in string) (dir string, remove func(), err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if dir, err = os.MkdirTemp(in, "radar-sql-"); err != nil {
		return "", nil, err
	}
	e.paths[dir] = struct{}{}
	return dir, func() {
		_ = os.RemoveAll(dir)
		e.mu.Lock()
		defer e.mu.Unlock()
		delete(e.paths, dir)
	}, nil
}

// unnamed makes a file that no directory has.
func (e *ending) unnamed() (*os.File, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	file, err := os.CreateTemp("", "radar-sql-*.parquet")
	if err != nil {
		return nil, err
	}
	return file, os.Remove(file.Name())
}

// clear removes all directories, into which a query may write meanwhile.
func (e *ending) clear() {
	for dir := range e.paths {
		for range mostTries {
			if err := os.RemoveAll(dir); err == nil || errors.Is(err, fs.ErrPermission) {
				break
			}
		}
	}
}
