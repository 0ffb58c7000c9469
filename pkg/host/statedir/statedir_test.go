// SPDX-License-Identifier: Apache-2.0

package statedir

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

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

// Nothing is made below a directory that another user can change, at whatever depth, also not
// the first time: that user could put another one in its place at once.
func TestMakeBelowOthers(t *testing.T) {
	need.AsRoot(t) // it gives files to another user
	for _, c := range []struct {
		name string
		make func(dir string) error // of dir/theirs
		want string
	}{
		{"their directory", func(dir string) error {
			return errors.Join(os.Mkdir(dir+"/theirs", 0o755), os.Chown(dir+"/theirs", 65534, 65534))
		}, "belongs to user 65534"},
		{"open to all", func(dir string) error {
			return errors.Join(os.Mkdir(dir+"/theirs", 0o755), os.Chmod(dir+"/theirs", 0o777))
		}, "other users may write to"},
		{"their link", func(dir string) error {
			return errors.Join(os.Mkdir(dir+"/ours", 0o755), os.Symlink(dir+"/ours", dir+"/theirs"), os.Lchown(dir+"/theirs", 65534, 65534))
		}, "belongs to user 65534"},
		{"our link through their directory", func(dir string) error {
			return errors.Join(os.Mkdir(dir+"/ours", 0o755), os.Mkdir(dir+"/other", 0o755), os.Symlink("../ours", dir+"/other/link"),
				os.Chown(dir+"/other", 65534, 65534), os.Symlink("other/link", dir+"/theirs"))
		}, "belongs to user 65534"},
		{"a link in a circle", func(dir string) error { return os.Symlink("theirs", dir+"/theirs") }, "too many symbolic links"},
		{"our link", func(dir string) error {
			return errors.Join(os.Mkdir(dir+"/ours", 0o755), os.Symlink("./../"+filepath.Base(dir)+"/ours", dir+"/theirs"))
		}, ""},
		{"a sticky directory", func(dir string) error {
			return errors.Join(os.Mkdir(dir+"/theirs", 0o755), os.Chmod(dir+"/theirs", 0o777|os.ModeSticky))
		}, ""},
	} {
		for _, below := range []string{"radar", "a/b/radar"} {
			t.Run(c.name+"/"+below, func(t *testing.T) {
				dir := t.TempDir()
				if err := c.make(dir); err != nil {
					t.Fatal(err)
				}
				path := filepath.Join(dir, "theirs", below)
				err := Make(path)
				if c.want == "" {
					if err != nil || Check(path) != nil {
						t.Errorf("make: %v, check: %v", err, Check(path))
					}
					return
				}
				if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), dir) {
					t.Errorf("make: %v, want %q and the path", err, c.want)
				}
				for _, made := range []string{"theirs/a", "theirs/radar", "ours/a", "ours/radar"} {
					if _, err := os.Lstat(filepath.Join(dir, made)); err == nil {
						t.Errorf("%s was made", made)
					}
				}
				if err := Check(path); err == nil {
					t.Error("check: no error")
				}
			})
		}
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

// TestTryLock: one has the lock at a time, of the file that is there.
func TestTryLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	if _, err := TryLock(path, unix.O_RDWR); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	first, err := TryLock(path, unix.O_RDWR|unix.O_CREAT)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := TryLock(path, unix.O_RDWR); !errors.Is(err, ErrLocked) {
		t.Errorf("a second one has the lock: %v", err)
	}
	unix.Close(first)
	second, err := TryLock(path, unix.O_RDWR)
	if err != nil {
		t.Fatalf("the lock was given back: %v", err)
	}
	unix.Close(second)
}
