// SPDX-License-Identifier: Apache-2.0

package recorder

import (
	"encoding/json"
	"time"

	"github.com/vnetradar/radar/pkg/answer"
	"github.com/vnetradar/radar/pkg/store/recording"
	"github.com/vnetradar/radar/pkg/vnet/agent"
	"github.com/vnetradar/radar/pkg/vnet/datapath"
	"github.com/vnetradar/radar/pkg/vnet/domain"
	"github.com/vnetradar/radar/pkg/vnet/topo"
)

// lookEvery is how often a recorder looks at what is no packet.
const lookEvery = 2 * time.Second

// watched is what was told of things beside packets.
type watched struct {
	next       time.Time
	domain     *domain.Domain
	interfaces string            // as JSON
	counters   string            // the same
	troubles   string            // the same
	notKept    map[string]uint64 // by cause
}

// observe tells what has changed beside packets: nodes and ports at once, the rest now and then, or if all is set.
func (r *Recorder) observe(all bool) {
	if r.writer == nil {
		return
	}
	w := &r.watched
	if d := r.ring.Domain; w.domain != d {
		if w.domain != nil { // the first one is in each file
			if fields, err := recording.DescriptionOf(d); err == nil {
				r.event(recording.EventDomain, fields)
			}
		}
		w.domain, all = d, true
	}
	if now := time.Now(); all || now.After(w.next) {
		w.next = now.Add(lookEvery)
		r.lookAtInterfaces()
		r.lookAtCounters()
		r.lookAtTroubles()
		r.tellNotKept()
	}
}

// tell adds an event if what it says has changed. An attempt that fails is made again.
func (r *Recorder) tell(kind string, told *string, fields map[string]any) {
	text, err := json.Marshal(fields)
	if err != nil || string(text) == *told {
		return
	}
	if r.writer.AddEvent(time.Now(), kind, fields) == nil {
		*told = string(text)
	}
}

func (r *Recorder) lookAtInterfaces() {
	if fields, err := recording.InterfacesOf(r.ring.Domain, func(node uint16) map[int]topo.Interface { return answer.InterfacesOf(r.ring.Domain, node) }); err == nil {
		r.tell(recording.EventInterfaces, &r.watched.interfaces, fields)
	}
}

// lookAtCounters tells what was not measured. Counters of what was are of no use to anybody: the packets are there.
func (r *Recorder) lookAtCounters() {
	h, err := datapath.Open(r.Domain().Name)
	if err != nil {
		return // it is being detached
	}
	defer h.Close()
	counters, err := h.Counters()
	if err != nil {
		return
	}
	fields := make(map[string]any)
	for _, c := range counters {
		if c.Group == datapath.GroupNotMeasured && c.Value > 0 {
			fields[c.Name] = c.Value
		}
	}
	if len(fields) > 0 {
		r.tell(recording.EventCounters, &r.watched.counters, fields)
	}
}

func (r *Recorder) lookAtTroubles() {
	process, err := agent.Find(r.Domain().Name)
	if err != nil || process.PID == 0 {
		return
	}
	list, err := process.Troubles()
	if err != nil || len(list) == 0 && r.watched.troubles == "" {
		return
	}
	r.tell(recording.EventTroubles, &r.watched.troubles, map[string]any{"troubles": list})
}

// tellNotKept tells what was not kept since it told that last.
func (r *Recorder) tellNotKept() {
	fields, now := make(map[string]any), r.notKept()
	for cause, n := range now {
		if more := n - r.watched.notKept[cause]; more > 0 {
			fields[cause] = more
		}
	}
	if len(fields) > 0 && r.writer.AddEvent(time.Now(), recording.EventNotKept, fields) == nil {
		r.watched.notKept = now
	}
}
