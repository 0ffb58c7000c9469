// SPDX-License-Identifier: Apache-2.0

package domain

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"
)

// A state directory that cannot be made is an error, not a reason to wait.
func TestLockWithoutDirectory(t *testing.T) {
	for _, root := range []string{"/proc/none", "/dev/null"} {
		t.Setenv("RADAR_STATE_DIR", root)
		done := make(chan error, 1)
		go func() {
			_, err := Lock("rdrtest")
			done <- err
		}()
		select {
		case err := <-done:
			if err == nil || !strings.Contains(err.Error(), "RADAR_STATE_DIR") {
				t.Errorf("%s: %v", root, err)
			}
		case <-time.After(time.Minute):
			t.Fatalf("%s: Lock does not return", root)
		}
	}
}

// A description that makes no sense, or is another version's, says what mends it.
func TestLoadWhatCannotBeUsed(t *testing.T) {
	t.Setenv("RADAR_STATE_DIR", t.TempDir())
	if err := os.MkdirAll(Dir("rdrtest"), 0o700); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]struct {
		is   error
		says string
	}{
		`{`:             {ErrDamaged, "radar detach --domain rdrtest"},
		`{"version":9}`: {ErrOtherVersion, "radar detach --domain rdrtest"},
	} {
		if err := os.WriteFile(File("rdrtest", "domain.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Load("rdrtest")
		if err == nil || want.is != nil && !errors.Is(err, want.is) || !strings.Contains(err.Error(), want.says) || errors.Is(err, ErrNotAttached) {
			t.Errorf("%s: %v, want %q", text, err, want.says)
		}
	}
	if err := os.Remove(File("rdrtest", "domain.json")); err != nil {
		t.Fatal(err)
	}
	if _, err := Load("rdrtest"); !errors.Is(err, ErrNotAttached) || errors.Is(err, ErrHalfAttached) {
		t.Errorf("no description: %v", err)
	}
}

// Virtual machines can be named with all nodes, and are not all alone.
func TestIsWhole(t *testing.T) {
	d := &Domain{
		Nodes: []Node{{ID: 1, Name: "a"}, {ID: 2, Name: "host", Auto: true}, {ID: 3, Name: "gone", Removed: true}},
		VMs:   []VM{{ID: 4, Name: "vm"}, {ID: 5, Name: "was", Removed: true}},
	}
	for _, c := range []struct {
		names []string
		all   bool
	}{
		{[]string{"a"}, true}, {[]string{"a", "vm"}, true}, {[]string{"vm"}, false},
		{[]string{"a", "was"}, false}, {[]string{"a", "host"}, false}, {[]string{"a", "gone"}, false},
	} {
		if got := d.IsWhole(c.names); got != c.all {
			t.Errorf("all nodes with %q: %v", c.names, got)
		}
	}
}
