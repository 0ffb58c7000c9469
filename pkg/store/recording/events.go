// SPDX-License-Identifier: Apache-2.0

package recording

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/vnetradar/radar/pkg/store/segments"
	"github.com/vnetradar/radar/pkg/vnet/datapath"
	"github.com/vnetradar/radar/pkg/vnet/domain"
	"github.com/vnetradar/radar/pkg/vnet/topo"
)

// Kinds of the events in recordings (docs/record.md).
const (
	EventBegin      = "recorder_begins" // domain, epoch
	EventEnd        = "recorder_ends"   // domain, kept
	EventDomain     = "domain"          // description: nodes or ports have changed
	EventInterfaces = "interfaces"      // nodes: what the kernel says of their interfaces
	EventCounters   = "counters"        // the programs' counters, by name, since attach
	EventTroubles   = "troubles"        // troubles: what the agent cannot do; none: it can again
	EventNotKept    = "not_kept"        // since: when the recorder began; packets, by cause, since then
	EventTrigger    = "trigger"         // condition, value, at: why packets were kept
)

// causes are those of segments in words.
var causes = map[string]string{
	segments.DiskFull:  "the disk was full",
	segments.DiskSlow:  "the disk was too slow",
	segments.DiskError: "the disk failed",
}

// CauseText is a cause for which packets were not kept in words.
func CauseText(cause string) string { return cmp.Or(causes[cause], cause) }

// recordedInterface is an interface in an event.
type recordedInterface struct {
	topo.Interface
	Ifindex int
}

// interfacesEvent are the fields of EventInterfaces.
type interfacesEvent struct {
	Nodes map[string][]recordedInterface `json:"nodes"` // by the node's number
}

// notKeptEvent are the fields of EventNotKept.
type notKeptEvent struct {
	Since   string            `json:"since"`
	Packets map[string]uint64 `json:"packets"`
}

// InterfacesOf are the fields of an EventInterfaces: what look says of the interfaces of a domain's nodes.
func InterfacesOf(d *domain.Domain, look func(node uint16) map[int]topo.Interface) (map[string]any, error) {
	e := interfacesEvent{Nodes: make(map[string][]recordedInterface)}
	for _, n := range d.Nodes {
		interfaces := look(n.ID)
		if n.Removed || interfaces == nil { // gone, or going
			continue
		}
		list := []recordedInterface{}
		for _, ifindex := range slices.Sorted(maps.Keys(interfaces)) {
			list = append(list, recordedInterface{interfaces[ifindex], ifindex})
		}
		e.Nodes[strconv.Itoa(int(n.ID))] = list
	}
	return fieldsOf(e)
}

// DescriptionOf are the fields of an EventDomain.
func DescriptionOf(d *domain.Domain) (map[string]any, error) {
	return fieldsOf(struct {
		Description *domain.Domain `json:"description"`
	}{d})
}

// NotKeptOf are the fields of an EventNotKept: how many packets a recorder that began at a time has not kept since. Each
// such event has all of it: those before may be lost with the packets.
func NotKeptOf(begun time.Time, packets map[string]uint64) (map[string]any, error) {
	return fieldsOf(notKeptEvent{begun.UTC().Format(time.RFC3339Nano), packets})
}

// fieldsOf are the fields of a value's JSON form.
func fieldsOf(v any) (map[string]any, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	var fields map[string]any
	return fields, json.Unmarshal(b, &fields)
}

// State is what was said last of things beside packets.
type State struct {
	Domain     *domain.Domain                    // nil: it is not described, as of reports alone
	Interfaces map[uint16]map[int]topo.Interface // by node
	Counters   []datapath.Counter
	NotKept    map[string]uint64 // packets, by cause; of all the time

	// Open is how many recorders have begun and not ended: they were ended by force, or are at work.
	Open int

	notKept map[string]map[string]uint64 // by recorder
	within  bool                         // the last that has begun has not ended
}

// read takes what a recording says.
func (r *State) read(dir *segments.Dir) error {
	r.NotKept, r.notKept = make(map[string]uint64), make(map[string]map[string]uint64)
	for _, m := range dir.Meta() {
		if len(m.Description) == 0 {
			continue
		}
		if err := r.describe(m.Description); err != nil {
			return err
		}
	}
	if err := dir.Events(context.Background(), r.take); err != nil {
		return err
	}
	if r.within {
		r.Open++
	}
	return nil
}

// describe takes a description of the domain.
func (r *State) describe(text []byte) error {
	d := new(domain.Domain)
	err := json.Unmarshal(text, d)
	if err == nil {
		err = d.CheckNumbers() // who answers relies on it
	}
	if err != nil {
		return fmt.Errorf("description of the domain: %w", err)
	}
	r.Domain = d
	return nil
}

// take takes an event.
func (r *State) take(e segments.Event) error {
	text, err := json.Marshal(e.Fields)
	if err != nil {
		return err
	}
	switch e.Kind {
	case EventBegin:
		if r.within {
			r.Open++
		}
		r.within = true
	case EventEnd:
		r.within = false
	case EventDomain:
		var of struct {
			Description json.RawMessage `json:"description"`
		}
		if err = json.Unmarshal(text, &of); err == nil {
			err = r.describe(of.Description)
		}
	case EventInterfaces:
		var of interfacesEvent
		if err = json.Unmarshal(text, &of); err == nil {
			r.setInterfaces(&of)
		}
	case EventCounters:
		var of map[string]uint64
		if err = json.Unmarshal(text, &of); err == nil {
			r.Counters = datapath.NamedCounters(of)
		}
	case EventNotKept:
		var of notKeptEvent
		if err = json.Unmarshal(text, &of); err == nil {
			r.addNotKept(&of)
		}
	}
	if err != nil {
		return fmt.Errorf("event %s of %v: %w", e.Kind, e.Time, err)
	}
	return nil
}

// addNotKept takes what a recorder has not kept since it began: the most that it says.
func (r *State) addNotKept(e *notKeptEvent) {
	before := r.notKept[e.Since]
	if before == nil {
		before = make(map[string]uint64)
		r.notKept[e.Since] = before
	}
	for cause, n := range e.Packets {
		if n > before[cause] {
			r.NotKept[cause] += n - before[cause]
			before[cause] = n
		}
	}
}

// setInterfaces takes what is said of nodes. Those that it does not name were gone: what was so last stays.
func (r *State) setInterfaces(e *interfacesEvent) {
	if r.Interfaces == nil {
		r.Interfaces = make(map[uint16]map[int]topo.Interface)
	}
	for node, list := range e.Nodes {
		number, err := strconv.ParseUint(node, 10, 16)
		if err != nil {
			continue // no node that a domain can have
		}
		of := make(map[int]topo.Interface)
		for _, i := range list {
			of[i.Ifindex] = i.Interface
		}
		r.Interfaces[uint16(number)] = of
	}
}
