// SPDX-License-Identifier: Apache-2.0

package resident

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vnetradar/radar/lab/test/child"
	"github.com/vnetradar/radar/pkg/host"
	"github.com/vnetradar/radar/pkg/host/statedir"
	"github.com/vnetradar/radar/pkg/system"
)

// seat is that of a domain of a kind whose state is where stateDir makes it.
func seat() Seat { return Seat{Kind: system.Kind{Title: "domain"}, Domain: "d"} }

// stateDir gives the test a state directory with an empty domain in it.
func stateDir(t *testing.T, name string) {
	t.Helper()
	t.Setenv("RADAR_STATE_DIR", t.TempDir())
	if err := os.MkdirAll(filepath.Join(statedir.Root(), name), 0o700); err != nil {
		t.Fatal(err)
	}
}

func writePid(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(statedir.Root(), name, "agent.pid"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestFind(t *testing.T) {
	stateDir(t, "d")
	find := func() Process {
		t.Helper()
		p, err := seat().Find()
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
	lock, err := os.Create(filepath.Join(statedir.Root(), "d", "agent.lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	notAgent("it has the lock file open, without its lock")
	holder := exec.Command("flock", "-F", filepath.Join(statedir.Root(), "d", "agent.lock"), "sh", "-c", "echo; exec sleep 3600")
	if err := child.Start(t, holder); err != nil {
		t.Fatal(err)
	}
	notAgent("another process has the lock")
	stateDir(t, "d")
	c, err := seat().Claim()
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
		if p, err := seat().Find(); err == nil {
			t.Errorf("pid file %q: found %v", text, p)
		}
	}
}

// Of two processes one is the agent, until it gives the role back.
func TestClaim(t *testing.T) {
	stateDir(t, "d")
	c, err := seat().Claim()
	if err != nil {
		t.Fatal(err)
	}
	if p, err := seat().Find(); err != nil || p.PID != os.Getpid() {
		t.Errorf("found %v, %v after the claim", p, err)
	}
	if _, err := seat().Claim(); !errors.Is(err, ErrRunning) {
		t.Errorf("second claim: %v, want ErrRunning", err)
	}
	// Who is detaching is not asked to hand over, but keeps the role.
	c.Unname()
	if p, err := seat().Find(); err != nil || p.PID != 0 {
		t.Errorf("found %v, %v after Unname", p, err)
	}
	if _, err := seat().Claim(); !errors.Is(err, ErrRunning) {
		t.Errorf("claim after Unname: %v, want ErrRunning", err)
	}
	c.Release()
	again, err := seat().Claim()
	if err != nil {
		t.Fatalf("claim after Release: %v", err)
	}
	again.Release()
}

// A state directory that others can write to names no process that gets a signal.
func TestFindUntrusted(t *testing.T) {
	stateDir(t, "d")
	c, err := seat().Claim()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Release()
	if err := os.Chmod(filepath.Join(statedir.Root(), "d"), 0o777); err != nil {
		t.Fatal(err)
	}
	if p, err := seat().Find(); err == nil || !strings.Contains(err.Error(), "other users may write to "+filepath.Join(statedir.Root(), "d")) {
		t.Errorf("found %v, %v in a directory that others may write to", p, err)
	}
}

// Who cannot keep the domain, whose pins are gone, is not its agent.
func TestTakeWithoutPins(t *testing.T) {
	stateDir(t, "d")
	s := seat()
	s.Kind.Name, s.Domain = ".", "none-"+filepath.Base(t.TempDir())
	if err := os.MkdirAll(s.Kind.Dir(s.Domain), 0o700); err != nil {
		t.Fatal(err)
	}
	if l, err := s.Take(); err == nil || l != nil {
		t.Errorf("taken: %v, %v", l, err)
	}
	c, err := s.Claim()
	if err != nil {
		t.Fatalf("claim after that: %v", err)
	}
	c.Release()
}
