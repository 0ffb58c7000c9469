// SPDX-License-Identifier: Apache-2.0

package resident

import (
	"bytes"
	"fmt"
	"os"
	"time"
)

// Cost is what a process has taken of the machine since it started.
type Cost struct {
	CPU    time.Duration // of all cores together
	Age    time.Duration
	Memory uint64 // bytes of its own; what it has mapped of the ring is everyone's
}

// Share is how much of one core that was, 0 to as many as there are cores.
func (c *Cost) Share() float64 {
	if c.Age <= 0 {
		return 0
	}
	return c.CPU.Seconds() / c.Age.Seconds()
}

// Cost returns what the process has taken.
func (p Process) Cost() (*Cost, error) {
	cpu, age, err := p.CPUTime()
	if err != nil {
		return nil, fmt.Errorf("read what process %d has taken: %w", p.PID, err)
	}
	memory, err := p.ownMemory()
	if err != nil {
		return nil, err
	}
	return &Cost{CPU: cpu, Age: age, Memory: memory}, nil
}

// ownMemory is RssAnon of /proc/PID/status, in bytes.
func (p Process) ownMemory() (uint64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID))
	if err != nil {
		return 0, fmt.Errorf("read the memory of process %d: %w", p.PID, err)
	}
	for line := range bytes.Lines(b) {
		var kib uint64
		if n, _ := fmt.Sscanf(string(line), "RssAnon: %d kB", &kib); n == 1 {
			return kib << 10, nil
		}
	}
	return 0, fmt.Errorf("read the memory of process %d: its status file does not say RssAnon", p.PID)
}
