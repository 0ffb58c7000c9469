// SPDX-License-Identifier: Apache-2.0

// Package status says how a domain is: what is attached, whether its agent lives, what became of every packet, and
// what radar itself costs. It is what `radar status` shows, as values.
package status

import (
	"context"
	"fmt"
	"time"

	"github.com/vnetradar/radar/pkg/answer"
	"github.com/vnetradar/radar/pkg/answer/note"
	"github.com/vnetradar/radar/pkg/answer/placenow"
	"github.com/vnetradar/radar/pkg/answer/topology"
	"github.com/vnetradar/radar/pkg/answer/wording"
	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/recorder"
	"github.com/vnetradar/radar/pkg/system/resident"
	"github.com/vnetradar/radar/pkg/vnet/agent"
	"github.com/vnetradar/radar/pkg/vnet/datapath"
	"github.com/vnetradar/radar/pkg/vnet/datapath/merge"
	"github.com/vnetradar/radar/pkg/vnet/datapath/program"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// View is the JSON form of "radar status".
type View struct {
	Domain   string    `json:"domain"`
	Attached time.Time `json:"attached"`
	Options  Options   `json:"options"`
	LossHook string    `json:"loss_hook,omitempty"` // absent: the kernel has none, losses show as expired
	// QueueHook is absent while no port inside the domain has a queue, or the kernel cannot
	// tell: the waits are part of the links' times then.
	QueueHook string `json:"queue_hook,omitempty"`
	// ChangeHook sees interfaces come and move; absent: the kernel has none, and packets can
	// leave with rewritten bits until the agent has noticed.
	ChangeHook string `json:"change_hook,omitempty"`
	// LocalHook tells of packets that nodes redirect to themselves; absent: the kernel
	// has none, such packets show as expired.
	LocalHook string `json:"local_hook,omitempty"`
	// IPv6Held: IPv6 is not measured before a node has an address, or an IPv6 packet comes.
	IPv6Held bool          `json:"ipv6_held,omitempty"`
	Agent    Agent         `json:"agent"`
	Recorder *Recorder     `json:"recorder,omitempty"` // in the background; absent: none runs
	Lease    note.Lease    `json:"lease"`
	Memory   *Memory       `json:"memory"`
	Cost     *Cost         `json:"cost,omitempty"`
	Nodes    []answer.Node `json:"nodes"`
	Totals   agent.Totals  `json:"totals"`
	Counters []Counter     `json:"counters"`
	Notes    []string      `json:"notes,omitempty"`
	// Selectors are what the nodes were named by; containers that they match join
	// when they start if WatchContainers is set.
	Selectors       []string `json:"selectors,omitempty"`
	WatchContainers bool     `json:"watch_containers,omitempty"`
}

// Options are those of the domain.
type Options struct {
	Slots     uint32 `json:"slots"`
	SlotBytes uint32 `json:"slot_bytes"`
	GUIDBits  string `json:"guid_bits"`
	Carry     string `json:"carry"`
	TimeoutNs int64  `json:"timeout_ns"`
	LeaseNs   int64  `json:"lease_ns"` // 0: never ends
	Keys      uint32 `json:"keys"`
	Hook      string `json:"hook"`
	IPv6      string `json:"ipv6"` // label: in hop limit and flow label; key; off: not measured
	// LabelUsers is why it is key: what hashes on the flow label.
	LabelUsers []string `json:"label_users,omitempty"`
	Watch      string   `json:"watch,omitempty"` // filter expression of what is measured; absent: all
}

// Recorder keeps the domain's packets (attach --record).
type Recorder struct {
	PID int `json:"pid"`
	recorder.Status
}

// Agent is the domain's.
type Agent struct {
	Alive bool   `json:"alive"`
	PID   int    `json:"pid,omitempty"`
	Log   string `json:"log"`
	// Troubles is what it fails to do again and again, as where the disk is full.
	Troubles []resident.Trouble `json:"troubles,omitempty"`

	Process agent.Process `json:"-"`
}

// Counter counts packets.
type Counter struct {
	Name  string `json:"name"`
	Group string `json:"group"` // total, measured, not_measured, notice
	Value uint64 `json:"value"`
	Help  string `json:"help"`
}

// Memory is what a domain takes.
type Memory struct {
	Total uint64 `json:"total_bytes"`
	program.Memory
}

// MemoryOf is what a domain with such maps takes.
func MemoryOf(m program.Memory) *Memory { return &Memory{Total: m.Total(), Memory: m} }

// CarriedIn says where the GUID is carried inside nodes.
func CarriedIn(mask uint32) string {
	if mask == 0 {
		return program.CarryHeader
	}
	return fmt.Sprintf("mark=0x%08x", mask)
}

// Wanted is what of a status takes time.
type Wanted struct {
	Cost     bool // what radar costs, as far as the kernel has measured that
	Measure  bool // it is told to do so for a moment before
	Changers bool // what may change packets on links: each port, and bridges' rules, are looked at
}

// Read reads how a domain is. Its sentences are of w.
func Read(ctx context.Context, name string, w wording.Sentences, wanted Wanted) (*View, error) {
	handle, err := datapath.Open(name)
	if err != nil {
		return nil, err
	}
	defer handle.Close()
	reader, note, err := agent.OpenReader(name)
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	reader.Collector.AsItStands()
	view, err := newView(w, handle, reader)
	if err != nil {
		return nil, err
	}
	if wanted.Cost {
		if view.Cost, err = costOf(ctx, w.Face, handle, view.Agent.Process, wanted.Measure); err != nil {
			return nil, err
		}
	}
	if wanted.Changers {
		for _, text := range datapath.Changers(ctx, handle.Domain) {
			view.Notes = append(view.Notes, w.Face.Render(text))
		}
	}
	if note != "" {
		view.Notes = append(view.Notes, note)
	}
	return view, nil
}

func newView(w wording.Sentences, h *datapath.Handle, r *agent.Reader) (*View, error) {
	d := h.Domain
	v := &View{
		Domain: d.Name, Attached: d.Created, LossHook: d.LossHook, LocalHook: d.LocalHook, QueueHook: d.QueueHook, ChangeHook: d.ChangeHook,
		Options: OptionsOf(d.Options), IPv6Held: h.IPv6Held(),
		Memory: MemoryOf(h.Memory()), Nodes: Nodes(d, w.Face),
		Selectors: d.Selectors, WatchContainers: d.WatchContainers,
	}
	look := placenow.InterfacesNow(d)
	answer.AddStates(v.Nodes, look)
	process, err := agent.Find(d.Name)
	if err != nil {
		return nil, err
	}
	v.Agent = Agent{Alive: process.PID != 0, PID: process.PID, Log: domain.File(d.Name, "agent.log"), Process: process}
	if v.Agent.Alive {
		if v.Agent.Troubles, err = process.Troubles(); err != nil {
			return nil, err
		}
		for i := range v.Agent.Troubles {
			v.Agent.Troubles[i].Error = w.Face.Render(v.Agent.Troubles[i].Error)
		}
	}
	v.Notes = w.Texts(answer.KeeperNotes(h, v.Agent.Alive, v.Agent.Troubles))
	running, err := recorder.Find(d.Name)
	if err != nil {
		return nil, err
	}
	if running != nil {
		running.Close()
		v.Recorder = &Recorder{running.PID, running.Status}
		v.Notes = append(v.Notes, w.Texts(answer.NotKeptNotes(running.NotKept))...)
	}
	v.Notes = append(v.Notes, w.Texts(topology.DoubleNotes(d, look))...)
	v.Lease = answer.LeaseOf(h)
	if err := r.Collector.Poll(); err != nil {
		return nil, fmt.Errorf("read the ring: %w", err)
	}
	counters, err := h.Counters()
	if err != nil {
		return nil, fmt.Errorf("read counters: %w", err)
	}
	v.Totals = agent.NewTotals(counters, r.Collector.Totals())
	v.Counters = Counters(counters, w.Face)
	if text := h.Crowded(); text != "" {
		v.Notes = append(v.Notes, text)
	}
	if text := merge.NumbersUsedUp(d); text != "" {
		v.Notes = append(v.Notes, text)
	}
	return v, nil
}

// OptionsOf are a domain's options as they are shown.
func OptionsOf(o domain.Options) Options {
	return Options{
		Slots: o.Slots, SlotBytes: o.SlotBytes, GUIDBits: o.GUIDBits,
		Carry: CarriedIn(o.MarkMask), TimeoutNs: int64(o.Timeout), LeaseNs: int64(o.Lease),
		Keys: o.Keys, Hook: o.Hook, IPv6: o.IPv6, LabelUsers: o.LabelUsers, Watch: o.Watch,
	}
}

// Counters are a domain's, with their meaning as users of a face read it.
func Counters(counters []datapath.Counter, face fault.Face) []Counter {
	views := make([]Counter, len(counters))
	for i, c := range counters {
		views[i] = Counter{Name: c.Name, Group: string(c.Group), Value: c.Value, Help: face.Render(c.Help)}
	}
	return views
}

// Nodes are a domain's nodes, with texts of libraries as users of a face read them.
func Nodes(d *domain.Domain, face fault.Face) []answer.Node {
	list := answer.Nodes(d)
	for i := range list {
		list[i].Header = face.Render(list[i].Header)
	}
	return list
}
