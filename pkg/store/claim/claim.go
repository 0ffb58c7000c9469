// SPDX-License-Identifier: Apache-2.0

// Package claim gives one process at a time the right to record in a directory.
package claim

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/host"
	"github.com/vnetradar/radar/pkg/host/statedir"
	"github.com/vnetradar/radar/pkg/store/readme"
)

// ErrInUse says that another process records into the directory.
var ErrInUse = errors.New("another process records there")

// Dir is a directory in which this process may record.
type Dir struct {
	Path string // as it was given
	Lock int    // file descriptor: while it is open, nobody else may

	abs  string
	made []string // what was not there before, the deepest first
}

// Take makes the directory, if need be, and takes the right to record there. ErrInUse says that another process has it.
func Take(path string) (*Dir, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("recording: %w", err)
	}
	d := &Dir{Path: path, abs: abs}
	for range 100 {
		if err = d.take(); !errors.Is(err, os.ErrNotExist) && !errors.Is(err, os.ErrExist) {
			break
		} // else who had it may have removed it meanwhile
	}
	switch {
	case err == nil:
		return d, nil
	case !errors.Is(err, statedir.ErrLocked):
		return nil, fmt.Errorf("recording in %s: %w", path, err)
	}
	if pid := Holder(path); pid != 0 {
		return nil, fmt.Errorf("recording in %s: %w (process %d)", path, ErrInUse, pid)
	}
	return nil, fmt.Errorf("recording in %s: %w", path, ErrInUse)
}

func (d *Dir) take() (err error) {
	d.made = nil
	for at := d.lockFile(); ; at = filepath.Dir(at) {
		if _, err := os.Lstat(at); !errors.Is(err, os.ErrNotExist) {
			break
		}
		d.made = append(d.made, at)
	}
	if err := d.makeDir(); err != nil {
		return err
	}
	d.Lock, err = statedir.TryLock(d.lockFile(), unix.O_RDWR|unix.O_CREAT)
	if errors.Is(err, statedir.ErrLocked) {
		if _, gone := os.Lstat(d.lockFile()); gone != nil {
			return gone
		}
	}
	return err
}

// makeDir makes the directory, which only its owner may look into.
func (d *Dir) makeDir() error {
	if root := statedir.Root(); d.abs == root || strings.HasPrefix(d.abs, root+"/") {
		return statedir.Make(d.abs)
	}
	if err := os.MkdirAll(d.abs, 0o700); err != nil {
		return err
	}
	info, err := os.Stat(d.abs)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is no directory", d.Path)
	}
	return err
}

func (d *Dir) lockFile() string { return filepath.Join(d.abs, statedir.LockFile) }

// Try says why nothing can be made in the directory.
func (d *Dir) Try() error {
	trial, err := os.MkdirTemp(d.abs, ".radar-trial-")
	if err != nil {
		return fmt.Errorf("recording in %s: %w", d.Path, err)
	}
	return os.Remove(trial)
}

// Stands reports whether the directory is still the one that was claimed.
func (d *Dir) Stands() bool { return statedir.IsFile(d.Lock, d.lockFile()) }

// Release gives the right back. Where nothing but the lock is there, and radar's own text, it goes, with the directories
// that were made for it.
// A lock that was there before is one that a recorder has left, which was killed: its directory goes, too.
func (d *Dir) Release() {
	if d.Stands() && HoldsNothing(d.Path) {
		gone := d.made
		if len(gone) == 0 {
			gone = []string{d.lockFile(), d.abs}
		}
		readme.Remove(d.abs)
		for _, path := range gone {
			if os.Remove(path) != nil { // somebody has put a file there, or claims it
				break
			}
		}
	}
	unix.Close(d.Lock)
}

// HoldsNothing reports whether a directory has a lock and nothing else. The text that radar puts beside a recording is
// nothing: it stays where all that was kept has gone.
func HoldsNothing(path string) bool {
	list, err := os.ReadDir(path)
	list = slices.DeleteFunc(list, func(e os.DirEntry) bool { return e.Name() == readme.Name })
	return err == nil && len(list) == 1 && list[0].Name() == statedir.LockFile
}

// Holder is the process that records in a directory; 0: none, as far as can be seen.
func Holder(path string) int {
	fd, err := statedir.Open(filepath.Join(path, statedir.LockFile), unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return 0
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	if pids, err := host.LockHolders(f); err == nil && len(pids) > 0 {
		return pids[0]
	}
	return 0
}
