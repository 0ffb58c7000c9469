// SPDX-License-Identifier: Apache-2.0

package store

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/telemetry/collect"
)

// Runs says whether the process that described what a domain has collected still collects. info is what Load has
// returned.
func Runs(name string, info *collect.Info) (bool, error) {
	// The lock is asked for only where a process is that may have it: one that begins meanwhile
	// must not find it taken.
	if info.PID <= 0 || errors.Is(unix.Kill(info.PID, 0), unix.ESRCH) {
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
