// SPDX-License-Identifier: Apache-2.0

// Package tools has tests of the scripts in this folder.
package tools

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vnetradar/radar/lab/test/need"
)

// clone is a repository with the scripts, and a user's cache beside it.
type clone struct {
	*testing.T
	dir string
	env []string
}

func newClone(t *testing.T) *clone {
	t.Helper()
	need.Programs(t, "git", "make", "go:golang")
	need.Tree(t)
	c := &clone{T: t, dir: t.TempDir(), env: []string{"RADAR_TIER=test", "RADAR_BIN=", "FORCE="}}
	for _, name := range []string{"passed.sh", "state.sh"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		c.write("lab/tools/"+name, string(text))
		if err := os.Chmod(filepath.Join(c.dir, "lab/tools", name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	c.write("Makefile", ".cache:\n\t@mkdir .cache\n")
	c.write("go.mod", "module x\n")
	c.write(".gitignore", ".cache\nbin\nran\n")
	c.write("used/a.sh", "a")
	c.write("page.md", "a")
	c.command("git", "init", "-q")
	return c
}

func (c *clone) write(name, text string) {
	c.Helper()
	path := filepath.Join(c.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		c.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		c.Fatal(err)
	}
}

// command runs a program, and returns what it printed and whether it succeeded.
func (c *clone) command(args ...string) (string, bool) {
	c.Helper()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = c.dir
	cmd.Env = append(os.Environ(), c.env...)
	out, err := cmd.CombinedOutput()
	return string(out), err == nil
}

// runs reports whether passed.sh runs a command that notes that it ran.
func (c *clone) runs(inputs, command string) (ran, ok bool) {
	c.Helper()
	note := filepath.Join(c.dir, "ran")
	os.Remove(note)
	out, ok := c.command("lab/tools/passed.sh", "name", inputs, "touch ran; "+command)
	_, err := os.Stat(note)
	if err != nil && !strings.Contains(out, "name: not run, it passed with the same inputs") {
		c.Errorf("nothing is said of what is not run: %q", out)
	}
	return err == nil, ok
}

// TestPassed: what has passed runs again when its files, its command or the machine have changed, and what has failed always does.
func TestPassed(t *testing.T) {
	c := newClone(t)
	want := func(what string, wantRun bool, inputs, command string) {
		t.Helper()
		if ran, ok := c.runs(inputs, command); ran != wantRun || ok != (command != "false") {
			t.Errorf("%s: ran %v, succeeded %v", what, ran, ok)
		}
	}
	want("a failure", true, "used", "false")
	want("after a failure", true, "used", "false")
	want("the first time", true, "used", "true")
	want("the second time", false, "used", "true")
	c.write("other/b.sh", "b")
	want("after another file has come", false, "used", "true")
	want("another command", true, "used", "true || true")
	c.write("used/a.sh", "b")
	want("after a change", true, "used", "true")
	c.write("used/new/c.sh", "c")
	want("after a file has come", true, "used", "true")
	os.RemoveAll(filepath.Join(c.dir, "used/new"))
	want("after it has gone: as before", false, "used", "true")
	os.Chmod(filepath.Join(c.dir, "used/a.sh"), 0o700)
	want("after a change of mode", true, "used", "true")
	c.env = append(c.env, "RADAR_DOMAIN=x")
	want("with another variable", true, "used", "true")
	c.env = append(c.env, "FORCE=1")
	want("with FORCE", true, "used", "true")
	c.env = append(c.env, "FORCE=", "RADAR_TIER=nightly")
	want("in nightly", true, "used", "true")
	c.env = []string{"RADAR_TIER=test"}
	for _, what := range []string{"the command changes its input", "with what there was before: nothing is known"} {
		c.write("used/a.sh", "d")
		want(what, true, "used", "echo e >used/a.sh")
	}
	want("all", true, "sources", "true")
	c.write("page.md", "b")
	want("a page is no source", false, "sources", "true")
	want("but of the tree", true, "tree", "true")
	c.write("page.md", "c")
	want("each change", true, "tree", "true")
}

// TestDeps: of a package counts what its tests are built of, with what is embedded and testdata, and nothing else.
func TestDeps(t *testing.T) {
	c := newClone(t)
	c.write("a/a.go", "package a\n\nimport _ \"x/b\"\n")
	c.write("a/a_test.go", "package a\n")
	c.write("b/b.go", "package b\n\nimport \"embed\"\n\n//go:embed page\nvar Page embed.FS\n")
	c.write("b/page/deep/x", "1")
	c.write("other/other.go", "package other\n")
	state, ok := c.command("lab/tools/state.sh", "deps:./a")
	if !ok {
		t.Fatal(state)
	}
	for _, f := range []struct {
		name, text string
		counts     bool
	}{
		{"other/other.go", "package other\n\n//\n", false}, {"other/testdata/x", "1", false}, {"page.md", "b", false},
		{"b/page/deep/x", "2", true}, {"b/testdata/deep/x", "1", true}, {"a/a_test.go", "package a\n\n//\n", true}, {"go.mod", "module x\n\ngo 1.20\n", true},
	} {
		c.write(f.name, f.text)
		now, _ := c.command("lab/tools/state.sh", "deps:./a")
		if now != state != f.counts {
			t.Errorf("%s counts: %v, want %v", f.name, now != state, f.counts)
		}
		state = now
	}
	if out, ok := c.command("lab/tools/state.sh", "deps:./none"); ok {
		t.Errorf("a package that is not there: %s", out)
	}
}

// TestRadarCounts: of a radar that make build has not made of the tree, the bytes count.
func TestRadarCounts(t *testing.T) {
	c := newClone(t)
	state := func() string {
		t.Helper()
		out, ok := c.command("lab/tools/state.sh", "sources")
		if !ok {
			t.Fatal(out)
		}
		return out
	}
	none := state()
	c.env = append(c.env, "RADAR_BIN="+filepath.Join(c.dir, "bin/radar"))
	c.write("bin/radar", "one")
	// Dates are set, not taken from a clock, which ticks and may be set back meanwhile.
	built := time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
	dated := func(name string, at time.Time) {
		t.Helper()
		if err := os.Chtimes(filepath.Join(c.dir, name), at, at); err != nil {
			t.Fatal(err)
		}
	}
	files, ok := c.command("git", "ls-files", "-co", "--exclude-standard")
	if !ok {
		t.Fatal(files)
	}
	for name := range strings.FieldsSeq(files) {
		dated(name, built.Add(-time.Nanosecond))
	}
	dated("bin/radar", built)
	dated("page.md", built.Add(time.Second))
	if got := state(); got != none {
		t.Errorf("bin/radar is newer than all sources, and counts beside them: %q, was %q", got, none)
	}
	for _, after := range []time.Duration{0, time.Nanosecond, time.Second} {
		dated("used/a.sh", built.Add(after))
		if state() == none {
			t.Errorf("bin/radar does not count, though a source is %v younger", after)
		}
	}
	c.write("used/a.sh", "b")
	stale := state()
	c.write("bin/other", "two")
	c.env = append(c.env, "RADAR_BIN="+filepath.Join(c.dir, "bin/other"))
	other := state()
	c.write("bin/other", "three")
	if stale == none || other == stale || state() == other {
		t.Error("another radar does not count")
	}
}

// TestNoState: where a state cannot be told there is none, and nothing passes by it.
func TestNoState(t *testing.T) {
	c := newClone(t)
	c.write("a/a.go", "package a\n")
	good := c.env
	without := func(program string) []string { // it fails, as git does in a folder of somebody else's
		dir := filepath.Join("bin", program)
		c.write(filepath.Join(dir, program), "#!/bin/sh\nexit 1\n")
		if err := os.Chmod(filepath.Join(c.dir, dir, program), 0o700); err != nil {
			t.Fatal(err)
		}
		return append(good[:len(good):len(good)], "PATH="+filepath.Join(c.dir, dir)+":"+os.Getenv("PATH"))
	}
	none := func(what string, env []string, args ...string) {
		t.Helper()
		c.env = env
		if out, ok := c.command(append([]string{"lab/tools/state.sh"}, args...)...); ok {
			t.Errorf("%s: state.sh %v: %s", what, args, out)
		}
	}
	noGit, noGo := without("git"), without("go")
	for _, args := range [][]string{{"tree"}, {"sources"}, {"variables"}, {"used"}, {"deps:./a"}} {
		none("git fails", noGit, args...)
	}
	for _, args := range [][]string{{"machine"}, {"variables"}, {"used", "deps:./a"}} {
		none("go fails", noGo, args...)
	}
	none("no such files", good, "usde")
	for what, env := range map[string][]string{"git": noGit, "go": noGo} {
		for range 2 {
			c.env = env
			if out, ok := c.command("lab/tools/passed.sh", "name", "used", "touch ran"); ok {
				t.Errorf("%s fails: passed.sh succeeds: %s", what, out)
			}
		}
	}
	if _, err := os.Stat(filepath.Join(c.dir, "ran")); err == nil {
		t.Error("passed.sh runs a command whose inputs it does not know")
	}
}
