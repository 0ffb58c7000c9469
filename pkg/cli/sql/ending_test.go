// SPDX-License-Identifier: Apache-2.0

package sql

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/vnetradar/radar/pkg/answer"
	"github.com/vnetradar/radar/pkg/cli/kit"
)

// TestOneWish: signals that come together are one, as timeout sends them, and SIGHUP ends nothing at once, however
// often it comes. A signal that comes once it was said that the command goes on ends it.
func TestOneWish(t *testing.T) {
	t.Parallel()
	for _, first := range []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT} {
		said := make(chan struct{})
		e := newEnding(func() { close(said) })
		came, done, over := make(chan os.Signal), make(chan struct{}), make(chan time.Time)
		ended := make(chan os.Signal, 1)
		go func() {
			ended <- e.second(came, done, func(time.Duration) <-chan time.Time { return over })
		}()
		send := func(list ...syscall.Signal) {
			t.Helper()
			for _, s := range list {
				select {
				case came <- s:
				case s := <-ended:
					t.Fatalf("%v ends the command at once", s)
				}
			}
		}
		send(first, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM)
		over <- time.Time{}
		<-said
		send(syscall.SIGHUP, syscall.SIGHUP, syscall.SIGTERM)
		if s := <-ended; s != syscall.SIGTERM {
			t.Errorf("it ended by %v", s)
		}
	}
}

// TestLateToLook: signals that came together are one, also if it is noticed late.
func TestLateToLook(t *testing.T) {
	t.Parallel()
	for range 100 {
		came, done, over := make(chan os.Signal, 2), make(chan struct{}), make(chan time.Time, 1)
		came <- syscall.SIGTERM
		came <- syscall.SIGTERM
		over <- time.Time{}
		e := newEnding(func() { close(done) })
		if s := e.second(came, done, func(time.Duration) <-chan time.Time { return over }); s != nil {
			t.Fatalf("%v ends the command at once", s)
		}
	}
}

// TestNothingIsLeft: a hard end leaves no directory, neither of --temp nor of what the ring remembers, though something
// writes there meanwhile.
func TestNothingIsLeft(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	e := newEnding(nil)
	spill, remove, err := e.directory(temp)
	if err != nil {
		t.Fatal(err)
	}
	defer remove()
	writing, stop, stopped := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() { // as threads of DuckDB do, until they are told that there is no directory
		defer close(stopped)
		for i := 0; ; i++ {
			if err := os.WriteFile(filepath.Join(spill, fmt.Sprint(i)), nil, 0o600); err != nil {
				return
			}
			if i == 1000 {
				close(writing)
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	}()
	<-writing
	ended := errors.New("ended")
	f := &options{keep: func(_ context.Context, _, dir, _ string) ([]answer.Note, error) {
		if _, err := os.Stat(dir); err != nil {
			t.Error(err)
		}
		e.clear() // nothing of the function that has made it runs after a hard end
		if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("what the ring remembers is left: %v", err)
		}
		return nil, ended
	}}
	if _, err := f.open(&kit.Kit{}, t.Context(), e); !errors.Is(err, ended) {
		t.Error(err)
	}
	close(stop)
	<-stopped
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("%v are left, %v", left, err)
	}
	if remove(); len(e.paths) > 0 {
		t.Errorf("%v are noted", e.paths)
	}
}
