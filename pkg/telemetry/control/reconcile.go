// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
)

// guard is what must be the same at all devices, and stay so while packets bear INT: else one of them
// takes INT off no more, or does not know it.
type guard struct {
	mark  string
	ports []DevicePort
}

func (s *State) guard() guard { return guard{s.Mark, s.Ports} }

func (g guard) is(other guard) bool {
	return g.mark == other.mark && slices.Equal(g.ports, other.ports)
}

// isReady reports whether a device takes INT off, as is wanted of it.
func (s *Service) isReady(d *device) bool {
	if d.conn == nil || d.held == nil || d.leaving {
		return false
	}
	want := s.plan.states[d.Name]
	return d.held.guard().is(want.guard())
}

// reconcile brings devices nearer to what is wanted. The order is what keeps packets with INT inside:
//
//  1. Sources stop giving INT, if a device that takes it off is not ready, or changes, or leaves.
//  2. When none gives INT any more, and packets in flight have passed: devices change their roles, those
//     with hosts first, and devices that leave are cleared, those with hosts last.
//  3. Sources of a group of which all devices that take INT off are ready get their entries.
func (s *Service) reconcile(ctx context.Context) {
	if s.plan == nil {
		return
	}
	if s.wanted.Running && !s.collector.IsValid() { // nobody gets anything; but what must stop giving INT does
		s.withdraw(ctx, false)
		return
	}
	changes := s.changes()
	s.withdraw(ctx, changes)
	if changes {
		if s.isQuiet() {
			s.drain(ctx)
			s.change(ctx)
		} else {
			s.waitForSources()
		}
	}
	s.rebase(ctx)
	s.give(ctx)
	s.forget()
}

// changes reports whether what takes INT off is to change anywhere: then no packet may bear it.
func (s *Service) changes() bool {
	if s.wanted.Config.Full().Mark != s.status.Mark {
		return true
	}
	return slices.ContainsFunc(s.devices, func(d *device) bool {
		if d.conn == nil || time.Now().Before(d.next) {
			return false // nothing can be done with it now
		}
		if d.leaving {
			return !d.off
		}
		want := s.plan.states[d.Name]
		return d.held != nil && !d.held.guard().is(want.guard())
	})
}

// opened reports whether sources of a device's group may give INT: all that are to take it off do, and none takes a port
// inside for the outside.
func (s *Service) opened(d *device) (open bool, waitsFor string) {
	for _, o := range s.devices {
		if o.leaving || s.plan.graph.group[o.Name] != s.plan.graph.group[d.Name] || s.isReady(o) {
			continue
		}
		if !s.plan.graph.hasEdge(o.Name) && !s.hadEdge(o) {
			continue
		}
		if o.conn == nil && s.wanted.Config.AssumeSinks {
			continue
		}
		return false, o.Name
	}
	return true, ""
}

// hadEdge reports whether a device may still hold a port as an edge that is none any more. Packets that come in there with
// INT would keep it until they reach hosts.
func (s *Service) hadEdge(d *device) bool {
	held := d.held
	if held == nil {
		held = d.before
	}
	return held != nil && slices.ContainsFunc(held.Ports, func(p DevicePort) bool {
		return p.Role == Edge && !slices.Contains(s.plan.states[d.Name].Ports, p)
	})
}

// withdraw takes entries off sources that must not give INT now. One that has failed with something else is tried at once,
// and then as often as leastWait says: packets may leave with INT meanwhile.
func (s *Service) withdraw(ctx context.Context, all bool) {
	var list []*device
	for _, d := range s.devices {
		if d.conn == nil || d.off || !d.gives || time.Now().Before(d.next) && time.Since(d.withdrawn) < leastWait {
			continue
		}
		if open, _ := s.opened(d); all || !open || d.held == nil {
			d.withdrawn = time.Now()
			list = append(list, d)
		}
	}
	s.apply(ctx, list, func(d *device) State {
		switch want, is := s.plan.states[d.Name]; {
		case d.held != nil:
			return d.held.withoutCarrying()
		case d.before != nil: // it may still hold some of that
			return d.before.withoutEntries()
		case is && !d.leaving:
			return want.withoutEntries()
		}
		return State{Mark: s.status.Mark, Collector: s.collector, Via: s.wanted.Config.Via, Report: s.wanted.Config.Full().Report}
	})
}

