// SPDX-License-Identifier: Apache-2.0

package dockertest

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

func TestMain(m *testing.M) { os.Exit(Main(m)) }

// What the other tests rely on: containers with names, networks and processes
// that can be found, and nothing of them afterwards.
func TestEngine(t *testing.T) {
	label := ""
	t.Run("use", func(t *testing.T) {
		e := New(t)
		label = e.Label()
		network := e.Network("net")
		a, b := e.Run("a", "--network", network), e.Run("b", "--network", network)
		if out := a.Exec("ping", "-c", "1", "-W", "5", b.Address()); !strings.Contains(out, "1 packets received") {
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

// An engine of our own starts, and leaves nothing behind.
func TestDaemon(t *testing.T) {
	var flags []string
	if _, err := docker("version"); err == nil {
		// The bridge and the chains are those of the engine that runs.
		flags = []string{"--bridge", "none", "--iptables=false", "--ip6tables=false"}
	}
	before := listRules()
	d, err := startDaemon(flags...)
	if err != nil {
		t.Fatal(err)
	}
	dir := d.dir
	if err := d.stop(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("%s is left behind: %v", dir, err)
	}
	for tool, rules := range listRules() {
		for _, rule := range rules {
			if strings.Contains(rule, "DOCKER") && !strings.Contains(strings.Join(before[tool], "\n"), rule) {
				t.Errorf("%s %s is left behind", tool, rule)
			}
		}
	}
}
