// SPDX-License-Identifier: Apache-2.0

package domain

import (
	"context"
	"testing"
	"time"

	"github.com/vnetradar/radar/pkg/aggregate"
	"github.com/vnetradar/radar/pkg/answer"
	"github.com/vnetradar/radar/pkg/answer/note"
	"github.com/vnetradar/radar/pkg/answer/status"
	"github.com/vnetradar/radar/pkg/cli/clitest"
	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/host/background"
	"github.com/vnetradar/radar/pkg/system/resident"
	"github.com/vnetradar/radar/pkg/vnet/agent"
	"github.com/vnetradar/radar/pkg/vnet/datapath"
	"github.com/vnetradar/radar/pkg/vnet/datapath/program"
	"github.com/vnetradar/radar/pkg/vnet/domain"
	"github.com/vnetradar/radar/pkg/vnet/rules"
	"github.com/vnetradar/radar/pkg/vnet/topo"
)

func sampleDomain() *domain.Domain {
	return &domain.Domain{
		Version: 1, Name: "default", Epoch: 1, LossHook: "tp_btf/kfree_skb",
		Created: time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC),
		Options: domain.Options{
			Slots: 1 << 20, SlotBytes: 256, GUIDBits: "auto", Carry: "mark", MarkMask: 0xfffff800,
			Timeout: 10 * time.Second, Lease: 30 * time.Second, Keys: 65536, Hook: "tcx", IPv6: "key", LabelUsers: []string{"fq_codel at r1/eth0"},
		},
		Nodes: []domain.Node{
			{ID: 1, Name: "h1", Spec: "netns:h1"},
			{ID: 2, Name: "r1", Spec: "pid:4711"},
			{ID: 3, Name: "gone", Spec: "netns:gone", Removed: true},
			{ID: 4, Name: "bare", Spec: "netns:bare", Header: "nft: inet t c: meta mark set 5"},
			{ID: 5, Name: "vpn", Spec: "netns:vpn", Header: "ip rule: 7: fwmark 0x1/0x1 lookup 100", Apart: "an IPsec policy (10.1.0.0/16 > 10.2.0.0/16)", Late: true},
		},
		Ports: []domain.Port{
			{ID: 0, Node: 1, Name: "eth0", Ifindex: 2, Kind: "veth", Role: domain.Internal, Peer: 1},
			{ID: 1, Node: 2, Name: "eth0", Ifindex: 2, Kind: "veth", Role: domain.Internal, Peer: 0},
			{ID: 2, Node: 2, Name: "eth1", Ifindex: 3, Kind: "veth", Role: domain.Edge, Forced: true, Peer: 3},
			{ID: 3, Node: 3, Name: "eth0", Ifindex: 2, Kind: "veth", Role: domain.Internal, Peer: 2, Removed: true},
		},
	}
}

func sampleCounters() []datapath.Counter {
	return []datapath.Counter{
		{Name: "seen", Group: datapath.GroupTotal, Value: 1000, Help: "IP packets that met a source"},
		{Name: "marked", Group: datapath.GroupMeasured, Value: 990, Help: "packets that got a backpack"},
		{Name: "not_measured_ipv6", Group: datapath.GroupNotMeasured, Value: 10, Help: "IPv6 packets"},
		{Name: "stale", Group: datapath.GroupNotice, Help: "headers that point at a slot which is too old"},
	}
}

func sampleTotals() agent.Totals {
	return agent.NewTotals(sampleCounters(), aggregate.Totals{Delivered: 900, Left: 40, Lost: 42, InFlight: 5, Bytes: 123456})
}

