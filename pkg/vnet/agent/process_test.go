// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/vnetradar/radar/lab/test/child"
	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/host"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// stateDir gives the test a state directory with an empty domain in it.
func stateDir(t *testing.T, name string) {
	t.Helper()
	t.Setenv("RADAR_STATE_DIR", t.TempDir())
	if err := os.MkdirAll(domain.Dir(name), 0o700); err != nil {
		t.Fatal(err)
	}
}

func writePid(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(domain.File(name, "agent.pid"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestFind(t *testing.T) {
	stateDir(t, "d")
	find := func() Process {
		t.Helper()
		p, err := Find("d")
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	if p := find(); p != (Process{}) {
		t.Errorf("no pid file: found %v", p)
	}
	self, err := host.Self()
	if err != nil {
		t.Fatal(err)
	}
	// A process that is there, but not by what it holds the domain's agent.
	writePid(t, "d", fmt.Sprintf("%d %d\n", self.PID, self.Start))
	notAgent := func(what string) {
		t.Helper()
		if p := find(); p != (Process{}) {
			t.Errorf("%s: found %v", what, p)
		}
	}
	notAgent("no lock file")
	lock, err := os.Create(domain.File("d", "agent.lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	notAgent("it has the lock file open, without its lock")
	holder := exec.Command("flock", "-F", domain.File("d", "agent.lock"), "sh", "-c", "echo; exec sleep 3600")
	if err := child.Start(t, holder); err != nil {
		t.Fatal(err)
	}
	notAgent("another process has the lock")
	stateDir(t, "d")
	c, err := newClaim("d")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Release()
	if p := find(); p.Process != self {
		t.Errorf("found %v, want %v", p, self)
	}
	// The number lives, but it is another process than the file means.
	writePid(t, "d", fmt.Sprintf("%d %d\n", self.PID, self.Start-1))
	if p := find(); p != (Process{}) {
		t.Errorf("recycled number: found %v", p)
	}
	for _, text := range []string{"", "x", "12", "-1 5", "0 0"} {
		writePid(t, "d", text)
		if p, err := Find("d"); err == nil {
			t.Errorf("pid file %q: found %v", text, p)
		}
	}
}

// Of two processes one is the agent, until it gives the role back.
func TestClaim(t *testing.T) {
	stateDir(t, "d")
	c, err := newClaim("d")
	if err != nil {
		t.Fatal(err)
	}
	if p, err := Find("d"); err != nil || p.PID != os.Getpid() {
		t.Errorf("found %v, %v after the claim", p, err)
	}
	if _, err := newClaim("d"); !errors.Is(err, ErrRunning) {
		t.Errorf("second claim: %v, want ErrRunning", err)
	}
	// Who is detaching is not asked to hand over, but keeps the role.
	c.Unname()
	if p, err := Find("d"); err != nil || p.PID != 0 {
		t.Errorf("found %v, %v after Unname", p, err)
	}
	if _, err := newClaim("d"); !errors.Is(err, ErrRunning) {
		t.Errorf("claim after Unname: %v, want ErrRunning", err)
	}
	c.Release()
	again, err := newClaim("d")
	if err != nil {
		t.Fatalf("claim after Release: %v", err)
	}
	again.Release()
}

// A state directory that others can write to names no process that gets a signal.
func TestFindUntrusted(t *testing.T) {
	stateDir(t, "d")
	c, err := newClaim("d")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Release()
	if err := os.Chmod(domain.Dir("d"), 0o777); err != nil {
		t.Fatal(err)
	}
	if p, err := Find("d"); err == nil || !strings.Contains(err.Error(), "other users may write to "+domain.Dir("d")) {
		t.Errorf("found %v, %v in a directory that others may write to", p, err)
	}
}

// started is a shell that has run a script and sleeps.
func started(t *testing.T, script string) Process {
	t.Helper()
	p, err := host.Running(child.Shell(t, script))
	if err != nil {
		t.Fatal(err)
	}
	return Process{p}
}

func TestStop(t *testing.T) {
	t.Parallel()
	t.Run("ends by itself", func(t *testing.T) {
		p := started(t, "true")
		if err := p.Stop(context.Background(), nstest.Patience); err != nil || p.Alive() {
			t.Errorf("Stop: %v, alive %v", err, p.Alive())
		}
	})
	t.Run("deaf", func(t *testing.T) {
		p := started(t, "trap '' USR2")
		const patience = 2 * time.Second
		begin := time.Now()
		err := p.Stop(context.Background(), patience)
		if time.Since(begin) < patience {
			t.Error("killed without patience")
		}
		if err != nil { // Stop has the same patience with its end, once it is killed
			t.Logf("Stop: %v", err)
			nstest.WaitFor(t, "the end of a process that was killed", func() bool { return !p.Alive() })
		}
		if p.Alive() {
			t.Error("it lives on")
		}
	})
}
