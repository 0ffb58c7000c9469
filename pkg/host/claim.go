// SPDX-License-Identifier: Apache-2.0

package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/google/renameio/v2"
	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/host/statedir"
)

// Claim is a role that one living process has at a time, such as being the agent of a domain. The
// process holds the lock of one file; another file, the pid file, says which process that is. The
// end of the process gives the lock back as Release does.
type Claim struct {
	Self Process

	pidFile string
	fd      int // of the lock
}

// endingTime is how long a killed process may take to give back what it holds.
const endingTime = 5 * time.Second

// NewClaim makes the calling process the one that has the role: it takes the lock and writes the
// pid file. Both lie in a directory that statedir has made; role is what errors call it. If another
// process holds the lock, that is statedir.ErrLocked.
func NewClaim(role, lock, pidFile string) (*Claim, error) {
	fd, err := statedir.TryLock(lock, unix.O_RDWR|unix.O_CREAT)
	for end := time.Now().Add(endingTime); errors.Is(err, statedir.ErrLocked) && isEnding(pidFile) && time.Now().Before(end); {
		time.Sleep(5 * time.Millisecond)
		fd, err = statedir.TryLock(lock, unix.O_RDWR|unix.O_CREAT)
	}
	if err != nil {
		return nil, fmt.Errorf("%s lock: %w", role, err)
	}
	c := &Claim{pidFile: pidFile, fd: fd}
	if c.Self, err = Self(); err == nil {
		err = c.writePidFile()
	}
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	return c, nil
}

// isEnding reports whether the process of the pid file was killed and its threads are about to
// end: its lock is free when the last of them has.
func isEnding(pidFile string) bool {
	var pid int
	b, err := os.ReadFile(pidFile)
	if _, scanned := fmt.Sscan(string(b), &pid); err != nil || scanned != nil {
		return false
	}
	_, err = Running(pid)
	return errors.Is(err, ErrZombie)
}

func (c *Claim) line() string { return fmt.Sprintf("%d %d\n", c.Self.PID, c.Self.Start) }

func (c *Claim) writePidFile() error {
	if err := renameio.WriteFile(c.pidFile, []byte(c.line()), 0o600); err != nil {
		return fmt.Errorf("write pid file: %w", err)
	}
	return nil
}

// ReadPidFile returns the process that a pid file names, which may have ended: a number alone may
// be anybody's. No file is the zero Process.
func ReadPidFile(path string) (Process, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Process{}, nil
	}
	if err != nil {
		return Process{}, fmt.Errorf("read pid file: %w", err)
	}
	var p Process
	if _, err := fmt.Sscanf(string(b), "%d %d", &p.PID, &p.Start); err != nil || p.PID <= 0 {
		return Process{}, fmt.Errorf("read pid file %s: %q is not a process number and its start time", path, b)
	}
	return p, nil
}

// FindClaim returns the process that has a role: the one that the pid file names, if it still lives and
// holds the lock. A number alone may be anybody's, and who asks sends it signals. None is not an error:
// the zero Process is returned.
func FindClaim(lock, pidFile string) (Process, error) {
	p, err := ReadPidFile(pidFile)
	if err != nil || p.PID == 0 {
		return Process{}, err
	}
	holds, err := p.Holds(lock)
	if err != nil {
		return Process{}, fmt.Errorf("look whether process %d holds %s: %w", p.PID, lock, err)
	}
	// After that: what was looked at is the process that is meant only if it is there still.
	if !holds || !p.Alive() {
		return Process{}, nil
	}
	return p, nil
}

// Unname removes the pid file if it is still ours: who has the role next may have written its own.
func (c *Claim) Unname() {
	if b, err := os.ReadFile(c.pidFile); err == nil && string(b) == c.line() {
		_ = os.Remove(c.pidFile)
	}
}

// Release gives the role back.
func (c *Claim) Release() {
	c.Unname()
	unix.Close(c.fd)
}
