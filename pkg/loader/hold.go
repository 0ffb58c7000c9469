// SPDX-License-Identifier: Apache-2.0

package loader

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/host"
	"github.com/vnetradar/radar/pkg/host/statedir"
)

// Pins belong to the machine, state directories do not: whoever uses another one sees pins
// that nobody describes, as a killed attach leaves them. So the agent of a domain, and who
// creates one, hold a shared lock of the directory of pins. The kernel gives it back when
// they end, however they do.

// Kept is a domain whose pins a process may hold.
type Kept struct {
	Pins  string // its directory of pins
	State string // its state directory
	Title string // such as: domain "red"
	// Detach is the command that detaches it, such as «detach ‹domain› red».
	Detach string
}

// Hold tells every radar on the machine that a living process keeps the domain, until the
// file is closed, which is the caller's to do.
func (k Kept) Hold() (*os.File, error) {
	dir, err := k.open()
	if err != nil {
		return nil, fmt.Errorf("hold pins: %w", err)
	}
	// Only HeldElsewhere's probe takes it exclusively, so this wait is short.
	for err = unix.EINTR; errors.Is(err, unix.EINTR); {
		err = unix.Flock(int(dir.Fd()), unix.LOCK_SH)
	}
	if err != nil {
		dir.Close()
		return nil, fmt.Errorf("hold pins: %w", err)
	}
	return dir, nil
}

func (k Kept) open() (*os.File, error) {
	fd, err := unix.Open(k.Pins, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: k.Pins, Err: err}
	}
	return os.NewFile(uintptr(fd), k.Pins), nil
}

// HeldElsewhere returns an error, which says what to do, if a living process keeps the domain
// by another state directory than ours. One whose state was removed has nothing to lose.
func (k Kept) HeldElsewhere() error {
	dir, err := k.open()
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		return nil // none, or nothing that we have made: whoever removes it looks at that
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	err = unix.Flock(int(dir.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		return nil
	}
	if !errors.Is(err, unix.EWOULDBLOCK) {
		return fmt.Errorf("look who keeps %s: %w", k.Title, err)
	}
	pids, err := host.LockHolders(dir)
	if err != nil {
		return fmt.Errorf("look who keeps %s: %w", k.Title, err)
	}
	if len(pids) == 0 {
		// It may have ended meanwhile; else it has another PID namespace.
		if unix.Flock(int(dir.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			return nil
		}
		return fmt.Errorf("%s is kept by a process that cannot be seen from here, such as one in another container: detach it there", k.Title)
	}
	for _, pid := range pids {
		if pid == os.Getpid() {
			continue
		}
		state, found := k.stateOf(pid)
		switch {
		case !found:
			return fmt.Errorf("%s is kept by process %d, with a state directory that is not known: detach it as that process was started, or end the process first", k.Title, pid)
		case found && state != "":
			return &Elsewhere{Kept: k, PID: pid, Root: state}
		}
	}
	return nil
}

// Elsewhere says that a living process keeps a domain by another state directory than ours.
type Elsewhere struct {
	Kept
	PID  int
	Root string // that process's
}

// Error says how to detach the domain.
func (e *Elsewhere) Error() string {
	return fmt.Sprintf("%s is kept by process %d, which has the state directory %s and not %s (detach it with: RADAR_STATE_DIR=%s %s)",
		e.Title, e.PID, e.Root, statedir.Root(), e.Root, e.Detach)
}

// Ask says how to ask about it: whoever asks has no wish to detach it.
func (e *Elsewhere) Ask() string {
	return fmt.Sprintf("%s is attached with another state directory: process %d keeps it in %s, this one looks in %s (ask with RADAR_STATE_DIR=%s, which sudo passes on only behind its own name: sudo RADAR_STATE_DIR=%s ...)",
		e.Title, e.PID, e.Root, statedir.Root(), e.Root, e.Root)
}

// stateOf returns the state directory by which that process keeps the domain, "" if it is
// ours, or was removed, or the process has ended. found: that is known.
func (k Kept) stateOf(pid int) (dir string, found bool) {
	proc := fmt.Sprintf("/proc/%d", pid)
	fds, err := os.ReadDir(filepath.Join(proc, "fd"))
	if err != nil {
		return "", errors.Is(err, fs.ErrNotExist)
	}
	// None: the process was killed, and gives back what it holds.
	found = len(fds) == 0
	for _, e := range fds {
		file, err := os.Readlink(filepath.Join(proc, "fd", e.Name()))
		base := strings.TrimSuffix(filepath.Base(file), " (deleted)")
		if err != nil || base != "agent.lock" && base != "lock" || filepath.Base(filepath.Dir(file)) != filepath.Base(k.State) {
			continue
		}
		found = true
		// As the process sees it: it may have another mount namespace.
		theirs, err := os.Stat(filepath.Join(proc, "root", filepath.Dir(file)))
		if err != nil || strings.HasSuffix(file, " (deleted)") {
			continue
		}
		if ours, err := os.Stat(k.State); err == nil && os.SameFile(ours, theirs) {
			continue
		}
		up, err := filepath.Rel(k.State, statedir.Root())
		return filepath.Join(filepath.Dir(file), up), err == nil
	}
	return "", found
}
