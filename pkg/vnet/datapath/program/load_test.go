// SPDX-License-Identifier: Apache-2.0

package program

import (
	"errors"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/net/bpf"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/pkg/bpfobj"
	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

func newTestBlueprint(t *testing.T, o Options) *Blueprint {
	t.Helper()
	l, err := o.Layout()
	if err != nil {
		t.Fatal(err)
	}
	b, err := New(o, l, Features{CPUs: 2, BTF: true, DropHook: true, DropReason: true, CoarseClock: true, Iterators: true})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// What config.h declares is what is set, in every object.
func TestConstants(t *testing.T) {
	header, err := os.ReadFile("../../../../bpf/backpack/config.h")
	if err != nil {
		t.Fatal(err)
	}
	var declared []string
	for _, m := range regexp.MustCompile(`(?m)^const volatile .*?\b(cfg_\w+)`).FindAllSubmatch(header, -1) {
		declared = append(declared, string(m[1]))
	}
	if len(declared) < 10 {
		t.Fatalf("found %q in config.h", declared)
	}
	o := with(func(o *Options) { o.Slots, o.MaxHops = 1<<16, 3 })
	for i, spec := range newTestBlueprint(t, o).Specs {
		for _, name := range declared {
			if spec.Variables[name] == nil {
				t.Errorf("object %d has no %s", i, name)
			}
		}
		var slots, cells uint32
		var timeout uint64
		var reason uint8
		for name, out := range map[string]any{"cfg_slots": &slots, "cfg_cells": &cells, "cfg_timeout_ns": &timeout, "cfg_has_reason": &reason} {
			if err := spec.Variables[name].Get(out); err != nil {
				t.Fatal(err)
			}
		}
		if slots != 1<<16 || cells != 13 || timeout != 10e9 || reason != 1 {
			t.Errorf("object %d: slots %d, cells %d, timeout %d, reason %d", i, slots, cells, timeout, reason)
		}
	}
}

// A constant that only one side knows would keep its default in silence.
func TestConstantsMustMatch(t *testing.T) {
	o := DefaultOptions()
	l, err := o.Layout()
	if err != nil {
		t.Fatal(err)
	}
	was := objects
	t.Cleanup(func() { objects = was })
	for what, change := range map[string]func(map[string]*ebpf.VariableSpec){
		"renamed in the object": func(vars map[string]*ebpf.VariableSpec) { delete(vars, "cfg_slots") },
		"new in the object":     func(vars map[string]*ebpf.VariableSpec) { vars["cfg_new"] = vars["cfg_slots"] },
	} {
		objects = []object{{load: func() (*ebpf.CollectionSpec, error) {
			spec, err := bpfobj.LoadTc()
			if err == nil {
				change(spec.Variables)
			}
			return spec, err
		}}}
		_, err := New(o, l, Features{CPUs: 2})
		if !errors.Is(err, fault.NotLoaded) || !strings.Contains(err.Error(), "cfg_") {
			t.Errorf("a constant is %s: %v", what, err)
		}
	}
}

// The programs ask about packets only where there is an expression, which must have been compiled.
func TestWatchIsSet(t *testing.T) {
	o := DefaultOptions()
	for _, want := range []uint8{0, 1} {
		var watch uint8
		if err := newTestBlueprint(t, o).Specs[0].Variables[bpfobj.TcVarCfgWatch].Get(&watch); err != nil || watch != want {
			t.Errorf("cfg_watch is %d, want %d (%v)", watch, want, err)
		}
		o.Watch, o.WatchProgram = "udp", []bpf.RawInstruction{{Op: 0x06, K: 1}} // ret 1
	}
	o.WatchProgram = nil
	l, err := o.Layout()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := New(o, l, Features{CPUs: 2}); !errors.Is(err, fault.Usage) || !strings.Contains(err.Error(), "compiled") {
		t.Errorf("an expression that was not compiled: %v", err)
	}
}

func TestMapSizes(t *testing.T) {
	o := with(func(o *Options) { o.Slots, o.Keys, o.MaxHops = 1<<14, 1000, 2 })
	for _, spec := range newTestBlueprint(t, o).Specs {
		if m := spec.Maps["ring"]; m.MaxEntries != 1<<14 || m.ValueSize != 192 {
			t.Errorf("ring of %d x %d", m.MaxEntries, m.ValueSize)
		}
		if m := spec.Maps["keys"]; m.MaxEntries != 1000 {
			t.Errorf("%d keys", m.MaxEntries)
		}
		if m := spec.Maps["ports"]; m.MaxEntries != 1<<14 {
			t.Errorf("%d ports", m.MaxEntries)
		}
		for name, m := range spec.Maps {
			if strings.HasPrefix(name, ".") {
				continue // the library's own
			}
			if m.Name != domain.Kind.KernelName(name) {
				t.Errorf("map %s is called %q in the kernel", name, m.Name)
			}
		}
	}
}

func TestFindRanges(t *testing.T) {
	// As in /proc/kallsyms: not sorted, data symbols, modules, zeros; nothing is read from the first BPF program on.
	const kallsyms = `0000000000000000 A fixed_percpu_data
ffffffff81000100 T ping_rcv
ffffffff81000200 T after_ping
ffffffff81000150 d inside_ping_but_data
ffffffff81000050 t packet_rcv.cold
ffffffff81000060 t before
ffffffffa0000000 t packet_rcv	[af_packet]
ffffffffa0000080 t packet_rcv_fanout	[af_packet]
ffffffffffffff00 t tpacket_rcv
ffffffffb0000000 t bpf_prog_6deef7357e7b4530_sd_fw_egress	[bpf]
ffffffffb0000100 t packet_rcv
`
	got := findRanges(strings.NewReader(kallsyms), ignoredFuncs, []string{"after_ping", "before"})
	want := []addressRange{
		{0xffffffff81000050, 0xffffffff81000060},
		{0xffffffff81000100, 0xffffffff81000200},
		{0xffffffffa0000000, 0xffffffffa0000080},
	}
	if !slices.Equal(got[0], want) {
		t.Errorf("ranges %x, want %x", got[0], want)
	}
	want = []addressRange{{0xffffffff81000060, 0xffffffff81000100}, {0xffffffff81000200, 0xffffffffa0000000}}
	if !slices.Equal(got[1], want) {
		t.Errorf("ranges %x, want %x", got[1], want)
	}
	got = findRanges(strings.NewReader(strings.Repeat("0000000000000000 t ping_rcv\n", 3)), ignoredFuncs)
	if len(got[0]) != 0 {
		t.Errorf("without rights to see addresses: %x", got)
	}
}

func TestFindRangesOfThisKernel(t *testing.T) {
	need.AsRoot(t) // nobody else sees addresses
	quiet := findQuiet()
	for _, got := range []addressRange{quiet.ignored[0], quiet.otherHost[0], quiet.nonMember[0], quiet.joined[0], quiet.ping[0]} {
		if got.From == 0 || got.To <= got.From {
			t.Errorf("ranges of the running kernel: %x", quiet)
		}
	}
}

// The map of notes has one element for as many slots as the programs look at together, and no CPU's
// block cuts a window, or a word of the map of members.
func TestSlotsPerNote(t *testing.T) {
	spec, err := bpfobj.LoadTc()
	if err != nil {
		t.Fatal(err)
	}
	if n := spec.Maps[bpfobj.TcMapRing].MaxEntries / spec.Maps[bpfobj.TcMapBusy].MaxEntries; n != SlotsPerNote {
		t.Errorf("a note is for %d slots, want %d", n, SlotsPerNote)
	}
	if minBlock%SlotsPerNote != 0 {
		t.Errorf("a block of %d slots cuts a window of %d", minBlock, SlotsPerNote)
	}
}
