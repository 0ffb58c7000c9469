// SPDX-License-Identifier: Apache-2.0

package system

import (
	"errors"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/hook"
	"github.com/vnetradar/radar/pkg/host"
	"github.com/vnetradar/radar/pkg/loader"
)

// pinned is a kind of test whose domain has a directory of pins, which goes with the test.
func pinned(t *testing.T) (Kind, string) {
	t.Helper()
	need.AsRoot(t)
	k, domain := kindOfTest(t), nstest.Unique()
	k.Layer, k.Prefix = Layer{Programs: "test_", Ends: [2]string{"in", "out"}, Filters: "radar-test:", Gives: hook.Ingress}, "test_"
	if err := errors.Join(loader.RaiseMemlock(), loader.MountPins(), k.MakePins(domain)); err != nil {
		t.Fatal(err)
	}
	nstest.Cleanup(t, func() {
		if err := k.RemovePins(domain); err != nil {
			t.Error(err)
		}
	})
	return k, domain
}

// A map that is pinned is used again if it is the one that is described, and shared memory is of whole values.
func TestMakeMap(t *testing.T) {
	k, domain := pinned(t)
	spec := &ebpf.MapSpec{Name: "a_map_of_a_long_name", Type: ebpf.Array, KeySize: 4, ValueSize: 16, MaxEntries: 3, Flags: 1 << 10 /* BPF_F_MMAPABLE */}
	open := func() *ebpf.Map {
		t.Helper()
		m, err := k.MakeMap(domain, "m", spec)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { m.Close() })
		return m
	}
	type value struct{ A, B uint64 }
	if _, err := OpenMemory[value](k, domain, "m"); !errors.Is(err, ErrNoPin) {
		t.Errorf("memory of no map: %v", err)
	}
	first := open()
	mem, err := MapMemory[value](first)
	if err != nil {
		t.Fatal(err)
	}
	defer mem.Close()
	mem[2].B = 7
	if _, err := MapMemory[uint64](first); err == nil {
		t.Error("values of 16 bytes were mapped as those of 8")
	}
	var got value
	if err := open().Lookup(uint32(2), &got); err != nil || got.B != 7 {
		t.Errorf("the map again: %+v, %v", got, err)
	}
	spec.MaxEntries = 5
	if err := open().Lookup(uint32(2), &got); err != nil || got.B != 0 {
		t.Errorf("one of another size: %+v, %v", got, err)
	}
	spec.ValueSize = 8
	if _, err := k.MakeMap(domain, "m", spec); !errors.Is(err, ErrDamaged) {
		t.Errorf("values of another size: %v", err)
	}
	if info, err := first.Info(); err != nil || info.Name != "test_a_map_of_a" {
		t.Errorf("the kernel calls it %q, %v", info.Name, err)
	}
}

func program(t *testing.T, kind ebpf.ProgramType) *ebpf.Program {
	t.Helper()
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: kind, License: loader.License, Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, -1), asm.Return()}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// Both programs are attached, or none; what stands already stays, or is replaced; and a qdisc that is not ours is left.
func TestPort(t *testing.T) {
	k, domain := pinned(t)
	n := nstest.New(t, "a")
	n.Veth("a", "e0", "a", "e1")
	ns, _, err := host.OpenNetns(n.Path("a"))
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	good, other := program(t, ebpf.SchedCLS), program(t, ebpf.SchedCLS)
	bad := program(t, ebpf.SocketFilter)
	has := hook.Probe()
	for by, there := range map[string]bool{hook.ByTCX: has.TCX, hook.ByClsact: has.Clsact} {
		if !there {
			continue
		}
		p := Port{Kind: k, Domain: domain, By: by, Name: "1", Ifindex: n.Index("a", "e0")}
		err := host.InNetns(ns, func() error {
			stand := func(what string, in, out bool) {
				t.Helper()
				if p.At(hook.Ingress).Stands() != in || p.At(hook.Egress).Stands() != out || p.Stands() != (in && out) {
					t.Errorf("%s, %s: ingress %t, egress %t", by, what, p.At(hook.Ingress).Stands(), p.At(hook.Egress).Stands())
				}
			}
			lacks := func(what string, want bool) {
				t.Helper()
				if lacks, err := hook.LacksClsact(p.Ifindex); err != nil || lacks != want {
					t.Errorf("%s, %s: the qdisc is missing: %t, %v", by, what, lacks, err)
				}
			}
			_, err := p.Attach(Pair{hook.Ingress: bad, hook.Egress: good}, false) // egress comes first
			if err == nil || !strings.Contains(err.Error(), "test_in") {
				t.Errorf("%s: a program that is none of TC's: %v", by, err)
			}
			stand("after a failure", false, false)
			lacks("after a failure", true)
			made, err := p.Attach(Pair{good, good}, false)
			if err != nil || made != (by == hook.ByClsact) {
				t.Errorf("%s: a qdisc was made: %t, %v", by, made, err)
			}
			stand("attached", true, true)
			if err := p.At(hook.Egress).Detach(); err != nil {
				t.Error(err)
			}
			stand("one taken off", true, false)
			for _, replace := range []bool{false, true} {
				if made, err := p.Attach(Pair{other, other}, replace); err != nil || made {
					t.Errorf("%s: a qdisc was made: %t, %v", by, made, err)
				}
				stand("attached again", true, true)
			}
			if err := p.TakeOff(false); err != nil {
				t.Error(err)
			}
			stand("taken off", false, false)
			lacks("with a qdisc that is not ours", by == hook.ByTCX)
			if err := p.TakeOff(true); err != nil {
				t.Error(err)
			}
			lacks("with ours", true)
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}
