// SPDX-License-Identifier: Apache-2.0

package control

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// save writes the status if it has changed, and counters once a second. Events go with it.
func (s *Service) save() (ok bool) {
	now := s.report()
	plain := now
	plain.Devices = slices.Clone(now.Devices)
	for i := range plain.Devices {
		plain.Devices[i].Counters = nil
	}
	b, err := json.Marshal(&plain)
	if err == nil && (string(b) != s.saved || time.Since(s.savedAt) >= holdEvery) {
		if err = s.Store.saveStatus(&now); err == nil {
			s.saved, s.savedAt = string(b), time.Now()
		}
	}
	s.trouble("write the status", err)
	ok = err == nil
	err = s.Store.logEvents(s.events)
	s.trouble("write events", err)
	if err == nil || len(s.events) > maxEvents {
		s.events = nil
	}
	return ok
}

// report is the status as it is now.
func (s *Service) report() Status {
	before := make(map[string]IntentState)
	for _, i := range s.status.Intents {
		before[i.Name] = i.State
	}
	st := Status{Applied: s.status.Applied, Seen: s.wanted.Generation, Mark: s.status.Mark, Devices: []DeviceStatus{}, Intents: []IntentStatus{}}
	done := s.plan != nil && s.settled && s.wanted.Config.Full().Mark == s.status.Mark
	for _, d := range s.devices {
		one := d.status()
		if s.plan != nil && !d.leaving {
			s.describe(d, &one)
		}
		done = done && (one.State == Ready || d.off)
		st.Devices = append(st.Devices, one)
	}
	if done {
		st.Applied = st.Seen
	}
	if s.plan != nil {
		st.Conflicts = s.plan.conflicts
		for i := range s.wanted.Intents {
			one := s.intentStatus(&s.wanted.Intents[i])
			if was := before[one.Name]; was != one.State && s.settled {
				s.eventf("intent", one.Name, "intent %s is %s%s", one.Name, one.State, one.why())
			}
			st.Intents = append(st.Intents, one)
		}
	}
	s.status = st
	return st
}

// describe fills in what a device is to be.
func (s *Service) describe(d *device, one *DeviceStatus) {
	want, waits := s.target(d)
	one.Notes, one.NodeID, one.Ports = s.plan.notes[d.Name], s.plan.states[d.Name].NodeID, s.plan.states[d.Name].Ports
	if waits != "" && d.conn != nil && d.held != nil {
		one.Notes = append(slices.Clone(one.Notes), fmt.Sprintf("packets get no INT here while %s is not known to take it off", waits))
	}
	if one.State == Ready && !d.holds(&want) {
		one.State = Applying
	}
}

func (d *device) status() DeviceStatus {
	one := DeviceStatus{
		Device: d.Device, State: d.state, Reachable: d.conn != nil, Since: d.since, Abilities: d.abilities,
		Counters: d.counters, Error: d.err, Tries: d.tries, Held: d.held, Gives: d.gives,
	}
	if d.leaving && !d.off && (d.state == Applying || d.state == Ready || d.state == Waiting) {
		one.State = Leaving
	}
	if one.Held == nil {
		one.Held = d.before
	}
	if d.held != nil {
		one.Entries = len(d.held.Entries)
	}
	return one
}

func (i *IntentStatus) why() string {
	if len(i.Reasons) == 0 || i.State == Applied {
		return ""
	}
	return ": " + i.Reasons[0].Text
}

// intentStatus is what became of an intent.
func (s *Service) intentStatus(i *Intent) IntentStatus {
	one := IntentStatus{Name: i.Name, State: Pending, Reasons: s.plan.reasons[i.Name]}
	if i.isOver(time.Now()) {
		one.State = Expired
		return one
	}
	for _, d := range s.devices {
		if d.held != nil && !d.leaving && slices.ContainsFunc(d.held.Entries, func(e Entry) bool { return e.Intent == i.Name }) {
			one.Devices = append(one.Devices, d.Name)
		}
	}
	expected := len(s.plan.devices[i.Name])
	refused := slices.ContainsFunc(one.Reasons, func(r Reason) bool { return !r.Approximated })
	approximated := slices.ContainsFunc(one.Reasons, func(r Reason) bool { return r.Approximated })
	shadow := slices.IndexFunc(s.plan.conflicts, func(c Conflict) bool { return c.Whole && c.Second == i.Name })
	switch {
	case expected == 0 && refused:
		one.State = Refused
	case expected == 0 && s.wanted.Running && s.settled:
		one.Reasons = append(slices.Clone(one.Reasons), Reason{Text: "no device is there for it that answers"})
	case shadow >= 0:
		one.State = Shadowed
		one.Reasons = append(slices.Clone(one.Reasons), Reason{Text: s.plan.conflicts[shadow].Text})
	case len(one.Devices) == 0:
	case len(one.Devices) < expected || refused:
		one.State = Partly
	case approximated:
		one.State = Approximated
	default:
		one.State = Applied
	}
	return one
}
