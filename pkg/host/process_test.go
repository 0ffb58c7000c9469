// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/lab/test/child"
	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/host/statedir"
)

// started is a shell that has run a script and sleeps.
func started(t *testing.T, script string) Process {
	t.Helper()
	p, err := Running(child.Shell(t, script))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestAlive(t *testing.T) {
	self, err := Self()
	if err != nil {
		t.Fatal(err)
	}
	if !self.Alive() || self.PID != os.Getpid() {
		t.Errorf("%+v, alive %v, is not this process", self, self.Alive())
	}
	for _, p := range []Process{{}, {PID: self.PID, Start: self.Start - 1}, {PID: 1 << 30, Start: self.Start}} {
		if p.Alive() {
			t.Errorf("%+v lives", p)
		}
	}
	dying := zombie(t)
	if _, err := Running(dying); !errors.Is(err, ErrZombie) {
		t.Errorf("a zombie runs: %v", err)
	}
}

// zombie returns the number of a process that has ended, and that nobody has waited for.
func zombie(t *testing.T) int {
	t.Helper()
	cmd := exec.Command("/bin/true")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Wait() })
	nstest.WaitFor(t, "a zombie", func() bool {
		_, err := Running(cmd.Process.Pid)
		return errors.Is(err, ErrZombie)
	})
	return cmd.Process.Pid
}

func TestEnd(t *testing.T) {
	t.Parallel()
	t.Run("first signal", func(t *testing.T) {
		p := started(t, "true")
		if err := p.End(context.Background(), "test", nstest.Patience, unix.SIGTERM); err != nil || p.Alive() {
			t.Errorf("End: %v, alive %v", err, p.Alive())
		}
	})
	t.Run("deaf", func(t *testing.T) {
		p := started(t, "trap '' USR2")
		if err := p.End(context.Background(), "test", time.Millisecond, unix.SIGUSR2); err == nil || !p.Alive() {
			t.Errorf("End: %v, alive %v", err, p.Alive())
		}
	})
	t.Run("recycled number", func(t *testing.T) {
		p := started(t, "true")
		other := Process{PID: p.PID, Start: p.Start - 1}
		if err := other.End(context.Background(), "test", time.Second, unix.SIGKILL); err != nil || !p.Alive() {
			t.Errorf("End: %v; the process it does not mean is alive: %v", err, p.Alive())
		}
	})
	t.Run("interrupted", func(t *testing.T) {
		p := started(t, "trap '' USR2")
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		if err := p.End(ctx, "test", time.Minute, unix.SIGUSR2, unix.SIGKILL); !errors.Is(err, context.DeadlineExceeded) || !p.Alive() {
			t.Errorf("End: %v, alive %v", err, p.Alive())
		}
	})
}

// claimFiles are a lock and a pid file of a role that nobody has.
func claimFiles(t *testing.T) (lock, pidFile string) {
	t.Helper()
	dir := t.TempDir()
	return filepath.Join(dir, "lock"), filepath.Join(dir, "pid")
}

func TestClaim(t *testing.T) {
	lock, pidFile := claimFiles(t)
	c, err := NewClaim("test", lock, pidFile)
	if err != nil {
		t.Fatal(err)
	}
	p, err := ReadPidFile(pidFile)
	if err != nil || p != c.Self || p.PID != os.Getpid() {
		t.Errorf("the pid file names %+v, %v", p, err)
	}
	if holds, err := p.Holds(lock); err != nil || !holds {
		t.Errorf("the process holds the lock: %v, %v", holds, err)
	}
	if _, err := NewClaim("test", lock, pidFile); !errors.Is(err, statedir.ErrLocked) {
		t.Errorf("second claim: %v", err)
	}
	c.Unname()
	if p, err := ReadPidFile(pidFile); err != nil || p != (Process{}) {
		t.Errorf("after Unname the pid file names %+v, %v", p, err)
	}
	c.Release()
	if holds, err := c.Self.Holds(lock); err != nil || holds {
		t.Errorf("after Release the process holds the lock: %v, %v", holds, err)
	}
	again, err := NewClaim("test", lock, pidFile)
	if err != nil {
		t.Fatalf("claim after Release: %v", err)
	}
	// A pid file that names another process by now is left alone.
	if err := os.WriteFile(pidFile, []byte("1 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	again.Release()
	if p, err := ReadPidFile(pidFile); err != nil || p != (Process{PID: 1, Start: 1}) {
		t.Errorf("Release left a pid file that names %+v, %v", p, err)
	}
}

// A killed process holds its lock until its last thread has ended: whoever comes next waits.
func TestClaimAfterKill(t *testing.T) {
	path, pidFile := claimFiles(t)
	dying := zombie(t)
	for range 5 {
		lock, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(pidFile, fmt.Appendf(nil, "%d 1\n", dying), 0o600); err != nil {
			t.Fatal(err)
		}
		began, free := time.Now(), make(chan struct{})
		time.AfterFunc(200*time.Millisecond, func() { lock.Close(); close(free) })
		c, err := NewClaim("test", path, pidFile)
		<-free
		if errors.Is(err, statedir.ErrLocked) && time.Since(began) >= endingTime {
			t.Log("the lock was held for too long: this process got no CPU")
			continue
		}
		if err != nil {
			t.Fatalf("claim while the process before ends: %v", err)
		}
		c.Release()
		return
	}
	t.Error("the lock was never taken")
}

// A lock file that is a link to somewhere else is not followed.
func TestClaimRefusesLink(t *testing.T) {
	lock, pidFile := claimFiles(t)
	if err := os.Symlink("/dev/null", lock); err != nil {
		t.Fatal(err)
	}
	if c, err := NewClaim("test", lock, pidFile); err == nil {
		c.Release()
		t.Error("claimed through a link")
	}
}
