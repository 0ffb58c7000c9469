// SPDX-License-Identifier: Apache-2.0

package domain

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/vnetradar/radar/pkg/answer"
	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/vnet/agent"
	"github.com/vnetradar/radar/pkg/vnet/datapath"
	"github.com/vnetradar/radar/pkg/vnet/datapath/merge"
	"github.com/vnetradar/radar/pkg/vnet/domain"
	"github.com/vnetradar/radar/pkg/words"
)

// statusView is the JSON form of "radar status".
type statusView struct {
	Domain   string      `json:"domain"`
	Attached time.Time   `json:"attached"`
	Options  optionsView `json:"options"`
	LossHook string      `json:"loss_hook,omitempty"` // absent: the kernel has none, losses show as expired
	// QueueHook is absent while no port inside the domain has a queue, or the kernel cannot
	// tell: the waits are part of the links' times then.
	QueueHook string `json:"queue_hook,omitempty"`
	// ChangeHook sees interfaces come and move; absent: the kernel has none, and packets can
	// leave with rewritten bits until the agent has noticed.
	ChangeHook string `json:"change_hook,omitempty"`
	// LocalHook tells of packets that nodes redirect to themselves; absent: the kernel
	// has none, such packets show as expired.
	LocalHook string        `json:"local_hook,omitempty"`
	Agent     agentView     `json:"agent"`
	Lease     answer.Lease  `json:"lease"`
	Memory    *memoryView   `json:"memory"`
	Cost      *costView     `json:"cost,omitempty"`
	Nodes     []answer.Node `json:"nodes"`
	Totals    agent.Totals  `json:"totals"`
	Counters  []counterView `json:"counters"`
	Notes     []string      `json:"notes,omitempty"`
	// Selectors are what the nodes were named by; containers that they match join
	// when they start if WatchContainers is set.
	Selectors       []string `json:"selectors,omitempty"`
	WatchContainers bool     `json:"watch_containers,omitempty"`
}

type optionsView struct {
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

type agentView struct {
	Alive bool   `json:"alive"`
	PID   int    `json:"pid,omitempty"`
	Log   string `json:"log"`
	// Troubles is what it fails to do again and again, as where the disk is full.
	Troubles []agent.Trouble `json:"troubles,omitempty"`

	process agent.Process
}

type counterView struct {
	Name  string `json:"name"`
	Group string `json:"group"` // total, measured, not_measured, notice
	Value uint64 `json:"value"`
	Help  string `json:"help"`
}

// NewStatusCmd returns "radar status".
func NewStatusCmd(k *kit.Kit) *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show nodes, ports, totals and counters",
		Long: `Show what is attached, whether its agent lives, and what became of every packet:

  seen = delivered + left + lost + expired + ignored + in flight + not measured + unread

A packet of which there were copies counts once: as delivered if any copy was.
"not measured" has a counter for each reason. "unread" packets were measured, and
the ring came round to their slots before the agent, or anyone else, had read what
became of them: more slots or a living agent help. What does not add up is shown as
"unaccounted": while packets pass, counters and ring are read a moment apart.

STATE is what the kernel says of a port now: up, down, or "no carrier", which is up itself,
but nobody is at the other end: its peer is down.

What the agent cannot do, as follow the topology where the disk of the state directory is
full, is a note here and beside every answer, until it can again.

Counters that are 0 are shown in JSON only; -o wide explains each.

-o wide also shows what radar itself costs: how much of one core the agent has used
since it started, its own memory, and how long the hooks take, ns a run (a run is a packet,
a train of packets in one buffer, or, of the loss hook, any buffer that the machine
frees as a drop). The kernel measures programs only while it is told to: for that
-o wide switches kernel.bpf_stats_enabled on for 0.2 s, as bpftool does, unless it is on
already. Meanwhile each run of every BPF program of the machine takes some 50 ns more.
The numbers are averages over all that the kernel has measured since attach. -o json has
what was measured before, and switches nothing on.`,
		Example: "  radar status\n  radar status -o wide\n  radar status -o json | jq .totals",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return status(k, cmd.Context()) },
	}
}

