// SPDX-License-Identifier: Apache-2.0

// Package statedir is where descriptions, logs and locks lie, and how directories are made
// that root can trust.
package statedir

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
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
// Each directory above it is checked before anything is made in it: nobody but root
// and this user may be able to put another one in its place. One that is there already is
// taken only if nobody else can put files into it either: a symbolic link, a file, and a
// directory that belongs to somebody else or that others may write to are errors.
func Make(path string) error {
	for try := 0; ; try++ {
		err := tryMake(path)
		if try < 3 && errors.Is(err, fs.ErrNotExist) {
			continue // somebody removes it: radar detach, of the last domain
		}
		return own(err)
	}
}

// ownError is an error of Make or Check.
type ownError struct{ error }

func (e ownError) Unwrap() error { return e.error }

func own(err error) error {
	if err == nil {
		return nil
	}
	return ownError{err}
}

// IsOwn reports whether err is of Make or Check. The path that it names may be one above the directory, or where a link leads.
func IsOwn(err error) bool {
	_, is := errors.AsType[ownError](err)
	return is
}

// CanMake says what Make would fail with, and makes nothing.
func CanMake(path string) error {
	err := Check(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		err := unix.Faccessat(unix.AT_FDCWD, dir, unix.W_OK|unix.X_OK, unix.AT_EACCESS)
		if err == nil || !errors.Is(err, fs.ErrNotExist) || dir == filepath.Dir(dir) {
			if err != nil {
				return fmt.Errorf("cannot create %s: in %s: %w", path, dir, err)
			}
			return nil
		}
	}
}

func tryMake(path string) error {
	path, err := follow(path, true)
	if err != nil {
		return fmt.Errorf("create: %w", err)
	}
	err = os.Mkdir(path, 0o700)
	if errors.Is(err, fs.ErrExist) {
		return checkLast(path)
	}
	if err != nil {
		return fmt.Errorf("create: %w", err)
	}
	return nil
}

// MakeInRoot makes Root and a directory directly below it.
func MakeInRoot(dir string) error {
	return inRoot(dir, Make)
}

// CheckInRoot says what is wrong with Root, or with a directory directly below it: what lies
// there must not be believed. One that is not there is no error.
func CheckInRoot(dir string) error {
	return inRoot(dir, func(d string) error {
		if err := Check(d); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	})
}

func inRoot(dir string, do func(string) error) error {
	for _, d := range []string{Root(), dir} {
		if err := do(d); err != nil {
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

// maxFile bounds what ReadFile reads, in bytes: a description with all nodes and ports has some 10 MB.
const maxFile = 64 << 20

// ReadFile is os.ReadFile with a bound: what is longer is cut.
func ReadFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxFile))
}

// LockDir creates a directory below Root if need be and takes the lock in it, waiting for its holder.
// unlock releases it; a process that dies does too.
func LockDir(dir string) (unlock func(), err error) {
	for {
		fd, err := lockOnce(dir)
		if errors.Is(err, errRemoved) {
			continue
		}
		if err != nil {
			return nil, err
		}
		// Whoever had it may have removed the directory, and the lock with it.
		if IsFile(fd, filepath.Join(dir, LockFile)) {
			return func() { unix.Close(fd) }, nil
		}
		unix.Close(fd)
	}
}

// LockFile is the lock of a directory.
const LockFile = "lock"

// errRemoved says that the directory was removed between its creation and its use.
var errRemoved = errors.New("state directory was removed")

func lockOnce(dir string) (fd int, err error) {
	if err := MakeInRoot(dir); err != nil {
		return -1, err
	}
	fd, err = Open(filepath.Join(dir, LockFile), unix.O_RDWR|unix.O_CREAT)
	if errors.Is(err, fs.ErrNotExist) {
		return -1, errRemoved
	}
	if err != nil {
		return -1, fmt.Errorf("lock: %w", err)
	}
	if err := Wait(fd); err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("lock %s: %w", dir, err)
	}
	return fd, nil
}

// Wait takes the lock of an open file, and waits for it.
func Wait(fd int) error {
	for {
		if err := unix.Flock(fd, unix.LOCK_EX); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// ErrLocked says that somebody else has a lock.
var ErrLocked = errors.New("locked")

// TryLock opens a file as Open does and takes its lock, for as long as fd is open. If another
// process has it, or has removed the file meanwhile, that is ErrLocked. The caller closes fd.
func TryLock(path string, flags int) (fd int, err error) {
	if fd, err = Open(path, flags); err != nil {
		return -1, err
	}
	if err = unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB); errors.Is(err, unix.EWOULDBLOCK) || err == nil && !IsFile(fd, path) {
		err = ErrLocked
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// Check says what is wrong with a directory that Make would not take. It returns an
// fs.ErrNotExist if there is nothing.
func Check(path string) error {
	path, err := follow(path, false)
	if err != nil {
		return own(err)
	}
	return own(checkLast(path))
}

// checkLast is Check of a directory below others that follow has checked.
func checkLast(path string) error {
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
	return checkOwner(path, info)
}

// maxLinks is how many symbolic links a path may lead through, as for the kernel.
const maxLinks = 40

// follow walks from the root of the file system to what lies above path, through symbolic
// links as well, and wants that nobody else can rename or replace any of it. It returns path
// without these links. missing: directories that are not there are made, each when all above
// it has been checked.
func follow(path string, missing bool) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	at, links := "/", 0
	if err := checkAbove(at); err != nil {
		return "", err
	}
	for rest := strings.Split(filepath.Dir(path), "/"); len(rest) > 0; {
		name := rest[0]
		rest = rest[1:]
		if name == "" || name == "." {
			continue
		}
		next := filepath.Join(at, name) // ".." as well: no link is left in at
		if missing {
			if err := os.Mkdir(next, 0o700); err != nil && !isThere(next) {
				return "", err
			}
		}
		if err := checkAbove(next); err != nil {
			return "", err
		}
		target, err := os.Readlink(next)
		if err != nil { // it is no link
			at = next
			continue
		}
		if links++; links > maxLinks {
			return "", fmt.Errorf("%s leads through too many symbolic links", path)
		}
		if filepath.IsAbs(target) {
			at = "/"
		}
		rest = append(strings.Split(target, "/"), rest...)
	}
	return filepath.Join(at, filepath.Base(path)), nil
}

// isThere reports whether there is anything at path. (Mkdir of a directory that is there says
// so only after it has looked at rights, and whether the file system can be written to.)
func isThere(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// checkAbove wants that nobody else can rename or replace what lies in dir, or where a link
// leads that dir is.
func checkAbove(dir string) error {
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
	return nil
}

// checkOwner takes what belongs to root or to this user.
func checkOwner(path string, info fs.FileInfo) error {
	st, ok := info.Sys().(*syscall.Stat_t)
	if ok && st.Uid != 0 && int(st.Uid) != os.Geteuid() {
		return fmt.Errorf("%s belongs to user %d", path, st.Uid)
	}
	return nil
}

// IsFile reports whether the open file is the one at path: whoever has waited for a lock may
// have that of a directory that was removed meanwhile.
func IsFile(fd int, path string) bool {
	var open, there unix.Stat_t
	return unix.Fstat(fd, &open) == nil && unix.Stat(path, &there) == nil &&
		open.Dev == there.Dev && open.Ino == there.Ino
}

// IsOpenFile is IsFile of a file that a process has open, /proc/PID/fd/N.
func IsOpenFile(link, path string) bool {
	var open, there unix.Stat_t
	return unix.Stat(link, &open) == nil && unix.Lstat(path, &there) == nil &&
		open.Dev == there.Dev && open.Ino == there.Ino
}
