// SPDX-License-Identifier: Apache-2.0

package fidelity

import (
	"os"
	"strconv"
	"strings"
	"time"
)

// Machine is what can make an emulation late: whether processors were there when they were needed.
type Machine struct {
	// Waiting is the share of time in which some task waited for a processor (/proc/pressure/cpu); absent: the
	// kernel does not tell.
	Waiting *float64 `json:"waiting,omitempty"`
	Steal   float64  `json:"steal"`    // share of processor time that a hypervisor took
	Squeeze uint64   `json:"squeezed"` // how often the kernel left packets for later (softnet_stat)
	// OverNs is how long that was measured. 0: Waiting is of the last minute, the others since boot.
	OverNs int64 `json:"over_ns"`
}

// counters are what the kernel counts since boot.
type counters struct {
	at      time.Time
	waiting float64 // us
	known   bool
	minute  float64 // share
	steal   float64
	all     float64
	squeeze uint64
}

func readCounters(now time.Time) (c counters) {
	c.at = now
	if b, err := os.ReadFile("/proc/pressure/cpu"); err == nil {
		line, _, _ := strings.Cut(string(b), "\n")
		for _, field := range strings.Fields(line) {
			name, value, _ := strings.Cut(field, "=")
			v, err := strconv.ParseFloat(value, 64)
			switch {
			case name == "avg60" && err == nil:
				c.minute, c.known = v/100, true
			case name == "total" && err == nil:
				c.waiting = v
			}
		}
	}
	if b, err := os.ReadFile("/proc/stat"); err == nil {
		line, _, _ := strings.Cut(string(b), "\n")
		for i, field := range strings.Fields(line) {
			v, err := strconv.ParseFloat(field, 64)
			if err != nil || i > 8 { // guests are in user already
				continue
			}
			c.all += v
			if i == 8 {
				c.steal = v
			}
		}
	}
	if b, err := os.ReadFile("/proc/net/softnet_stat"); err == nil {
		for line := range strings.Lines(string(b)) {
			if fields := strings.Fields(line); len(fields) > 2 {
				v, _ := strconv.ParseUint(fields[2], 16, 64)
				c.squeeze += v
			}
		}
	}
	return c
}

// Watch begins to measure a machine.
type Watch struct{ from counters }

// NewWatch begins now.
func NewWatch() *Watch { return &Watch{readCounters(time.Now())} }

// Since is what happened since then.
func (w *Watch) Since() Machine {
	to := readCounters(time.Now())
	over := to.at.Sub(w.from.at)
	m := Machine{Squeeze: to.squeeze - w.from.squeeze, OverNs: int64(over)}
	if to.known && over > 0 {
		share := (to.waiting - w.from.waiting) / float64(over.Microseconds())
		m.Waiting = &share
	}
	if all := to.all - w.from.all; all > 0 {
		m.Steal = (to.steal - w.from.steal) / all
	}
	return m
}

// MachineNow is what the kernel tells without waiting.
func MachineNow() Machine {
	c := readCounters(time.Now())
	m := Machine{Squeeze: c.squeeze}
	if c.known {
		m.Waiting = &c.minute
	}
	if c.all > 0 {
		m.Steal = c.steal / c.all
	}
	return m
}
