// SPDX-License-Identifier: Apache-2.0

package segments

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/host"
	"github.com/vnetradar/radar/pkg/host/statedir"
)

// ErrInUse says that another process records into the directory.
var ErrInUse = errors.New("another process records there")

// Claim is the right to record in a directory, which one process has at a time.
type Claim struct {
	dir  string
	lock int      // file descriptor
	made []string // what was not there before, the deepest first
}

// NewClaim makes the directory, if need be, and takes the right to record there. ErrInUse says that another process has it.
func NewClaim(dir string) (*Claim, error) {
	path, err := filepath.Abs(filepath.Join(dir, statedir.LockFile))
	if err != nil {
		return nil, fmt.Errorf("recording: %w", err)
	}
	c := &Claim{dir: dir}
	for at := path; ; at = filepath.Dir(at) {
		if _, err := os.Lstat(at); !errors.Is(err, os.ErrNotExist) {
			break
		}
		c.made = append(c.made, at)
	}
	if err = makeDir(dir); err == nil {
		c.lock, err = statedir.TryLock(path, unix.O_RDWR|unix.O_CREAT)
	}
	switch {
	case err == nil:
		return c, nil
	case !errors.Is(err, statedir.ErrLocked):
		return nil, fmt.Errorf("recording in %s: %w", dir, err)
	}
	if pid := recorderIn(dir); pid != 0 {
		return nil, fmt.Errorf("recording in %s: %w (process %d)", dir, ErrInUse, pid)
	}
	return nil, fmt.Errorf("recording in %s: %w", dir, ErrInUse)
}

// Stands reports whether the directory is still the one that was claimed.
func (c *Claim) Stands() bool {
	return statedir.IsFile(c.lock, filepath.Join(c.dir, statedir.LockFile))
}

// Release gives the right back. What the claim has made, and nobody has used, goes.
func (c *Claim) Release() {
	if c.Stands() {
		for _, path := range c.made {
			if os.Remove(path) != nil {
				break
			}
		}
	}
	unix.Close(c.lock)
}

// recorderIn is the process that records in a directory; 0: none, as far as can be seen.
func recorderIn(dir string) int {
	f, _, err := openFile(filepath.Join(dir, statedir.LockFile))
	if err != nil {
		return 0
	}
	defer f.Close()
	if pids, err := host.LockHolders(f); err == nil && len(pids) > 0 {
		return pids[0]
	}
	return 0
}

// Unfinished is what a recording has that is not read, as it was when the recording was opened.
type Unfinished struct {
	PID   int      // of who records there; 0: nobody, as far as can be seen
	Files []string // below the directory, that are not finished
}

// findUnfinished looks for it.
func findUnfinished(dir string) (u Unfinished) {
	u.PID = recorderIn(dir)
	_ = eachUnfinished(dir, func(name string) error {
		u.Files = append(u.Files, name)
		return nil
	})
	return u
}
