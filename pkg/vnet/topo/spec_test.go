// SPDX-License-Identifier: Apache-2.0

package topo

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vishvananda/netns"

	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/system"
)

func TestParseSpec(t *testing.T) {
	n := nstest.New(t, "h1")
	full := n.Name("h1")
	sleeper := exec.Command("nsenter", "--net="+n.Path("h1"), "sleep", "3600")
	if err := sleeper.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sleeper.Process.Kill(); _ = sleeper.Wait() })
	pid := sleeper.Process.Pid
	inum, err := identify(n.Path("h1"))
	if err != nil {
		t.Fatal(err)
	}
	nstest.WaitFor(t, "sleep in its namespace", func() bool {
		got, err := identify(fmt.Sprintf("/proc/%d/ns/net", pid))
		return err == nil && got == inum
	})
	for _, c := range []struct{ arg, name, spec, path string }{
		{"netns:" + full, full, "netns:" + full, n.Path("h1")},
		{"r1=netns:" + full, "r1", "netns:" + full, n.Path("h1")},
		{"netns:" + n.Path("h1"), full, "netns:" + n.Path("h1"), n.Path("h1")},
		{fmt.Sprintf("pid:%d", pid), fmt.Sprintf("pid-%d", pid), fmt.Sprintf("pid:%d", pid), fmt.Sprintf("/proc/%d/ns/net", pid)},
	} {
		got, err := ParseSpec(c.arg)
		if want := (NodeSpec{system.Place{Name: c.name, Spec: c.spec, Path: c.path, Inum: inum}}); err != nil || got != want {
			t.Errorf("ParseSpec(%q) = %+v, %v; want %+v", c.arg, got, err, want)
		}
	}
}

func TestParseSpecRefuses(t *testing.T) {
	n := nstest.New(t, "h1")
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	host := filepath.Join(t.TempDir(), "host")
	if err := os.Symlink("/proc/self/ns/net", host); err != nil {
		t.Fatal(err)
	}
	for arg, want := range map[string]string{
		"":                               "write netns:NAME",
		"h1":                             "netns:NAME, netns:/path",
		"doker:h1":                       "unknown kind",
		"netns:":                         "write netns:NAME",
		"netns:nope-" + n.Name("h1"):     n.Name("h1"), // lists what there is
		"netns:a/b":                      "has no '/'",
		"netns:..":                       "has no '/'",
		"netns:/nope":                    "no such file",
		"netns:" + file:                  "not a network namespace",
		"netns:/proc/self/ns/mnt":        "not a network namespace",
		"pid:x":                          "no process id",
		"pid:0":                          "no process id",
		"pid:2147483647":                 "no such process",
		"netns:" + host:                  "host's own",
		"pid:" + fmt.Sprint(os.Getpid()): "host's own",
		"=netns:" + n.Name("h1"):         "empty",
		"a/b=netns:" + n.Name("h1"):      "node name",
		"a b=netns:" + n.Name("h1"):      "node name",
	} {
		_, err := ParseSpec(arg)
		if !errors.Is(err, fault.Usage) || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseSpec(%q): %v; want a usage error with %q", arg, err, want)
		}
	}
}

func TestParseSpecsDuplicates(t *testing.T) {
	n := nstest.New(t, "a", "b")
	for _, args := range [][]string{
		{"x=netns:" + n.Name("a"), "y=netns:" + n.Path("a")}, // one namespace
		{"x=netns:" + n.Name("a"), "x=netns:" + n.Name("b")}, // one name
	} {
		_, err := ParseSpecs(args)
		if !errors.Is(err, fault.Usage) {
			t.Errorf("ParseSpecs(%q): %v", args, err)
			continue
		}
		for _, arg := range args {
			if _, spec, _ := strings.Cut(arg, "="); !strings.Contains(err.Error(), spec) {
				t.Errorf("ParseSpecs(%q): %v; want both named", args, err)
			}
		}
	}
}

// A namespace that moved is found by its inode; one that took its place is not it.
func TestOpenAndFind(t *testing.T) {
	n := nstest.New(t, "a", "b")
	a := specs(t, n, "a")[0]
	moved := a
	moved.Path = n.Path("b")
	if _, err := moved.Open(); !errors.Is(err, ErrGone) {
		t.Errorf("Open of another namespace: %v", err)
	}
	ns, err := moved.Find()
	if err != nil {
		t.Fatal(err)
	}
	ns.Close()
	found := false
	all, err := Namespaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		found = found || s.Inum == a.Inum && s.Path == a.Path
	}
	if !found {
		t.Error("Namespaces does not list a namespace that has a name")
	}
}

// A thread that was in another namespace must be back before anyone else gets it.
func TestDoComesBack(t *testing.T) {
	n := nstest.New(t, "a")
	a := specs(t, n, "a")[0]
	home, err := identify("/proc/thread-self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	fail := errors.New("fail")
	err = a.Do(func() error {
		ns, err := netns.Get()
		if err != nil {
			return err
		}
		defer ns.Close()
		if inum, err := identify("/proc/thread-self/ns/net"); err != nil || inum != a.Inum {
			t.Errorf("inside Do the namespace is %d (%v), want %d", inum, err, a.Inum)
		}
		return fail
	})
	if !errors.Is(err, fail) {
		t.Errorf("Do: %v", err)
	}
	tasks, err := filepath.Glob("/proc/self/task/*/ns/net")
	if err != nil || len(tasks) == 0 {
		t.Fatalf("list threads: %v", err)
	}
	for _, task := range tasks {
		if inum, err := identify(task); err == nil && inum != home {
			t.Errorf("%s is in namespace %d, want %d", task, inum, home)
		}
	}
}

// The host's own namespace has one name of its own, and can be opened from
// wherever the program's threads are.
func TestParseSpecHost(t *testing.T) {
	home, err := identify("/proc/thread-self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	for arg, name := range map[string]string{"netns:host": "host", "edge=netns:host": "edge"} {
		got, err := ParseSpec(arg)
		if err != nil || got.Name != name || got.Spec != "netns:host" || got.Inum != home || !got.IsHost() {
			t.Fatalf("ParseSpec(%q) = %+v, %v; want node %s, namespace %d", arg, got, err, name, home)
		}
		n := nstest.New(t, "a")
		err = specs(t, n, "a")[0].Do(func() error {
			return got.Do(func() error {
				if inum, err := identify("/proc/thread-self/ns/net"); err != nil || inum != home {
					t.Errorf("opened namespace %d (%v), want %d", inum, err, home)
				}
				return nil
			})
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// Which namespace is the host's does not depend on where a thread is.
func TestHostIsKnownInside(t *testing.T) {
	n := nstest.New(t, "a")
	err := specs(t, n, "a")[0].Do(func() error {
		_, err := ParseSpec(n.Spec("a"))
		return err
	})
	if err != nil {
		t.Errorf("a node, seen from inside: %v", err)
	}
}
