// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// How long processes have to end by themselves, and to be gone when killed.
const (
	termGrace = time.Second
	killGrace = 5 * time.Second
	pollEvery = 10 * time.Millisecond
)

// processesIn lists the processes of which every thread is in one of the
// namespaces. A process that only visits one with a thread, as radar itself
// does, is none of the lab's.
func processesIn(inums map[uint32]bool) ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var pids []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err == nil && pid != os.Getpid() && isInside(pid, inums) {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// isInside reports whether all threads of the process are in the namespaces. A
// process that ends meanwhile is not.
func isInside(pid int, inums map[uint32]bool) bool {
	inum, err := netnsInum(fmt.Sprintf("/proc/%d/ns/net", pid))
	if err != nil || !inums[inum] {
		return false
	}
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/ns/net", pid))
	if err != nil || len(tasks) == 0 {
		return false
	}
	for _, task := range tasks {
		// A thread that has just ended says nothing about the others.
		if inum, err := netnsInum(task); err == nil && !inums[inum] {
			return false
		}
	}
	return true
}

// signalInside sends sig to pid if it still is inside. The process is held by
// a pidfd meanwhile: a number that has gone to another process is not hit.
func signalInside(pid int, inums map[uint32]bool, sig unix.Signal) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open process %d: %w", pid, err)
	}
	defer unix.Close(fd)
	if !isInside(pid, inums) {
		return nil
	}
	if err := unix.PidfdSendSignal(fd, sig, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("signal process %d: %w", pid, err)
	}
	return nil
}

// killInside ends all processes in the namespaces: SIGTERM first, SIGKILL for
// those left after a second. The caller holds the namespaces open, so that
// their inode numbers stay theirs.
func killInside(inums map[uint32]bool) error {
	if len(inums) == 0 {
		return nil
	}
	left, err := signalUntilGone(inums, unix.SIGTERM, termGrace)
	if err == nil && len(left) > 0 {
		left, err = signalUntilGone(inums, unix.SIGKILL, killGrace)
	}
	if err != nil {
		return err
	}
	if len(left) > 0 {
		return fmt.Errorf("processes %v do not end", left)
	}
	return nil
}

// signalUntilGone signals every process inside once, also those that appear
// meanwhile, and returns those that are left when the time is over.
func signalUntilGone(inums map[uint32]bool, sig unix.Signal, grace time.Duration) ([]int, error) {
	deadline := time.Now().Add(grace)
	signalled := make(map[int]bool)
	for {
		pids, err := processesIn(inums)
		if err != nil || len(pids) == 0 {
			return nil, err
		}
		for _, pid := range pids {
			if signalled[pid] {
				continue
			}
			signalled[pid] = true
			if err := signalInside(pid, inums, sig); err != nil {
				return nil, err
			}
		}
		if time.Now().After(deadline) {
			return pids, nil
		}
		time.Sleep(pollEvery)
	}
}