func status(k *kit.Kit, ctx context.Context) error {
	handle, err := datapath.Open(k.Domain)
	if err != nil {
		return err
	}
	defer handle.Close()
	reader, note, err := agent.OpenReader(k.Domain)
	if err != nil {
		return err
	}
	defer reader.Close()
	reader.Collector.AsItStands()
	k.ShowNames(reader.Domain)
	view, err := newStatusView(k, handle, reader)
	if err != nil {
		return err
	}
	if k.Output != kit.FormatTable {
		if view.Cost, err = newCostView(ctx, handle, view.Agent.process, k.Output == kit.FormatWide); err != nil {
			return err
		}
	}
	if note != "" {
		view.Notes = append(view.Notes, note)
	}
	if k.Output == kit.FormatJSON {
		return kit.PrintJSON(k.Out, view)
	}
	return printStatus(k, view)
}

func newStatusView(k *kit.Kit, h *datapath.Handle, r *agent.Reader) (*statusView, error) {
	d := h.Domain
	v := &statusView{
		Domain: d.Name, Attached: d.Created, LossHook: d.LossHook, LocalHook: d.LocalHook, QueueHook: d.QueueHook, ChangeHook: d.ChangeHook,
		Options: newOptionsView(d.Options),
		Memory:  newMemoryView(h.Memory()), Nodes: shownNodes(d),
		Selectors: d.Selectors, WatchContainers: d.WatchContainers,
	}
	answer.AddStates(v.Nodes, d)
	process, err := agent.Find(d.Name)
	if err != nil {
		return nil, err
	}
	v.Agent = agentView{Alive: process.PID != 0, PID: process.PID, Log: domain.File(d.Name, "agent.log"), process: process}
	if v.Agent.Alive {
		if v.Agent.Troubles, err = process.Troubles(); err != nil {
			return nil, err
		}
		for i := range v.Agent.Troubles {
			v.Agent.Troubles[i].Error = kit.Face.Render(v.Agent.Troubles[i].Error)
		}
		v.Notes = k.Texts(answer.TroubleNotes(d.Name, v.Agent.Troubles))
	}
	if v.Lease, err = answer.LeaseOf(h); err != nil {
		return nil, err
	}
	if err := r.Collector.Poll(); err != nil {
		return nil, fmt.Errorf("read the ring: %w", err)
	}
	counters, err := h.Counters()
	if err != nil {
		return nil, fmt.Errorf("read counters: %w", err)
	}
	v.Totals = agent.NewTotals(counters, r.Collector.Totals())
	v.Counters = counterViews(counters)
	if !v.Agent.Alive {
		v.Notes = append(v.Notes, words.NoAgentText(v.Lease, d.Name))
	}
	if text := h.Crowded(); text != "" {
		v.Notes = append(v.Notes, text)
	}
	if text := merge.NumbersUsedUp(d); text != "" {
		v.Notes = append(v.Notes, text)
	}
	if len(v.Nodes) == 0 && !v.WatchContainers {
		v.Notes = append(v.Notes, "no node is left: what was measured is still here; end the domain with: radar detach"+words.DomainFlag(d.Name))
	}
	return v, nil
}

func newOptionsView(o domain.Options) optionsView {
	return optionsView{
		Slots: o.Slots, SlotBytes: o.SlotBytes, GUIDBits: o.GUIDBits,
		Carry: carriedIn(o.MarkMask), TimeoutNs: int64(o.Timeout), LeaseNs: int64(o.Lease),
		Keys: o.Keys, Hook: o.Hook, IPv6: o.IPv6, LabelUsers: o.LabelUsers, Watch: o.Watch,
	}
}

func counterViews(counters []datapath.Counter) []counterView {
	views := make([]counterView, len(counters))
	for i, c := range counters {
		views[i] = counterView{Name: c.Name, Group: string(c.Group), Value: c.Value, Help: kit.Face.Render(c.Help)}
	}
	return views
}
