// SPDX-License-Identifier: Apache-2.0

package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/host/statedir"
)

// Process is one process. Its start time distinguishes it from a later one with the same
// number. The zero value stands for none.
type Process struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // clock ticks since boot, of /proc/PID/stat
}

// Self is the calling process.
func Self() (Process, error) { return Running(os.Getpid()) }

// Running is the process that has that number now. A zombie has ended: errors.Is(err, ErrZombie).
func Running(pid int) (Process, error) {
	s, err := readStat(pid)
	if err != nil {
		return Process{}, err
	}
	if state := s.fields[0][0]; state == 'Z' || state == 'X' {
		return Process{}, fmt.Errorf("process %d: %w", pid, ErrZombie)
	}
	start, err := s.number(statStart)
	return Process{PID: pid, Start: start}, err
}

// Alive reports whether the process still runs.
func (p Process) Alive() bool {
	if p.PID <= 0 {
		return false
	}
	now, err := Running(p.PID)
	return err == nil && now == p
}

// Holds reports whether the process has the file at path open and holds its lock (flock). A
// process that has ended holds none. Ask Alive afterwards: what was looked at is the process that
// is meant only if it is there still.
func (p Process) Holds(path string) (bool, error) {
	dir := fmt.Sprintf("/proc/%d/", p.PID)
	fds, err := os.ReadDir(dir + "fd")
	if HasEnded(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	for _, e := range fds {
		fd, err := strconv.Atoi(e.Name())
		if err != nil || !statedir.IsOpenFile(dir+"fd/"+e.Name(), path) {
			continue
		}
		// The kernel names there the locks that were taken by this descriptor, no others'.
		info, err := os.ReadFile(fmt.Sprintf("%sfdinfo/%d", dir, fd))
		if err != nil && !HasEnded(err) {
			return false, err
		}
		for line := range bytes.Lines(info) {
			if bytes.HasPrefix(line, []byte("lock:")) && bytes.Contains(line, []byte("FLOCK")) {
				return true, nil
			}
		}
	}
	return false, nil
}

// HasEnded reports whether err, of a file in /proc, says that the process has ended.
func HasEnded(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH)
}

// End sends the signals one after the other, each when the process has not ended within patience
// of the one before. It is an error if the process outlives them all; role is what errors call it.
// The process is held by a descriptor meanwhile, so that a recycled number is never signalled.
func (p Process) End(ctx context.Context, role string, patience time.Duration, signals ...unix.Signal) error {
	fd, err := unix.PidfdOpen(p.PID, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open %s process %d: %w", role, p.PID, err)
	}
	defer unix.Close(fd)
	if !p.Alive() {
		return nil
	}
	for _, sig := range signals {
		if err := unix.PidfdSendSignal(fd, sig, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("signal %s process %d: %w", role, p.PID, err)
		}
		ended, err := waitPidfd(ctx, fd, patience)
		if err != nil {
			return fmt.Errorf("wait for %s process %d: %w", role, p.PID, err)
		}
		if ended {
			return nil
		}
	}
	return fmt.Errorf("%s process %d does not end", role, p.PID)
}

// waitPidfd waits until the process of fd has ended, at most patience.
func waitPidfd(ctx context.Context, fd int, patience time.Duration) (bool, error) {
	const step = 50 * time.Millisecond
	deadline := time.Now().Add(patience)
	for last := false; !last; {
		last = time.Now().After(deadline) // it may have ended while this process had no CPU
		if err := ctx.Err(); err != nil {
			return false, err
		}
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(step.Milliseconds()))
		if err != nil && !errors.Is(err, unix.EINTR) {
			return false, err
		}
		if n > 0 {
			return true, nil
		}
	}
	return false, nil
}

// ErrZombie says that a process has ended, and that its parent has not waited for it.
var ErrZombie = errors.New("it has ended")

// ticksPerSecond is USER_HZ, in which /proc counts: a constant of the kernel's interface.
const ticksPerSecond = 100

// CPUTime is what all threads of the process have taken, of all cores together, and how long ago
// it started.
func (p Process) CPUTime() (cpu, age time.Duration, err error) {
	s, err := readStat(p.PID)
	if err != nil {
		return 0, 0, err
	}
	var numbers [3]uint64
	for i, field := range []int{statUser, statKern, statStart} {
		if numbers[i], err = s.number(field); err != nil {
			return 0, 0, err
		}
	}
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		return 0, 0, fmt.Errorf("read the time since boot: %w", err)
	}
	ticks := func(n uint64) time.Duration { return time.Duration(n) * (time.Second / ticksPerSecond) }
	return ticks(numbers[0] + numbers[1]), time.Duration(now.Nano()) - ticks(numbers[2]), nil
}

// Fields of /proc/PID/stat, see proc_pid_stat(5); they are numbered from 1.
const (
	statState = 3
	statUser  = 14
	statKern  = 15
	statStart = 22
)

// stat is one process's /proc/PID/stat.
type stat struct{ fields [][]byte }

func readStat(pid int) (*stat, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil, err
	}
	// The name in brackets may hold anything: fields count from its end.
	_, rest, ok := bytes.Cut(b[bytes.LastIndexByte(b, ')')+1:], []byte(" "))
	s := &stat{bytes.Fields(rest)}
	if !ok || len(s.fields) <= statStart-statState {
		return nil, fmt.Errorf("read process %d: unexpected format of its stat file", pid)
	}
	return s, nil
}

func (s *stat) number(field int) (uint64, error) {
	return strconv.ParseUint(string(s.fields[field-statState]), 10, 64)
}
