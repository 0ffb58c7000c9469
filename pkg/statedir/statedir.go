// SPDX-License-Identifier: Apache-2.0

// Package statedir is where descriptions, logs and locks lie, and how directories are made
// that root can trust.
package statedir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// Root is the directory of all state, as an absolute path: RADAR_STATE_DIR, or /run/radar.
func Root() string {
	dir := os.Getenv("RADAR_STATE_DIR")
	if dir == "" {
		return "/run/radar"
	}
	if abs, err := filepath.Abs(dir); err == nil { // else there is no current directory
		return abs
	}
	return dir
}

// Make creates a directory that nobody else may look into (0700), and those above it.
// One that is there is taken only if nobody but root and this user can put files into it,
// or another directory in its place: a symbolic link, a file, and a directory that belongs
// to somebody else or that others may write to, itself or on the way there, are errors.
func Make(path string) error {
	for try := 0; ; try++ {
		err := tryMake(path)
		if try < 3 && errors.Is(err, fs.ErrNotExist) {
			continue // somebody removes it: radar detach, of the last domain
		}
		return err
	}
}

func tryMake(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("create: %w", err)
	}
	err := os.Mkdir(path, 0o700)
	if errors.Is(err, fs.ErrExist) {
		return Check(path)
	}
	if err != nil {
		return fmt.Errorf("create: %w", err)
	}
	return nil
}

// MakeInRoot makes Root and a directory directly below it.
func MakeInRoot(dir string) error {
	for _, d := range []string{Root(), dir} {
		if err := Make(d); err != nil {
			return fmt.Errorf("state directory (RADAR_STATE_DIR names another): %w", err)
		}
	}
	return nil
}

// Open opens a file of a directory that Make has made, with unix.O_ flags, and creates it
// (0600) if these say so. A symbolic link in its place is an error. The caller closes fd.
func Open(path string, flags int) (fd int, err error) {
	fd, err = unix.Open(path, flags|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if errors.Is(err, unix.ELOOP) {
		return -1, fmt.Errorf("%s is a symbolic link", path)
	}
	if err != nil {
		return -1, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return fd, nil
}

// Check says what is wrong with a directory that Make would not take. It returns an
// fs.ErrNotExist if there is nothing.
func Check(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		return fmt.Errorf("%s is a symbolic link", path)
	case !info.IsDir():
		return fmt.Errorf("%s is no directory", path)
	case info.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("other users may write to %s", path)
	}
	if err := checkOwner(path, info); err != nil {
		return err
	}
	above, err := filepath.EvalSymlinks(filepath.Dir(path))
	if err != nil {
		return err
	}
	// Both ways that lead there: links on the way are followed, if nobody else has made them.
	return errors.Join(checkAbove(filepath.Dir(path)), checkAbove(above))
}

// checkAbove wants that nobody else can rename or replace what a path leads through.
func checkAbove(dir string) error {
	for ; ; dir = filepath.Dir(dir) {
		info, err := os.Lstat(dir)
		if err != nil {
			return err
		}
		if err := checkOwner(dir, info); err != nil {
			return err
		}
		// In a sticky directory, such as /tmp, others touch only what is theirs.
		if mode := info.Mode(); mode.IsDir() && mode.Perm()&0o022 != 0 && mode&fs.ModeSticky == 0 {
			return fmt.Errorf("other users may write to %s", dir)
		}
		if dir == filepath.Dir(dir) {
			return nil
		}
	}
}

// checkOwner takes what belongs to root or to this user.
func checkOwner(path string, info fs.FileInfo) error {
	st, ok := info.Sys().(*syscall.Stat_t)
	if ok && st.Uid != 0 && int(st.Uid) != os.Geteuid() {
		return fmt.Errorf("%s belongs to user %d", path, st.Uid)
	}
	return nil
}

// IsFile says whether the open file is the one at path: whoever has waited for a lock may
// have that of a directory that was removed meanwhile.
func IsFile(fd int, path string) bool {
	var open, there unix.Stat_t
	return unix.Fstat(fd, &open) == nil && unix.Stat(path, &there) == nil &&
		open.Dev == there.Dev && open.Ino == there.Ino
}
