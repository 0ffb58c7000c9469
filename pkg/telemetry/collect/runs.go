// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Runs says whether the process that described what a domain has collected still collects.
func (i *Info) Runs(name string) (bool, error) {
	// The lock is asked for only where a process is that may have it: one that begins meanwhile
	// must not find it taken.
	if i.PID <= 0 || errors.Is(unix.Kill(i.PID, 0), unix.ESRCH) {
		return false, nil
	}
	lock, err := take(Dir(name))
	if errors.Is(err, ErrRunning) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("reports of domain %s: %w", name, err)
	}
	return false, unix.Close(lock)
}
