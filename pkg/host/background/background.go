// SPDX-License-Identifier: Apache-2.0

// Package background starts radar's own processes in the background, and lets them say that they work.
package background

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/host"
	"github.com/vnetradar/radar/pkg/host/statedir"
)

// SelfPath is the running program, even if its file has been replaced.
const SelfPath = "/proc/self/exe"

// FlagReadyFD is the hidden flag of what runs in the background: the descriptor to
// say over that it works.
const FlagReadyFD = "ready-fd"

// Domain is the argument that says which domain the process is for.
const Domain = "--" + "domain"

// Started is a background process that works.
type Started struct {
	PID int    `json:"pid"`
	Log string `json:"log,omitempty"` // "": it was there before
}

// Start runs radar in the background with these arguments, which make it an agent, and waits until
// that works. find returns the agent that there is: if another process became it meanwhile, that one is
// returned. What it prints goes into the log.
func Start(logPath string, find func() (host.Process, error), args ...string) (Started, error) {
	log, err := openLog(logPath)
	if err != nil {
		return Started{}, err
	}
	defer log.Close()
	r, w, err := os.Pipe()
	if err != nil {
		return Started{}, fmt.Errorf("create pipe to the agent: %w", err)
	}
	defer r.Close()
	child := command(log, w, args)
	err = child.Start()
	w.Close()
	if err != nil {
		return Started{}, fmt.Errorf("start agent: %w", err)
	}
	if err := AwaitReady(r); err != nil {
		// It said that it ends, or has ended: this only collects it.
		waitErr := child.Wait()
		if running, findErr := find(); findErr == nil && running.PID != 0 {
			return Started{PID: running.PID}, nil
		}
		if errors.Is(err, io.ErrUnexpectedEOF) && waitErr != nil {
			err = fmt.Errorf("%w (%w)", err, waitErr)
		}
		return Started{}, withLog(err, logPath)
	}
	started := Started{PID: child.Process.Pid, Log: logPath}
	go func() { _ = child.Wait() }() // it may end before this process does
	return started, nil
}

// logTail is how much of a failed agent's log is shown, in bytes: the log goes
// with the domain.
const logTail = 4096

// withLog adds the end of the agent's log to an error for which the agent itself
// gave no reason.
func withLog(err error, path string) error {
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("start agent: %w", err)
	}
	b, readErr := os.ReadFile(path)
	if readErr != nil || len(b) == 0 {
		return fmt.Errorf("start agent: %w", err)
	}
	return fmt.Errorf("start agent: %w; the end of its log:\n%s", err, bytes.TrimSpace(b[max(0, len(b)-logTail):]))
}

// command is the agent's process: a session of its own, nothing of the
// terminal, and descriptor 3 to say that it works.
func command(log, ready *os.File, args []string) *exec.Cmd {
	child := exec.Command(SelfPath, append(args, "--"+FlagReadyFD, "3")...)
	child.Args[0] = filepath.Base(os.Args[0])
	child.Dir = "/"
	child.Stdout, child.Stderr = log, log
	child.ExtraFiles = []*os.File{ready}
	child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return child
}

// openLog opens the agent's log for appending. A link that somebody put in its
// place is refused.
func openLog(path string) (*os.File, error) {
	fd, err := statedir.Open(path, unix.O_WRONLY|unix.O_CREAT|unix.O_APPEND)
	if err != nil {
		return nil, fmt.Errorf("log: %w", err)
	}
	return os.NewFile(uintptr(fd), path), nil
}
