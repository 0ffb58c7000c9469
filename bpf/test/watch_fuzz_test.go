// SPDX-License-Identifier: Apache-2.0

package test

import (
	"slices"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"golang.org/x/net/bpf"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/pkg/bpfobj"
	"github.com/vnetradar/radar/pkg/filter"
)

// function is the one that the expression becomes, as a program of its own: to load
// all of radar takes the verifier a second.
type function struct {
	testing.TB
	*ebpf.Program
}

func newFunction(t testing.TB, text string) function {
	t.Helper()
	need.AsRoot(t)
	spec, err := bpfobj.LoadTc()
	if err != nil {
		t.Fatal(err)
	}
	(&domain{TB: t}).watch(spec, text)
	const name, cb0, cb1 = "watched", 48, 52 // offsets in struct __sk_buff
	radar := spec.Programs[bpfobj.TcProgRadarEgress].Instructions
	from := slices.IndexFunc(radar, func(in asm.Instruction) bool { return in.Symbol() == name })
	to := from + 1
	for btf.FuncMetadata(&radar[to]) == nil {
		to++
	}
	body := slices.Clone(radar[from:to])
	body[0].Metadata = asm.Metadata{}
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type: ebpf.SchedCLS, License: "Dual BSD/GPL",
		Instructions: slices.Concat(asm.Instructions{
			asm.LoadMem(asm.R2, asm.R1, cb0, asm.Word),
			asm.LoadMem(asm.R3, asm.R1, cb1, asm.Word),
		}, body),
	})
	if err != nil {
		t.Fatalf("%q: %+v", text, err)
	}
	t.Cleanup(func() { prog.Close() })
	return function{t, prog}
}

// matches asks about the packet whose IP header begins at l3.
func (f function) matches(data []byte, l3, length int) bool {
	f.Helper()
	in := skBuff{Cb: [5]uint32{uint32(l3), uint32(length)}}
	ret, err := f.Run(&ebpf.RunOptions{Data: data, Context: &in})
	if err != nil {
		f.Fatal(err)
	}
	return ret != 0
}

// FuzzWatch compares the compiled expressions with the classic BPF they were made
// from, on packets of packets.py with some bytes changed, cut off anywhere.
//
// The input: expression, packet (2 bytes), where it ends, then offset and value of
// each byte to change.
func FuzzWatch(f *testing.F) {
	needExpressions(f)
	names := sendable(f)
	functions := make([]function, len(expressions))
	machines := make([]*bpf.VM, len(expressions))
	for i, text := range expressions {
		functions[i], machines[i] = newFunction(f, text), machine(f, text)
	}
	for j := range names {
		f.Add([]byte{byte(j), byte(j), byte(j >> 8), 0})
		f.Add([]byte{byte(j + 7), byte(j), byte(j >> 8), byte(20 + j), 9, 6})
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		if len(in) < 4 {
			return
		}
		i := int(in[0]) % len(expressions)
		data := packet(t, names[(int(in[1])|int(in[2])<<8)%len(names)])
		at := ipAt(data)
		if end := at + int(in[3]); in[3] > 0 && end < len(data) {
			data = data[:end]
		}
		for in = in[4:]; len(in) > 1; in = in[2:] {
			if off := at + int(in[0]); off < len(data) {
				data[off] = in[1]
			}
		}
		if !runnable(data) {
			return
		}
		want, err := machines[i].Run(data[at:])
		if err != nil {
			t.Fatal(err)
		}
		if got := (function{t, functions[i].Program}).matches(data, at, len(data)-at); got != (want != 0) {
			t.Errorf("%q: matches %v, classic BPF says %v: %x", expressions[i], got, want != 0, data)
		}
	})
}

// machine runs an expression as it is. It knows no negation: times -1 is the same.
func machine(t testing.TB, text string) *bpf.VM {
	t.Helper()
	e, err := filter.Compile(text)
	if err != nil {
		t.Fatal(err)
	}
	insns, _ := bpf.Disassemble(e.Instructions())
	for i := range insns {
		if _, ok := insns[i].(bpf.NegateA); ok {
			insns[i] = bpf.ALUOpConstant{Op: bpf.ALUOpMul, Val: ^uint32(0)}
		}
	}
	vm, err := bpf.NewVM(insns)
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return vm
}
