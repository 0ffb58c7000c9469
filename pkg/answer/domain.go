// SPDX-License-Identifier: Apache-2.0

package answer

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/vnetradar/radar/pkg/answer/note"
	"github.com/vnetradar/radar/pkg/system/resident"
	"github.com/vnetradar/radar/pkg/vnet/agent"
	"github.com/vnetradar/radar/pkg/vnet/datapath"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// LeaseOf reads a domain's lease.
func LeaseOf(h *datapath.Handle) note.Lease {
	left, ends := h.Lease().Left()
	l := note.Lease{Ends: ends, Valid: !ends || left > 0}
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
		var troubles []resident.Trouble
		if process.PID != 0 {
			if troubles, err = process.Troubles(); err != nil {
				return err
			}
		}
		notes = KeeperNotes(h, process.PID != 0, troubles)
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
	return append(notes, note.Warning{Err: err})
}

// KeeperNotes say who does not keep a domain, and why. Where all nodes have gone, as after "radar lab down", that says all:
// that the agent renews no lease then, and ends, is as it should be.
func KeeperNotes(h *datapath.Handle, agentRuns bool, troubles []resident.Trouble) (notes []Note) {
	name := h.Domain.Name
	if h.IsDeserted() {
		notes = append(notes, note.NoNodes{Domain: name})
		troubles = slices.DeleteFunc(slices.Clone(troubles), func(t resident.Trouble) bool { return t.What == resident.RenewLease })
	} else if !agentRuns {
		notes = append(notes, note.NoAgent{Domain: name, Lease: LeaseOf(h)})
	}
	return append(notes, TroubleNotes(name, troubles)...)
}

// TroubleNotes say what a domain's agent cannot do. All that the same full disk is the cause of is one Note.
func TroubleNotes(name string, list []resident.Trouble) (notes []Note) {
	var full []resident.Trouble
	for _, t := range list {
		if t.Full {
			full = append(full, t)
			continue
		}
		notes = append(notes, note.AgentFails{Domain: name, Trouble: t})
	}
	if len(full) > 0 {
		notes = append(notes, note.DiskFull{Domain: name, Troubles: full})
	}
	return notes
}

const notMeasured = "not_measured_" // begins the names of counters

// unmeant are reasons not to measure that NotMeasured leaves out: note.NotMeantReasons, and discovery between IPv6
// neighbours, which goes on for ever.
var unmeant = map[string]bool{note.Watch: true, note.IPv6: true, note.Leaseless: true, "neighbour": true}

// IsNoted reports whether NotMeasuredNotes count a counter's packets.
func IsNoted(c *datapath.Counter) bool {
	return c.Group == datapath.GroupNotMeasured && c.Value > 0 && !unmeant[strings.TrimPrefix(c.Name, notMeasured)]
}

// NotMeasuredNotes count what could not be measured.
func NotMeasuredNotes(counters []datapath.Counter) (notes []Note) {
	var all note.NotMeasured
	for _, c := range counters {
		if !IsNoted(&c) {
			continue
		}
		all.Packets += c.Value
		all.Reasons = append(all.Reasons, note.Reason{Name: strings.TrimPrefix(c.Name, notMeasured), Packets: c.Value})
	}
	if all.Packets > 0 {
		notes = append(notes, all)
	}
	if n := valueOf(counters, notMeasured+"key_in_flight"); n > 0 {
		notes = append(notes, note.EqualUnderWay{Packets: n})
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
