// SPDX-License-Identifier: Apache-2.0

package program

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"golang.org/x/net/bpf"

	"github.com/vnetradar/radar/pkg/bpfobj"
	"github.com/vnetradar/radar/pkg/fault"
)

func assemble(t *testing.T, insns ...bpf.Instruction) []bpf.RawInstruction {
	t.Helper()
	raw, err := bpf.Assemble(insns)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// The expression takes the function's place in all programs that source, under its name and
// type; without one the programs are as they were built.
func TestSetWatch(t *testing.T) {
	plain := newTestBlueprint(t, DefaultOptions()).Specs[0]
	o := DefaultOptions()
	o.Watch = "ip[8] = 64"
	o.WatchProgram = assemble(t,
		bpf.LoadAbsolute{Off: 8, Size: 1}, bpf.JumpIf{Val: 64, SkipFalse: 1}, bpf.RetConstant{Val: 1}, bpf.RetConstant{Val: 0})
	spec := newTestBlueprint(t, o).Specs[0]
	for _, name := range []string{bpfobj.TcProgRadarIngress4, bpfobj.TcProgRadarEgress, bpfobj.TcProgRadarEgress4} {
		was, is := plain.Programs[name].Instructions, spec.Programs[name].Instructions
		from, to := functionRange(was, watchFunction)
		newFrom, newTo := functionRange(is, watchFunction)
		if from < 0 || newFrom != from || newTo-newFrom < 8 {
			t.Fatalf("%s: %s at %d to %d, was %d to %d", name, watchFunction, newFrom, newTo, from, to)
		}
		if f := btf.FuncMetadata(&is[newFrom]); f == nil || f.Name != watchFunction || is[newFrom].Source() == nil {
			t.Errorf("%s: the function has type %v and line %v", name, f, is[newFrom].Source())
		}
		sameInstruction := func(a, b asm.Instruction) bool { return a.OpCode == b.OpCode && a.Symbol() == b.Symbol() }
		if !slices.EqualFunc(was[:from], is[:from], sameInstruction) || !slices.EqualFunc(was[to:], is[newTo:], sameInstruction) {
			t.Errorf("%s: more has changed than the function", name)
		}
	}
	for s, want := range map[*ebpf.CollectionSpec]uint8{plain: 0, spec: 1} {
		var watch uint8
		if err := s.Variables[bpfobj.TcVarCfgWatch].Get(&watch); err != nil || watch != want {
			t.Errorf("cfg_watch is %d, want %d (%v)", watch, want, err)
		}
	}
}

func TestSetWatchErrors(t *testing.T) {
	spec, err := bpfobj.LoadTc()
	if err != nil {
		t.Fatal(err)
	}
	loop := []bpf.RawInstruction{{Op: 0x05, K: ^uint32(1)}, {Op: 0x06}} // ja -2
	if err := SetWatch(spec, loop); !errors.Is(err, fault.Usage) {
		t.Errorf("a loop: %v", err)
	}
	if spec, err = bpfobj.LoadTrace(); err != nil {
		t.Fatal(err)
	}
	if err := SetWatch(spec, assemble(t, bpf.RetConstant{Val: 1})); !errors.Is(err, fault.NotLoaded) {
		t.Errorf("an object without the function: %v", err)
	}
	o := DefaultOptions()
	o.Watch = "udp"
	l, err := o.Layout()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := New(o, l, Features{CPUs: 2}); !errors.Is(err, fault.Usage) || !strings.Contains(err.Error(), "compiled") {
		t.Errorf("an expression that was not compiled: %v", err)
	}
}

// What the verifier refuses is told with the expression's size.
func TestWatchError(t *testing.T) {
	refused := &ebpf.VerifierError{Log: []string{"BPF program is too large"}}
	o := DefaultOptions()
	if err := watchError(o, refused); err != error(refused) {
		t.Errorf("without an expression: %v", err)
	}
	o.WatchProgram = assemble(t, bpf.RetConstant{Val: 1})
	err := watchError(o, Error("load programs", refused))
	var verifier *ebpf.VerifierError
	if !errors.Is(err, fault.NotLoaded) || !errors.As(err, &verifier) || !strings.Contains(err.Error(), "‹watch›") {
		t.Errorf("with an expression: %v", err)
	}
}
