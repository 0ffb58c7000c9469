// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"time"

	"github.com/google/renameio/v2"
	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/domain"
	"github.com/vnetradar/radar/pkg/statedir"
)

// HandOver is the signal that asks an agent to write its snapshot and to end
// without detaching: whoever sends it goes on from there.
const HandOver = unix.SIGUSR2

// Process is one process, told apart from a later one with the same number by
// its start time. The zero value stands for none.
type Process struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"-"` // clock ticks since boot, of /proc/PID/stat
}

// Self is the calling process.
func Self() (Process, error) {
	pid := os.Getpid()
	start, err := startTime(pid)
	if err != nil {
		return Process{}, err
	}
	return Process{PID: pid, Start: start}, nil
}

// Find returns the agent of the domain that its pid file names, if that process still lives
// and holds the agent lock: a number alone may be anybody's, and who asks sends it signals.
// None is not an error: the zero Process is returned.
func Find(name string) (Process, error) {
	if err := statedir.CheckInRoot(domain.Dir(name)); err != nil {
		return Process{}, err
	}
	b, err := os.ReadFile(domain.File(name, "agent.pid"))
	if errors.Is(err, fs.ErrNotExist) {
		return Process{}, nil
	}
	if err != nil {
		return Process{}, fmt.Errorf("read pid file: %w", err)
	}
	var p Process
	if _, err := fmt.Sscanf(string(b), "%d %d", &p.PID, &p.Start); err != nil || p.PID <= 0 {
		return Process{}, fmt.Errorf("read pid file %s: %q is not a process number and its start time", domain.File(name, "agent.pid"), b)
	}
	holds, err := p.holds(domain.File(name, lockFile))
	if err != nil {
		return Process{}, fmt.Errorf("look whether process %d is the agent of domain %q: %w", p.PID, name, err)
	}
	// After that: what was looked at is the process that is meant only if it is there still.
	if !holds || !p.Alive() {
		return Process{}, nil
	}
	return p, nil
}

// holds reports whether the process has the file at path open and holds its lock. A process
// that has ended holds none.
func (p Process) holds(path string) (bool, error) {
	dir := fmt.Sprintf("/proc/%d/", p.PID)
	fds, err := os.ReadDir(dir + "fd")
	if hasEnded(err) {
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
		if err != nil && !hasEnded(err) {
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

// hasEnded reports whether err, of a file in /proc, says that the process has ended.
func hasEnded(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH)
}

// Alive says whether the process still runs.
func (p Process) Alive() bool {
	if p.PID <= 0 {
		return false
	}
	start, err := startTime(p.PID)
	return err == nil && start == p.Start
}

// Stop asks the process to hand over and waits for its end; after patience it
// is killed, which harms neither traffic nor what the ring holds. The process
// is held by a descriptor, so that a recycled number is never signalled.
func (p Process) Stop(ctx context.Context, patience time.Duration) error {
	fd, err := unix.PidfdOpen(p.PID, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open agent process %d: %w", p.PID, err)
	}
	defer unix.Close(fd)
	if !p.Alive() {
		return nil
	}
	for _, sig := range []unix.Signal{HandOver, unix.SIGKILL} {
		if err := unix.PidfdSendSignal(fd, sig, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("signal agent process %d: %w", p.PID, err)
		}
		ended, err := waitPidfd(ctx, fd, patience)
		if err != nil {
			return fmt.Errorf("wait for agent process %d: %w", p.PID, err)
		}
		if ended {
			return nil
		}
	}
	return fmt.Errorf("agent process %d does not end", p.PID)
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

var errZombie = errors.New("it has ended")

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

// startTime is when a process began, in ticks since boot. A zombie counts as ended.
func startTime(pid int) (uint64, error) {
	s, err := readStat(pid)
	if err != nil {
		return 0, err
	}
	if state := s.fields[0][0]; state == 'Z' || state == 'X' {
		return 0, fmt.Errorf("process %d: %w", pid, errZombie)
	}
	return s.number(statStart)
}

// ErrRunning says that the domain has a living agent.
var ErrRunning = errors.New("the domain's agent is running")

// claim is the role of being a domain's agent.
type claim struct {
	name string
	self Process
	fd   int // of the lock
}

// lockFile is what the agent of a domain holds the lock of, in the state directory.
const lockFile = "agent.lock"

// newClaim makes the calling process the domain's agent: it takes the agent lock
// and writes the pid file. It returns ErrRunning if another process holds the
// lock. The domain's state directory must exist. The end of the process gives the
// lock back as release does.
func newClaim(name string) (*claim, error) {
	path := domain.File(name, lockFile)
	fd, err := statedir.Open(path, unix.O_RDWR|unix.O_CREAT)
	if err != nil {
		return nil, fmt.Errorf("agent lock: %w", err)
	}
	c := &claim{name: name, fd: fd}
	err = unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB)
	for end := time.Now().Add(endingTime); errors.Is(err, unix.EWOULDBLOCK) && ending(name) && time.Now().Before(end); {
		time.Sleep(5 * time.Millisecond)
		err = unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB)
	}
	if err != nil {
		unix.Close(fd)
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, ErrRunning
		}
		return nil, fmt.Errorf("take agent lock: %w", err)
	}
	if c.self, err = Self(); err == nil {
		err = c.writePidFile()
	}
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	return c, nil
}

// endingTime is how long a killed agent may take to give back what it holds.
const endingTime = 5 * time.Second

// ending says whether the agent of the pid file was killed and its threads are about to
// end: its lock is free when the last of them has.
func ending(name string) bool {
	var pid int
	b, err := os.ReadFile(domain.File(name, "agent.pid"))
	if _, scanned := fmt.Sscan(string(b), &pid); err != nil || scanned != nil {
		return false
	}
	_, err = startTime(pid)
	return errors.Is(err, errZombie)
}

func (c *claim) line() string { return fmt.Sprintf("%d %d\n", c.self.PID, c.self.Start) }

func (c *claim) writePidFile() error {
	if err := renameio.WriteFile(domain.File(c.name, "agent.pid"), []byte(c.line()), 0o600); err != nil {
		return fmt.Errorf("write pid file: %w", err)
	}
	return nil
}

// unname removes the pid file if it is still ours: the domain may have been
// detached and attached again meanwhile.
func (c *claim) unname() {
	path := domain.File(c.name, "agent.pid")
	if b, err := os.ReadFile(path); err == nil && string(b) == c.line() {
		_ = os.Remove(path)
	}
}

// release gives the role back.
func (c *claim) release() {
	c.unname()
	unix.Close(c.fd)
}
