// SPDX-License-Identifier: Apache-2.0

package control

import (
	"slices"
	"time"
)

// Wanted is what users want of an INT domain: the file wanted.json.
type Wanted struct {
	Version int `json:"version"`
	// Generation counts changes. The service has done one when Status.Applied is as great.
	Generation uint64   `json:"generation"`
	Running    bool     `json:"running"`           // false: nothing of INT stays on any device
	Abandon    bool     `json:"abandon,omitempty"` // and devices that cannot be reached are left as they are
	Config     Config   `json:"config"`
	Intents    []Intent `json:"intents"`
	Topology   Topology `json:"topology"`
}

// Status is what the service says of the INT domain: the file status.json. Its times are UTC.
type Status struct {
	Version int       `json:"version"`
	Written time.Time `json:"written"`
	PID     int       `json:"pid"` // of the service that has written it
	// Applied is the generation of what all devices hold. A device that cannot be reached, or refuses,
	// keeps it at an older one.
	Applied uint64 `json:"applied"`
	// Seen is the generation that the service works on.
	Seen      uint64         `json:"seen"`
	Devices   []DeviceStatus `json:"devices"`
	Intents   []IntentStatus `json:"intents"`
	Conflicts []Conflict     `json:"conflicts,omitempty"`
	// Mark is the one that packets in flight may bear. It changes when no device gives INT.
	Mark string `json:"mark,omitempty"`
}

// Holds reports whether devices may hold something of INT.
func (s *Status) Holds() bool {
	return slices.ContainsFunc(s.Devices, func(d DeviceStatus) bool { return d.State != Off })
}

// DeviceState is where a device is.
type DeviceState string

// The states of a device.
const (
	Connecting  DeviceState = "connecting"  // nobody knows yet
	Unreachable DeviceState = "unreachable" // it does not answer: tried again, less and less often
	Failed      DeviceState = "failed"      // it answers, and refuses: tried again, less and less often
	Applying    DeviceState = "applying"    // it gets what it is to hold
	Waiting     DeviceState = "waiting"     // it takes INT off, and gives none until others do that
	Ready       DeviceState = "ready"       // it holds what is wanted
	Leaving     DeviceState = "leaving"     // it is to hold nothing, and still may
	Off         DeviceState = "off"         // it holds nothing, as wanted
)

// DeviceStatus is one device as the service sees it.
type DeviceStatus struct {
	Device
	NodeID    uint32       `json:"node_id,omitempty"`
	State     DeviceState  `json:"state"`
	Reachable bool         `json:"reachable"`
	Since     time.Time    `json:"since"` // of the state
	Ports     []DevicePort `json:"ports,omitempty"`
	Entries   int          `json:"entries"` // that it holds
	Abilities *Abilities   `json:"abilities,omitempty"`
	// Counters are packets and reports since the device has begun to count, by names of «int status».
	Counters map[string]uint64 `json:"counters,omitempty"`
	Error    string            `json:"error,omitempty"` // the last one
	Tries    int               `json:"tries,omitempty"` // that have failed, one after the other
	Notes    []string          `json:"notes,omitempty"` // what it does otherwise than asked for
	// Held is what it was given last; nil: nobody knows, or nothing.
	Held *State `json:"held,omitempty"`
	// Gives: packets may get INT there. It is written before the device gets an entry.
	Gives bool `json:"gives,omitempty"`
}

// IntentState is what became of an intent.
type IntentState string

// The states of an intent.
const (
	Pending      IntentState = "pending"      // no device has it yet
	Applied      IntentState = "applied"      // all devices that it is for hold it
	Partly       IntentState = "partly"       // some hold it
	Approximated IntentState = "approximated" // devices do something like it, as it allows
	Refused      IntentState = "refused"      // no device can do it
	Expired      IntentState = "expired"      // its time is over
	Shadowed     IntentState = "shadowed"     // another one matches all of its packets first
)

// IntentStatus is what became of an intent.
type IntentStatus struct {
	Name    string      `json:"name"`
	State   IntentState `json:"state"`
	Devices []string    `json:"devices,omitempty"` // that hold an entry of it
	Reasons []Reason    `json:"reasons,omitempty"` // why it is not applied as it is
}

// Reason says what a device cannot do of an intent.
type Reason struct {
	Intent string `json:"intent,omitempty"` // where the reason does not stand with it
	Device string `json:"device,omitempty"` // "": it holds for all
	Field  string `json:"field,omitempty"`  // of the intent
	Text   string `json:"text"`
	// Approximated: the device does something like it. Else it does nothing for the intent.
	Approximated bool `json:"approximated,omitempty"`
}

// Conflict is a pair of intents of which some packets match both: the first one gets them.
type Conflict struct {
	First  string `json:"first"`
	Second string `json:"second"`
	Whole  bool   `json:"whole"` // no packet is left for the second
	Text   string `json:"text"`
}

// Event is something that happened to the management of an INT domain: a line of the file events.
type Event struct {
	Number uint64    `json:"number"` // grows by one
	Time   time.Time `json:"time"`
	Kind   string    `json:"kind"` // device, intent, service
	Of     string    `json:"of,omitempty"`
	Text   string    `json:"text"`
}

// Change is what a dry run looks at: what is wanted with that done to it. Fields that are zero change nothing.
type Change struct {
	Intents  []Intent  `json:"intents,omitzero"` // in place of all, if not nil
	Add      *Intent   `json:"add,omitempty"`    // or in place of the one of that name
	Remove   string    `json:"remove,omitempty"` // name of an intent
	Config   *Config   `json:"config,omitempty"`
	Topology *Topology `json:"topology,omitempty"`
}

// DevicePlan is what a device would get.
type DevicePlan struct {
	Device       string   `json:"device"`
	Driver       string   `json:"driver"`
	Lines        []string `json:"lines"` // in the device's own words; none: it holds all of it
	Refused      []Reason `json:"refused,omitempty"`
	Approximated []Reason `json:"approximated,omitempty"`
	Error        string   `json:"error,omitempty"` // it cannot be asked
}
