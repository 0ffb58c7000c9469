// SPDX-License-Identifier: Apache-2.0

package loader

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"golang.org/x/net/bpf"

	"github.com/vnetradar/radar/lab/test/need"
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

func loadTc(t *testing.T) *ebpf.CollectionSpec {
	t.Helper()
	spec, err := bpfobj.LoadTc()
	if err != nil {
		t.Fatal(err)
	}
	return spec
}

// ttlIs matches packets of IPv4 with this TTL.
func ttlIs(t *testing.T, ttl uint32) []bpf.RawInstruction {
	return assemble(t, bpf.LoadAbsolute{Off: 8, Size: 1}, bpf.JumpIf{Val: ttl, SkipFalse: 1}, bpf.RetConstant{Val: 262144}, bpf.RetConstant{Val: 0})
}

// The expression takes the function's place in all programs that source, under its name and
// type; nothing else changes.
func TestSetWatch(t *testing.T) {
	plain, spec := loadTc(t), loadTc(t)
	if err := SetWatch(spec, ttlIs(t, 64)); err != nil {
		t.Fatal(err)
	}
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
}

// The first entry that matches counts, and entries behind one that matches everything never do. The
// kernel runs the function.
func TestEntries(t *testing.T) {
	need.AsRoot(t)
	short := assemble(t, bpf.LoadExtension{Num: bpf.ExtLen}, bpf.JumpIf{Cond: bpf.JumpLessThan, Val: 60, SkipFalse: 1}, bpf.RetConstant{Val: 1}, bpf.RetConstant{Val: 0})
	beyond := assemble(t, bpf.LoadAbsolute{Off: 500, Size: 4}, bpf.RetConstant{Val: 1})
	for _, c := range []struct {
		name    string
		entries [][]bpf.RawInstruction
		want    map[uint8]uint32 // by TTL
	}{
		{"none", nil, map[uint8]uint32{1: 0, 64: 0}},
		{"one", [][]bpf.RawInstruction{ttlIs(t, 64)}, map[uint8]uint32{1: 0, 64: 1}},
		{"in order", [][]bpf.RawInstruction{ttlIs(t, 1), ttlIs(t, 64), ttlIs(t, 1), ttlIs(t, 2)}, map[uint8]uint32{1: 1, 64: 2, 2: 4, 3: 0}},
		{"all others", [][]bpf.RawInstruction{ttlIs(t, 1), nil, ttlIs(t, 64)}, map[uint8]uint32{1: 1, 64: 2, 2: 2}},
		{"not there", [][]bpf.RawInstruction{beyond, ttlIs(t, 64)}, map[uint8]uint32{64: 2}},
		{"length", [][]bpf.RawInstruction{short, ttlIs(t, 64)}, map[uint8]uint32{64: 2}},
	} {
		body, err := watchBody(c.entries)
		if err != nil {
			t.Fatal(err)
		}
		p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SchedCLS, License: License, Instructions: slices.Concat(asm.Instructions{
			asm.Mov.Imm(watchL3, 14), asm.Mov.Imm(watchLen, 86),
		}, body)})
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		for ttl, want := range c.want {
			packet := make([]byte, 100)
			packet[12], packet[14], packet[14+8] = 0x08, 0x45, ttl
			if got, _, err := p.Test(packet); err != nil || got != want {
				t.Errorf("%s: TTL %d matches entry %d, want %d (%v)", c.name, ttl, got, want, err)
			}
		}
		p.Close()
	}
}

func TestSetWatchErrors(t *testing.T) {
	loop := []bpf.RawInstruction{{Op: 0x05, K: ^uint32(1)}, {Op: 0x06}} // ja -2
	if err := SetWatch(loadTc(t), loop); !errors.Is(err, fault.Usage) {
		t.Errorf("a loop: %v", err)
	}
	spec, err := bpfobj.LoadTrace()
	if err != nil {
		t.Fatal(err)
	}
	if err := SetWatch(spec, assemble(t, bpf.RetConstant{Val: 1})); !errors.Is(err, fault.NotLoaded) {
		t.Errorf("an object without the function: %v", err)
	}
}

// What the verifier refuses is told with the expression's size.
func TestWatchError(t *testing.T) {
	refused := &ebpf.VerifierError{Log: []string{"BPF program is too large"}}
	if err := WatchError(0, refused); err != error(refused) {
		t.Errorf("without an expression: %v", err)
	}
	err := WatchError(1, Error("load programs", refused))
	var verifier *ebpf.VerifierError
	if !errors.Is(err, fault.NotLoaded) || !errors.As(err, &verifier) || !strings.Contains(err.Error(), "‹watch›") {
		t.Errorf("with an expression: %v", err)
	}
}
