// SPDX-License-Identifier: Apache-2.0

package dockertest

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vnetradar/radar/lab/test/nstest"
)

func TestMain(m *testing.M) { os.Exit(Main(m)) }

// What the other tests rely on: containers with names, networks and processes
// that can be found, and nothing of them afterwards.
func TestEngine(t *testing.T) {
	New(t) // or there is none, and nothing to test
	label := ""
	t.Run("use", func(t *testing.T) {
		e := New(t)
		label = e.Label()
		network := e.Network("net")
		a, b := e.Run("a", "--network", network), e.Run("b", "--network", network)
		if out := a.Exec("ping", "-c", "1", "-W", "60", b.Address()); !strings.Contains(out, "1 packets received") {
			t.Errorf("ping: %s", out)
		}
		was, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", a.PID()))
		if err != nil {
			t.Fatal(err)
		}
		a.Restart()
		if now, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", a.PID())); err != nil || a.PID() == 0 {
			t.Errorf("after a restart: %v (it was %s, is %s)", err, was, now)
		}
		if created := e.Create("c"); len(created.ID) != 64 {
			t.Errorf("id of a container: %q", created.ID)
		}
	})
	if out, err := docker("ps", "--all", "--quiet", "--filter", "label="+label); err != nil || out != "" {
		t.Errorf("containers left behind: %q, %v", out, err)
	}
}

// An engine of our own starts, and leaves nothing behind, not even of networks that
// nobody removed. It is in a namespace of
// its own: engines that share one take each other's bridge and rules away.
func TestDaemon(t *testing.T) {
	New(t) // or none can be started here
	_, err := exec.LookPath("dockerd")
	lackEngine(t, err)
	n := nstest.New(t, "engine")
	where := place{"nsenter", "--net=" + n.Path("engine")}
	before := where.rules()
	bridges := func() string {
		out, err := where.command("ip", "-brief", "link", "show", "type", "bridge").CombinedOutput()
		if err != nil {
			t.Fatalf("ip: %v: %s", err, out)
		}
		return string(out)
	}
	d, err := startDaemon(where)
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("docker", "--host", d.host(), "network", "create", "kept").CombinedOutput(); err != nil {
		t.Fatalf("docker network create: %v\n%s", err, out)
	}
	if strings.Count(bridges(), "\n") != 2 || len(where.rules()["iptables"]) <= len(before["iptables"]) {
		t.Error("the engine made not both bridges, or no rules: this test tests nothing")
	}
	if err := d.stop(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(d.dir); !os.IsNotExist(err) {
		t.Errorf("%s is left behind: %v", d.dir, err)
	}
	if diff := cmp.Diff(before, where.rules()); diff != "" {
		t.Errorf("rules left behind:\n%s", diff)
	}
	if left := bridges(); left != "" {
		t.Errorf("bridges left behind:\n%s", left)
	}
}
