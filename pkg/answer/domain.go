// SPDX-License-Identifier: Apache-2.0

package answer

import (
	"errors"
	"fmt"
	"strings"

	"github.com/vnetradar/radar/pkg/system/resident"
	"github.com/vnetradar/radar/pkg/vnet/agent"
	"github.com/vnetradar/radar/pkg/vnet/datapath"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// Lease is how long sources mark packets.
type Lease struct {
	Ends   bool   `json:"ends"`              // false: sources go on without an agent
	Valid  bool   `json:"valid"`             // sources mark packets
	LeftNs *int64 `json:"left_ns,omitempty"` // absent if it never ends
}

// LeaseOf reads a domain's lease.
func LeaseOf(h *datapath.Handle) Lease {
	left, ends := h.Lease().Left()
	l := Lease{Ends: ends, Valid: !ends || left > 0}
	if ends {
		ns := max(0, int64(left))
		l.LeftNs = &ns
	}
	return l
}

// DomainNotes say what every answer lacks that a domain gives now: what is not recorded because no agent
// runs, what the agent cannot do, and which packets could not be measured.
func DomainNotes(name string) (notes []Note) {
	err := withHandle(name, func(h *datapath.Handle) error {
		process, err := agent.Find(h.Domain.Name)
		if err != nil {
			return err
		}
		if process.PID == 0 {
			notes = append(notes, NoAgent{h.Domain.Name, LeaseOf(h)})
		} else {
			list, err := process.Troubles()
			if err != nil {
				return err
			}
			notes = append(notes, TroubleNotes(h.Domain.Name, list)...)
		}
		counters, err := h.Counters()
		if err != nil {
			return fmt.Errorf("read counters: %w", err)
		}
		notes = append(notes, NotMeasuredNotes(counters)...)
		return nil
	})
	return appendWarning(notes, err)
}

// appendWarning appends a Warning of an error, if it is one. That a domain was detached meanwhile is none.
func appendWarning(notes []Note, err error) []Note {
	if err == nil || errors.Is(err, domain.ErrNotAttached) {
		return notes
	}
	return append(notes, Warning{err})
}

// TroubleNotes say what a domain's agent cannot do. All that the same full disk is the cause of is one Note.
func TroubleNotes(name string, list []resident.Trouble) (notes []Note) {
	var full []resident.Trouble
	for _, t := range list {
		if t.Full {
			full = append(full, t)
			continue
		}
		notes = append(notes, AgentFails{name, t})
	}
	if len(full) > 0 {
		notes = append(notes, DiskFull{name, full})
	}
	return notes
}

const notMeasured = "not_measured_" // begins the names of counters

// The reasons not to measure that are a Note only where nothing matches: what the user asked for (Watch,
// IPv6), and what NoAgent explains (Leaseless).
const (
	Watch     = "watch"
	IPv6      = "ipv6"
	Leaseless = "lease"
)

// NotMeantReasons are those of NotMeant.
var NotMeantReasons = []string{Watch, IPv6, Leaseless}

// unmeant are reasons not to measure that NotMeasured leaves out: NotMeantReasons, and discovery between IPv6
// neighbours, which goes on for ever.
var unmeant = map[string]bool{Watch: true, IPv6: true, Leaseless: true, "neighbour": true}

// IsNoted reports whether NotMeasuredNotes count a counter's packets.
func IsNoted(c *datapath.Counter) bool {
	return c.Group == datapath.GroupNotMeasured && c.Value > 0 && !unmeant[strings.TrimPrefix(c.Name, notMeasured)]
}

// NotMeasuredNotes count what could not be measured.
func NotMeasuredNotes(counters []datapath.Counter) (notes []Note) {
	var all NotMeasured
	for _, c := range counters {
		if !IsNoted(&c) {
			continue
		}
		all.Packets += c.Value
		all.Reasons = append(all.Reasons, Reason{strings.TrimPrefix(c.Name, notMeasured), c.Value})
	}
	if all.Packets > 0 {
		notes = append(notes, all)
	}
	if n := valueOf(counters, notMeasured+"key_in_flight"); n > 0 {
		notes = append(notes, EqualUnderWay{n})
	}
	return notes
}

// valueOf is the value of a counter, 0 if there is none of that name.
func valueOf(counters []datapath.Counter, name string) uint64 {
	for _, c := range counters {
		if c.Name == name {
			return c.Value
		}
	}
	return 0
}
