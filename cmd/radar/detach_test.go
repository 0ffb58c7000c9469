// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/vnetradar/radar/pkg/domain"
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
	w := newWorld(t)
	w.radar(exitOK, append([]string{"attach", "-d"}, w.lab.AttachArgs()...)...)
	path := domain.File(w.domain, "domain.json")
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
		out, err := exec.Command(selfPath, append([]string{"detach"}, args...)...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), want) || strings.Count(string(out), "\n") != 1 {
			t.Errorf("radar detach %v: %v, want one line with %q:\n%s", args, err, want, out)
		}
	}
	write(bytes.Replace(was, ours, []byte(`"version": 9,`), 1))
	detach("is another one, too")
	detach("is another one, too", "--no-drain", "--", "--h1")
	if err := os.Chown(domain.Dir(w.domain), nobody, nobody); err != nil {
		t.Fatal(err)
	}
	detach("belongs to user 65534")
	if err := os.Chown(domain.Dir(w.domain), 0, 0); err != nil {
		t.Fatal(err)
	}
	write(was)
	w.radar(exitOK, "detach")
	w.nothingLeft()
}
