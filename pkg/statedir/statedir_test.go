// SPDX-License-Identifier: Apache-2.0

package statedir

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vnetradar/radar/lab/test/need"
)

// Root puts secrets and programs there: nothing is taken that somebody else could have
// put in its place.
func TestMake(t *testing.T) {
	need.AsRoot(t) // it gives files to another user
	for _, c := range []struct {
		name string
		make func(path string) error
		want string // "": it is taken
	}{
		{"nothing", func(string) error { return nil }, ""},
		{"a directory", func(p string) error { return os.Mkdir(p, 0o700) }, ""},
		{"readable", func(p string) error { return os.Mkdir(p, 0o755) }, ""},
		{"a file", func(p string) error { return os.WriteFile(p, nil, 0o600) }, "is no directory"},
		{"a link", func(p string) error { return os.Symlink(t.TempDir(), p) }, "is a symbolic link"},
		{"a link to nothing", func(p string) error { return os.Symlink("/nonexistent", p) }, "is a symbolic link"},
		{"another user's", func(p string) error {
			if err := os.Mkdir(p, 0o700); err != nil {
				return err
			}
			return os.Chown(p, 65534, 65534)
		}, "belongs to user 65534"},
		{"open to all", func(p string) error {
			if err := os.Mkdir(p, 0o700); err != nil {
				return err
			}
			return os.Chmod(p, 0o1777)
		}, "other users may write to"},
		{"in another user's", func(p string) error {
			return errors.Join(os.Mkdir(filepath.Dir(p)+"/theirs", 0o755), os.Chown(filepath.Dir(p)+"/theirs", 65534, 65534),
				os.Mkdir(filepath.Dir(p)+"/theirs/radar", 0o700), os.Rename(filepath.Dir(p)+"/theirs", p))
		}, "belongs to user 65534"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "radar")
			if err := c.make(path); err != nil {
				t.Fatal(err)
			}
			if strings.HasPrefix(c.name, "in ") {
				path = filepath.Join(path, "radar")
			}
			err := Make(path)
			if c.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				if info, err := os.Lstat(path); err != nil || !info.IsDir() || info.Mode().Perm()&0o022 != 0 {
					t.Errorf("%v, %v: want a directory that only its user may change", info, err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), filepath.Dir(path)) {
				t.Errorf("%v, want %q and the path", err, c.want)
			}
		})
	}
}

// A directory below one that cannot be is an error, not a reason to wait.
func TestMakeNowhere(t *testing.T) {
	if err := Make("/proc/nonexistent/radar"); err == nil {
		t.Error("no error")
	}
}

func TestRoot(t *testing.T) {
	t.Setenv("RADAR_STATE_DIR", "")
	if Root() != "/run/radar" {
		t.Errorf("%s, want the default", Root())
	}
	t.Setenv("RADAR_STATE_DIR", "here")
	if !filepath.IsAbs(Root()) || filepath.Base(Root()) != "here" {
		t.Errorf("%s, want an absolute path", Root())
	}
}