// reports are what commands print about a domain.
var reports = map[string]func(*kit.Kit) error{
	"status": func(k *kit.Kit) error {
		d := sampleDomain()
		left := int64(21_300_000_000)
		v := &status.View{
			Domain: d.Name, Attached: d.Created, LossHook: d.LossHook, Options: status.OptionsOf(d.Options),
			Agent: status.Agent{Log: "/run/radar/default/agent.log"}, Lease: note.Lease{Ends: true, Valid: true, LeftNs: &left},
			Memory: status.MemoryOf(program.Memory{Ring: 256 << 20, Keys: 6 << 20, Other: 6 << 20}),
			Nodes:  answer.Nodes(d), Totals: sampleTotals(), Counters: status.Counters(sampleCounters(), kit.Face),
			Notes: []string{"no agent runs"},
		}
		v.Nodes[0].Ports[0].State, v.Nodes[0].Ports[0].MTU = topo.Up, 1500
		v.Nodes[1].Ports[0].State, v.Nodes[1].Ports[1].State = topo.Down, topo.NoCarrier
		if k.Output == kit.FormatJSON {
			return kit.PrintJSON(k.Out, v)
		}
		return printStatus(k, v)
	},
	"attach": func(k *kit.Kit) error {
		v := newAttachView(&datapath.AttachResult{
			Domain: sampleDomain(), New: true, Memory: program.Memory{Ring: 256 << 20},
			Warnings:  []string{"port r1/eth1 has an XDP program."},
			Conflicts: []rules.Conflict{{Node: "r1", What: "nftables rule", Text: "meta mark set 0xff000000", Mask: 0xff000000}},
		}, false)
		v.Agent = &background.Started{PID: 4712, Log: "/run/radar/default/agent.log"}
		return printAttached(k, v)
	},
	"plan": func(k *kit.Kit) error {
		return printAttached(k, newAttachView(&datapath.AttachResult{Domain: sampleDomain(), New: true, Memory: program.Memory{Ring: 256 << 20}}, true))
	},
	"adopt": func(k *kit.Kit) error {
		return printAttached(k, &attachView{Domain: "default", Agent: &background.Started{PID: 4712, Log: "/run/radar/default/agent.log"}})
	},
	"summary": func(k *kit.Kit) error {
		return printSummary(k, context.Background(), nil, &agent.Summary{
			Domain: "default", Attached: sampleDomain().Created, Duration: 123456 * time.Millisecond,
			Totals: sampleTotals(), Counters: sampleCounters(), Losses: clitest.SampleLosses(), Nodes: 3, Ports: 1,
			Warnings: []string{"a pin could not be removed"},
		}, agent.Interrupted)
	},
	"detach": func(k *kit.Kit) error {
		return printDetached(k, &detachView{Domain: "default", Detached: true, Nodes: 1, Ports: 2, Warnings: []string{"two packets were under way"}})
	},
}

// A lease that the agent fails to renew is not said to be renewed: the note below says that, too.
func TestLeaseText(t *testing.T) {
	left := int64(21_300_000_000)
	v := &status.View{Agent: status.Agent{Alive: true}, Lease: note.Lease{Ends: true, Valid: true, LeftNs: &left}}
	v.Agent.Troubles = []resident.Trouble{{What: "write snapshot"}}
	if text := leaseText(v); text != "21.3s left, the agent renews it" {
		t.Error(text)
	}
	v.Agent.Troubles = append(v.Agent.Troubles, resident.Trouble{What: resident.RenewLease})
	if text := leaseText(v); text != "21.3s left, the agent cannot renew it" {
		t.Error(text)
	}
}

// Everything that is printed for a person, and its JSON, is as committed.
func TestPrintReports(t *testing.T) {
	for name, f := range reports {
		for _, format := range []kit.Format{kit.FormatTable, kit.FormatWide, kit.FormatJSON} {
			t.Run(name+"/"+string(format), func(t *testing.T) {
				clitest.Golden(t, name+"."+string(format), clitest.Printed(t, format, f))
			})
		}
	}
}

// Texts of libraries that go to standard output, as a table or as JSON, are rendered before.
func TestReportsAreRendered(t *testing.T) {
	counters := []datapath.Counter{{Name: "x", Value: 1, Help: clitest.Marked}}
	for name, print := range map[string]func(*kit.Kit) error{
		"attach": func(k *kit.Kit) error {
			d := &domain.Domain{Nodes: []domain.Node{{Name: "n", Header: clitest.Marked}}}
			return printAttached(k, newAttachView(&datapath.AttachResult{Domain: d, Warnings: []string{clitest.Marked}, Notes: []string{clitest.Marked}}, true))
		},
		"counters": func(k *kit.Kit) error { return kit.PrintJSON(k.Out, status.Counters(counters, kit.Face)) },
		"summary": func(k *kit.Kit) error {
			return printSummary(k, context.Background(), nil, &agent.Summary{Warnings: []string{clitest.Marked}, Counters: counters}, agent.Interrupted)
		},
	} {
		t.Run(name, func(t *testing.T) { clitest.WantRendered(t, print) })
	}
}

func TestTopologyIsRendered(t *testing.T) {
	v := shownTopology(&domain.Domain{Nodes: []domain.Node{{Name: "n", Header: clitest.Marked}}})
	if got := v.Nodes[0].Header; got != kit.Face.Render(clitest.Marked) {
		t.Errorf("header: %q", got)
	}
}
