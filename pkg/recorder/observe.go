// SPDX-License-Identifier: Apache-2.0

package recorder

import (
	"encoding/json"
	"reflect"
	"strings"
	"time"

	"github.com/vnetradar/radar/pkg/answer"
	"github.com/vnetradar/radar/pkg/answer/placenow"
	"github.com/vnetradar/radar/pkg/store/recording"
	"github.com/vnetradar/radar/pkg/store/segments"
	"github.com/vnetradar/radar/pkg/vnet/agent"
	"github.com/vnetradar/radar/pkg/vnet/datapath"
	"github.com/vnetradar/radar/pkg/vnet/domain"
	"github.com/vnetradar/radar/pkg/vnet/topo"
)

// lookEvery is how often a recorder looks at what is no packet, countEvery how often it writes counters, which change all
// the time: each file of events has some.
const (
	lookEvery  = 2 * time.Second
	countEvery = time.Minute
)

// watched is what events beside packets have said.
type watched struct {
	next     time.Time
	whole    time.Time         // when all of it was written last
	domain   *domain.Domain    // as it was written
	written  map[string]string // fields by the kind of the event, as JSON
	nodes    map[string]any    // their interfaces, as they were last
	troubled bool              // the agent was
	counters map[string]any    // what is to be written of them: the domain may be gone at the end
	counted  time.Time         // when they were written
	lost     uint64            // events that were not kept when all was written
	status   Status
}

// observe writes events of what has changed beside packets: nodes and ports at once, the rest now and then, or if all is
// set.
func (r *Recorder) observe(all bool) {
	w, now := &r.watched, time.Now()
	all = all || w.domain != r.ring.Domain
	if r.writer == nil || !all && now.Before(w.next) {
		return
	}
	w.next = now.Add(lookEvery)
	stats := r.writer.Stats()
	if w.isLost(now, &stats) {
		w.written, w.domain, w.whole, w.lost = make(map[string]string), nil, now, stats.EventsNotKept
	}
	r.lookAtDomain()
	r.lookAtInterfaces()
	r.lookAtCounters(all, now)
	r.lookAtTroubles()
	r.lookAtNotKept()
	r.report()
}

// isLost reports whether what was written may be gone, or is not in the folder of this hour: the disk was full, or the
// file with it was beyond the recording's bounds. A recording can be read only with it.
func (w *watched) isLost(now time.Time, s *segments.Stats) bool {
	hour := func(t time.Time) time.Time { return t.UTC().Truncate(time.Hour) }
	return w.whole.IsZero() || s.EventsNotKept > w.lost || s.EventsRemoved >= w.whole.UnixNano() || !hour(now).Equal(hour(w.whole))
}

// report says what was not kept where the recording may not be able to.
func (r *Recorder) report() {
	now, before := Status{Dir: r.Dir, NotKept: r.notKept()}, r.watched.status
	now.LastError = r.writer.Stats().LastError // after that: no cause is without it
	if reflect.DeepEqual(now, before) {
		return
	}
	r.watched.status = now
	if r.Changed != nil {
		r.Changed(now)
	}
	for _, cause := range answer.SortedKeys(now.NotKept) {
		if before.NotKept[cause] == 0 {
			r.Say(strings.TrimSuffix("packets are not kept: "+cause+": "+now.LastError, ": "))
		}
	}
}

// addEvent adds an event if what it says has changed. An attempt that fails is made again.
func (r *Recorder) addEvent(kind string, fields map[string]any) {
	text, err := json.Marshal(fields)
	if err != nil || string(text) == r.watched.written[kind] {
		return
	}
	if r.writer.AddEvent(time.Now(), kind, fields) == nil {
		r.watched.written[kind] = string(text)
	}
}

func (r *Recorder) lookAtDomain() {
	d := r.ring.Domain
	if r.watched.domain == d {
		return
	}
	if fields, err := recording.DescriptionOf(d); err == nil {
		r.addEvent(recording.EventDomain, fields)
	}
	r.watched.domain = d
}

// lookAtInterfaces writes what the kernel says of interfaces. Those of a node that is gone stay as they were last: they may
// be written again after that.
func (r *Recorder) lookAtInterfaces() {
	fields, err := recording.InterfacesOf(r.ring.Domain, func(node uint16) map[int]topo.Interface { return placenow.InterfacesOf(r.ring.Domain, node) })
	if err != nil {
		return
	}
	nodes, _ := fields["nodes"].(map[string]any)
	for node, list := range r.watched.nodes {
		if nodes[node] == nil {
			nodes[node] = list
		}
	}
	r.watched.nodes = nodes
	r.addEvent(recording.EventInterfaces, fields)
}

// lookAtCounters writes what was not measured, if there is to be a note of it. Counters of what was measured are of no use
// to anybody: the packets are there.
func (r *Recorder) lookAtCounters(all bool, now time.Time) {
	w := &r.watched
	if fields := r.unmeasured(); fields != nil {
		w.counters = fields
	}
	if due := all || w.written[recording.EventCounters] == "" || now.Sub(w.counted) >= countEvery; due && len(w.counters) > 0 {
		r.addEvent(recording.EventCounters, w.counters)
		w.counted = now
	}
}

// unmeasured are the counters that there are notes of; nil: the domain is being detached.
func (r *Recorder) unmeasured() map[string]any {
	h, err := datapath.Open(r.Domain().Name)
	if err != nil {
		return nil
	}
	defer h.Close()
	counters, err := h.Counters()
	if err != nil {
		return nil
	}
	fields := make(map[string]any)
	for i := range counters {
		if answer.IsNoted(&counters[i]) {
			fields[counters[i].Name] = counters[i].Value
		}
	}
	return fields
}

func (r *Recorder) lookAtTroubles() {
	process, err := agent.Find(r.Domain().Name)
	if err != nil || process.PID == 0 {
		return
	}
	list, err := process.Troubles()
	if err != nil || len(list) == 0 && !r.watched.troubled {
		return
	}
	r.watched.troubled = len(list) > 0
	r.addEvent(recording.EventTroubles, map[string]any{"troubles": list})
}

func (r *Recorder) lookAtNotKept() {
	packets := r.notKept()
	if len(packets) == 0 {
		return
	}
	if fields, err := recording.NotKeptOf(r.begun, packets); err == nil {
		r.addEvent(recording.EventNotKept, fields)
	}
}