// isQuiet reports whether no device gives INT.
func (s *Service) isQuiet() bool {
	return !slices.ContainsFunc(s.devices, func(d *device) bool {
		return d.gives && !d.off && (d.conn != nil || !s.wanted.Config.AssumeSinks && !s.isAbandoned(d))
	})
}

// isAbandoned reports whether a device that leaves cannot be reached, and users do not want to wait for it.
func (s *Service) isAbandoned(d *device) bool {
	return s.wanted.Abandon && d.leaving && d.conn == nil && d.tries > 0
}

// waitForSources says of devices that change that they have to wait.
func (s *Service) waitForSources() {
	var names []string
	for _, d := range s.devices {
		if d.gives && !d.off {
			names = append(names, d.Name)
		}
	}
	s.trouble("change what takes INT off", errWaits(strings.Join(names, ", ")+" may still give INT to packets"))
}

type errWaits string

func (e errWaits) Error() string { return string(e) }

// drain waits until no device sees packets with INT any more.
func (s *Service) drain(ctx context.Context) {
	last, since := uint64(0), time.Now()
	for end := since.Add(drainMost); ctx.Err() == nil && time.Now().Before(end) && time.Since(since) < drainQuiet; {
		if now := s.passed(ctx); now != last {
			last, since = now, time.Now()
		}
		select {
		case <-ctx.Done():
		case <-time.After(drainQuiet / 4):
		}
	}
}

// passed counts what bore INT at any device that takes part now.
func (s *Service) passed(ctx context.Context) (sum uint64) {
	list := slices.DeleteFunc(slices.Clone(s.devices), func(d *device) bool { return d.conn == nil || d.off })
	counts := make([]uint64, len(list))
	_ = each(ctx, list, askTime, func(ctx context.Context, d *device) error {
		c, err := d.conn.Counters(ctx)
		counts[slices.Index(list, d)] = c["transit"] + c["sink"]
		return err
	})
	for _, n := range counts {
		sum += n
	}
	return sum
}

// change does what is done while no packet bears INT: roles, the mark, and devices that leave.
func (s *Service) change(ctx context.Context) {
	s.trouble("change what takes INT off", nil)
	if s.status.Mark != s.wanted.Config.Full().Mark {
		before := s.status.Mark
		s.status.Mark, s.stale = s.wanted.Config.Full().Mark, true
		if !s.save() { // before any device knows it
			s.status.Mark = before
			return
		}
		s.look(ctx)
	}
	for _, withHosts := range []bool{false, true} { // what takes INT off leaves last
		var list []*device
		for _, d := range s.devices {
			hasHosts := d.held == nil || slices.ContainsFunc(d.held.Ports, func(p DevicePort) bool { return p.Role == Edge })
			if d.leaving && !d.off && d.conn != nil && hasHosts == withHosts && !time.Now().Before(d.next) {
				list = append(list, d)
			}
		}
		for i, err := range each(ctx, list, applyTime, func(ctx context.Context, d *device) error { return d.conn.Clear(ctx) }) {
			d := list[i]
			if errors.Is(err, ErrGone) {
				err = nil // and with it all that it held
			}
			if err != nil {
				s.failed(d, Failed, err)
				continue
			}
			d.held, d.before, d.gives, d.off, d.err = nil, nil, false, true, ""
			d.set(Off)
			s.eventf("device", d.Name, "device %s holds nothing of INT any more", d.Name)
		}
	}
	s.toRoles(ctx, func(d *device) bool { return d.held != nil })
}

// rebase sets roles, without entries, on devices whose state is unknown.
func (s *Service) rebase(ctx context.Context) {
	s.toRoles(ctx, func(d *device) bool { return d.held == nil })
}

