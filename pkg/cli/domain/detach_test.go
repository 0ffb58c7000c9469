// SPDX-License-Identifier: Apache-2.0

package domain

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/cli/clitest"
	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/host/background"
	"github.com/vnetradar/radar/pkg/host/statedir"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

func TestDetachedTexts(t *testing.T) {
	for text, v := range map[string]detachView{
		"1 virtual machine": {VMs: 1}, "1 node with 2 ports": {Nodes: 1, Ports: 2},
		"2 nodes with 3 ports and 1 virtual machine": {Nodes: 2, Ports: 3, VMs: 1},
	} {
		if got := v.what(); got != text {
			t.Errorf("%q, want %q", got, text)
		}
	}
}

// A domain of another layout is left to the program of its agent: not to this one in a
// circle, and not to whatever somebody else names as the agent.
func TestDetachOther(t *testing.T) {
	w := clitest.NewWorld(t)
	w.Radar(kit.ExitOK, append([]string{"attach", "-d"}, w.Lab.AttachArgs()...)...)
	path := domain.File(w.Domain, domain.Description)
	was, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	ours := fmt.Appendf(nil, `"version": %d,`, domain.Version)
	if !bytes.Contains(was, ours) {
		t.Fatalf("no %s in %s", ours, was)
	}
	write := func(b []byte) {
		t.Helper()
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	detach := func(want string, args ...string) {
		t.Helper()
		// In a process of its own: the agent's program takes its place.
		out, err := exec.Command(background.SelfPath, append([]string{"detach"}, args...)...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), want) || strings.Count(string(out), "\n") != 1 {
			t.Errorf("radar detach %v: %v, want one line with %q:\n%s", args, err, want, out)
		}
	}
	write(bytes.Replace(was, ours, fmt.Appendf(nil, `"version": %d,`, domain.Version+1), 1))
	detach("is another one, too")
	detach("is another one, too", "--no-drain", "--", "--h1")
	if err := os.Chown(domain.Dir(w.Domain), nobody, nobody); err != nil {
		t.Fatal(err)
	}
	detach("belongs to user 65534")
	if err := os.Chown(domain.Dir(w.Domain), 0, 0); err != nil {
		t.Fatal(err)
	}
	write(was)
	w.Radar(kit.ExitOK, "detach")
	w.NothingLeft()
}

// The state directory of another user names a process of root's as the agent: that one gets
// no signal, and nothing is detached.
func TestDetachUntrusted(t *testing.T) {
	w := clitest.NewWorld(t)
	w.Radar(kit.ExitOK, append([]string{"attach", "-d"}, w.Lab.AttachArgs()...)...)
	w.Kill()
	victim := exec.Command("sleep", "3600")
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = victim.Wait(); close(ended) }()
	t.Cleanup(func() { _ = victim.Process.Kill(); <-ended })
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", victim.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	pid := fmt.Sprintf("%d %s\n", victim.Process.Pid, strings.Fields(string(stat))[21])
	if err := os.WriteFile(domain.File(w.Domain, "agent.pid"), []byte(pid), 0o600); err != nil {
		t.Fatal(err)
	}
	dir := domain.Dir(w.Domain)
	if err := os.Chown(dir, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"detach", "status", "attach"} {
		if out := w.Radar(kit.ExitFailure, command); !strings.Contains(out, dir+" belongs to user 65534") || !strings.Contains(out, "RADAR_STATE_DIR") {
			t.Errorf("radar %s said %q", command, out)
		}
	}
	if err := os.Chown(dir, 0, 0); err != nil {
		t.Fatal(err)
	}
	// Also where the directory is ours: it is a number that somebody else has by now.
	w.Radar(kit.ExitOK, "detach")
	w.NothingLeft()
	select {
	case <-ended:
		t.Error("a process that is no agent was ended")
	default:
	}
}

// Pins are the machine's, state directories are not: with another one a domain whose agent
// lives is not taken for what a killed attach has left.
func TestDetachElsewhere(t *testing.T) {
	w := clitest.NewWorld(t)
	w.Radar(kit.ExitOK, append([]string{"attach", "-d"}, w.Lab.AttachArgs()...)...)
	p, ours, other := w.Agent(), statedir.Root(), t.TempDir()
	t.Setenv("RADAR_STATE_DIR", other)
	for _, args := range [][]string{{"detach"}, {"detach", "--no-drain"}, append([]string{"attach", "-d"}, w.Lab.AttachArgs()...)} {
		out := w.Radar(kit.ExitFailure, args...)
		for _, want := range []string{fmt.Sprintf("process %d", p.PID), "RADAR_STATE_DIR=" + ours + " radar detach --domain " + w.Domain} {
			if !strings.Contains(out, want) {
				t.Errorf("radar %v with another state directory said %q, want %q", args, out, want)
			}
		}
	}
	for _, args := range [][]string{{"status"}, {"loss"}, {"packets"}} {
		_, out, _ := clitest.Radar(t, args...)
		for want, has := range map[string]bool{fmt.Sprintf("process %d keeps it in %s", p.PID, ours): true, "sudo RADAR_STATE_DIR=" + ours: true, "detach": false} {
			if strings.Contains(out, want) != has {
				t.Errorf("radar %v with another state directory said %q, %q: %v", args, out, want, !has)
			}
		}
	}
	if left, err := os.ReadDir(other); err != nil || len(left) > 0 {
		t.Errorf("left in the other state directory: %v, %v", left, err)
	}
	t.Setenv("RADAR_STATE_DIR", ours)
	if w.Agent() != p {
		t.Error("the agent changed")
	}
	w.Ping(5)
	w.Settled(10)

	// Nobody keeps it, or what the agent had of it is gone: what is left can be removed from anywhere.
	w.Kill()
	t.Setenv("RADAR_STATE_DIR", other)
	w.Radar(kit.ExitOK, "detach", "--no-drain")
	w.NothingLeft()
	t.Setenv("RADAR_STATE_DIR", ours)
	w.Radar(kit.ExitOK, "detach", "--no-drain")
	w.NothingLeft()

	w.Radar(kit.ExitOK, append([]string{"attach", "-d"}, w.Lab.AttachArgs()...)...)
	p = w.Agent()
	nstest.WaitFor(t, "the state to be gone, though the agent may write to it", func() bool {
		return os.RemoveAll(domain.Dir(w.Domain)) == nil
	})
	t.Setenv("RADAR_STATE_DIR", other)
	w.Radar(kit.ExitOK, "detach", "--no-drain")
	w.Gone(p)
	w.NothingLeft()
}
