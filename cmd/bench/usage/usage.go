// SPDX-License-Identifier: Apache-2.0

// Package usage says what processes, BPF programs and the whole machine have taken of CPUs.
package usage

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/cilium/ebpf"
)

// CPUTime is what all threads of a process took so far.
func CPUTime(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("ask for the CPU time of process %d: %w", pid, err)
	}
	return parseStat(string(text))
}

// userHz is the unit of /proc/PID/stat, on all that radar runs on.
const userHz = 100

// parseStat finds user and system time in the text of /proc/PID/stat. The command's name,
// in brackets, may have anything in it.
func parseStat(text string) (time.Duration, error) {
	const utime, stime = 11, 12 // behind the name
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(fields) <= stime {
		return 0, fmt.Errorf("too few fields in %q", text)
	}
	var sum time.Duration
	for _, f := range []string{fields[utime], fields[stime]} {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("read CPU time: %w", err)
		}
		sum += time.Duration(n) * time.Second / userHz
	}
	return sum, nil
}

// RunTime is what the threads of a process ran so far, to the ns: what rests takes less than the ticks of
// /proc/PID/stat show.
func RunTime(pid int) (sum time.Duration, err error) {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil || len(threads) == 0 {
		return 0, fmt.Errorf("process %d has no threads: %w", pid, err)
	}
	for _, file := range threads {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		ran, _, _ := strings.Cut(string(text), " ")
		ns, err := strconv.ParseInt(ran, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("read %s: %w", file, err)
		}
		sum += time.Duration(ns)
	}
	return sum, nil
}

// Programs are the statistics of all programs that are loaded.
func Programs() (map[ebpf.ProgramID]*ebpf.ProgramStats, error) {
	all := make(map[ebpf.ProgramID]*ebpf.ProgramStats)
	for id := ebpf.ProgramID(0); ; {
		next, err := ebpf.ProgramGetNextID(id)
		if errors.Is(err, os.ErrNotExist) {
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("list programs: %w", err)
		}
		id = next
		p, err := ebpf.NewProgramFromID(id)
		if err != nil {
			continue // it has gone
		}
		s, err := p.Stats()
		p.Close()
		if err != nil {
			return nil, fmt.Errorf("statistics of a program: %w", err)
		}
		all[id] = s
	}
}

// CPUTimes are those of all cores since the machine started, s.
type CPUTimes struct {
	at            time.Time
	busy, softirq float64
}

// Busy is what was not idle since before, in percent of one core; Softirq is what of that was spent in softirqs.
func (c CPUTimes) Busy(before CPUTimes) float64    { return c.share(before, c.busy-before.busy) }
func (c CPUTimes) Softirq(before CPUTimes) float64 { return c.share(before, c.softirq-before.softirq) }

// share is seconds since before, in percent of one core.
func (c CPUTimes) share(before CPUTimes, seconds float64) float64 {
	return 100 * seconds / c.at.Sub(before.at).Seconds()
}

// ReadCPU reads the times of now.
func ReadCPU() (CPUTimes, error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return CPUTimes{}, err
	}
	return parseCPU(string(text))
}

// parseCPU reads the line of all cores in /proc/stat.
func parseCPU(text string) (c CPUTimes, err error) {
	const user, nice, system, irq, softirq, steal = 1, 2, 3, 6, 7, 8
	fields := strings.Fields(text)
	if len(fields) <= steal || fields[0] != "cpu" {
		return c, fmt.Errorf("no times of all cores in %.40q", text)
	}
	c.at = time.Now()
	for _, i := range []int{user, nice, system, irq, softirq, steal} {
		n, err := strconv.ParseFloat(fields[i], 64)
		if err != nil {
			return c, fmt.Errorf("read CPU times: %w", err)
		}
		c.busy += n / userHz
		if i == softirq {
			c.softirq = n / userHz
		}
	}
	return c, nil
}