// toRoles gives devices their roles where these are others, without entries: those with hosts first.
func (s *Service) toRoles(ctx context.Context, which func(*device) bool) {
	for _, withHosts := range []bool{true, false} {
		var list []*device
		for _, d := range s.devices {
			if d.conn == nil || d.leaving || !which(d) || s.plan.graph.hasEdge(d.Name) != withHosts || time.Now().Before(d.next) {
				continue
			}
			want := s.plan.states[d.Name]
			if d.held == nil || !d.held.guard().is(want.guard()) {
				list = append(list, d)
			}
		}
		s.apply(ctx, list, func(d *device) State { return s.plan.states[d.Name].withoutEntries() })
	}
}

// target is what a device is to hold now.
func (s *Service) target(d *device) (t State, waitsFor string) {
	t = s.plan.states[d.Name]
	if !t.gives() {
		return t, ""
	}
	if open, name := s.opened(d); !open {
		return t.withoutCarrying(), name
	}
	return t, ""
}

// give gives entries to devices that are ready, sources last.
func (s *Service) give(ctx context.Context) {
	if s.wanted.Config.Full().Mark != s.status.Mark {
		return
	}
	for _, sources := range []bool{false, true} {
		var list []*device
		writes := false
		for _, d := range s.devices {
			if !s.isReady(d) || time.Now().Before(d.next) {
				continue
			}
			want, _ := s.target(d)
			if d.holds(&want) || want.gives() != sources {
				continue
			}
			list = append(list, d)
			if want.gives() && !d.gives {
				d.gives, writes = true, true
			}
		}
		if writes && !s.save() { // who comes after a crash knows it
			return
		}
		s.apply(ctx, list, func(d *device) State { t, _ := s.target(d); return t })
	}
	for _, d := range s.devices {
		if s.isReady(d) && d.conn != nil {
			want, waits := s.target(d)
			switch {
			case !d.holds(&want):
			case waits != "":
				d.set(Waiting)
			default:
				d.set(Ready)
			}
		}
	}
}

// holds reports whether a device is known to hold a State.
func (d *device) holds(want *State) bool {
	return d.held != nil && !d.unsure && reflect.DeepEqual(d.held.normal(), want.normal())
}

// normal is a State without a difference between no list and an empty one.
func (s State) normal() State {
	if len(s.Entries) == 0 {
		s.Entries = nil
	}
	if len(s.Ports) == 0 {
		s.Ports = nil
	}
	return s
}

// apply makes devices hold something.
func (s *Service) apply(ctx context.Context, list []*device, want func(*device) State) {
	if len(list) == 0 {
		return
	}
	states := make(map[*device]State)
	for _, d := range list {
		states[d] = want(d)
	}
	for i, err := range each(ctx, list, applyTime, func(ctx context.Context, d *device) error { return d.conn.Apply(ctx, states[d]) }) {
		d, held := list[i], states[list[i]]
		switch {
		case ctx.Err() != nil && err != nil:
		case errors.Is(err, ErrGone):
			s.lost(d, err)
		case err != nil:
			// Some entries may have been applied; roles are unchanged unless this call was to change them.
			if d.unsure = true; d.held != nil && !d.held.guard().is(held.guard()) {
				d.before, d.held = d.held, nil
			}
			s.failed(d, Failed, err)
		default:
			s.eventf("device", d.Name, "device %s holds %s", d.Name, entriesText(&held))
			d.held, d.unsure, d.before, d.gives = &held, false, nil, held.gives()
			s.succeeded(d)
		}
	}
}

// succeeded forgets failures of a device when it holds what is wanted: what it takes of that may be less.
func (s *Service) succeeded(d *device) {
	if want, _ := s.target(d); d.leaving || d.tries == 0 || d.holds(&want) {
		d.err, d.tries, d.next = "", 0, time.Time{}
		d.set(Applying)
		return
	}
	d.next = time.Now().Add(backoff(d.tries))
}

func entriesText(s *State) string {
	switch n := len(s.Entries); n {
	case 0:
		return "its roles, and no entry"
	case 1:
		return "1 entry"
	default:
		return fmt.Sprintf("%d entries", n)
	}
}

// forget forgets devices that have left. A domain that is not wanted keeps them, as they are off.
func (s *Service) forget() {
	s.devices = slices.DeleteFunc(s.devices, func(d *device) bool {
		gone := d.leaving && (d.off || s.isAbandoned(d))
		if gone && d.conn != nil {
			d.conn.Close()
		}
		return gone
	})
}
