// SPDX-License-Identifier: Apache-2.0

package system

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/host/statedir"
)

func kindOfTest(t *testing.T) Kind {
	t.Setenv("RADAR_STATE_DIR", t.TempDir())
	return Kind{Name: "test-kind", Title: "test domain", Command: "test ", Operands: "NODE...", Version: 3,
		Former: func(name string) string { return filepath.Join(statedir.Root(), name) }}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
}

// A domain is described, listed, and read again; what is not there is said with the command that makes it.
func TestDescribed(t *testing.T) {
	k := kindOfTest(t)
	if _, err := k.read("d"); !errors.Is(err, ErrNotAttached) || errors.Is(err, ErrHalfAttached) || !strings.Contains(err.Error(), `test domain "d" is not attached (attach nodes with: «test attach ‹domain› d NODE...»)`) {
		t.Errorf("a domain that is not there: %v", err)
	}
	if _, err := k.read(DefaultName); !strings.Contains(err.Error(), "«test attach NODE...»") {
		t.Errorf("the default domain: %v", err)
	}
	if _, err := k.read("../d"); !errors.Is(err, fault.Usage) {
		t.Errorf("a path as a name: %v", err)
	}
	if _, ok := k.TryLock("d"); ok {
		t.Error("the lock of a domain that is not there was taken")
	}
	unlock, err := k.Lock("d")
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	if _, ok := k.TryLock("d"); ok {
		t.Error("a lock was taken twice")
	}
	if err := k.Save("d", map[string]int{"version": 3}); err != nil {
		t.Fatal(err)
	}
	b, err := k.read("d")
	if names, listErr := k.List(); err != nil || listErr != nil || !strings.Contains(string(b), `"version": 3`) || !slices.Equal(names, []string{"d"}) {
		t.Errorf("%q, %v; %q, %v", b, err, names, listErr)
	}
}

// A domain of before is where it was until it is detached; one of its name can be described beside it only then.
func TestFormer(t *testing.T) {
	k := kindOfTest(t)
	old := filepath.Join(statedir.Root(), "d")
	write(t, filepath.Join(old, Description), "old")
	write(t, filepath.Join(statedir.Root(), "reports", "d", "collector.json"), "{}") // what is no domain
	unlock, err := k.Lock("e")
	if err == nil {
		err = k.Save("e", "new")
		unlock()
	}
	if err != nil {
		t.Fatal(err)
	}
	b, err := k.read("d")
	names, listErr := k.List()
	if slices.Sort(names); err != nil || listErr != nil || string(b) != "old" || k.Dir("d") != old || !slices.Equal(names, []string{"d", "e"}) {
		t.Errorf("%q in %s, %v; %q, %v", b, k.Dir("d"), err, names, listErr)
	}
	if err := os.RemoveAll(old); err != nil {
		t.Fatal(err)
	}
	if want := filepath.Join(statedir.Root(), "test-kind", "d"); k.Dir("d") != want {
		t.Errorf("a new one is in %s, not in %s", k.Dir("d"), want)
	}
	if _, err := k.read("d"); !errors.Is(err, ErrNotAttached) {
		t.Error(err)
	}
}

// What a killed process has left of a file that it was to replace goes with the domain.
func TestForget(t *testing.T) {
	k := kindOfTest(t)
	unlock, err := k.Lock("d")
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	for _, name := range []string{Description, ".domain.json5577006791947779410", "agent.log"} {
		write(t, k.File("d", name), "")
	}
	k.ForgetUnused("d")
	if err := k.Forget("d"); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(k.parent()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s is left: %v", k.parent(), err)
	}
}

// What is read is of the domain that was asked for, and of this version; else the error says what to do.
func TestLoad(t *testing.T) {
	k := kindOfTest(t)
	type description struct {
		Name    string `json:"name"`
		Version int    `json:"version"`
		Nodes   []string
	}
	odd := func(d *description) error {
		if len(d.Nodes) == 0 {
			return errors.New("no nodes")
		}
		return nil
	}
	for _, c := range []struct {
		text string
		want error
		says string
	}{
		{`{"name": "d", "version": 3, "nodes": ["a"]}`, nil, ""},
		{`{"name": "e", "version": 3, "nodes": ["a"]}`, ErrDamaged, `it is of a domain "e"`},
		{`{"name": "../d", "version": 2}`, ErrOtherVersion, "its layout is 2"},
		{`{"name": "d", "version": 3}`, ErrDamaged, "no nodes (start anew with: «test detach ‹domain› d»)"},
		{`{"name": "d", "version": 3, "nodes": 7}`, ErrDamaged, "cannot unmarshal"},
		{`{"name": "d", "version": 2}`, ErrOtherVersion, "its layout is 2, this radar knows 3 (detach it with: «test detach ‹domain› d»)"},
	} {
		write(t, k.File("d", Description), c.text)
		d, err := Load(k, "d", odd)
		switch {
		case !errors.Is(err, c.want) || err != nil && !strings.Contains(err.Error(), c.says):
			t.Errorf("%s: %v", c.text, err)
		case (d == nil) != errors.Is(c.want, ErrDamaged):
			t.Errorf("%s: %+v", c.text, d)
		case d != nil && d.Name != "d":
			t.Errorf("%s: it is called %q", c.text, d.Name)
		}
	}
}
