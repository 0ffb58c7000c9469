// SPDX-License-Identifier: Apache-2.0

package test

import (
	"slices"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
)

// callee is one of a program's functions that the verifier checks once (GLOBAL), to be run alone, with the domain's maps:
// what the kernel gives these programs no test can make at will.
type callee struct {
	load func() (*ebpf.CollectionSpec, error) // the objects that have it
	name string
	skb  *skBuff        // its first argument; nil: it has none
	vars map[string]any // beside those of the domain
}

// call runs a function and returns the lower half of what it returns. args are those behind the skb.
func (d *domain) call(f callee, args ...uint64) uint32 {
	d.Helper()
	needBTF(d)
	spec, err := f.load()
	d.must("objects", err)
	d.configure(spec, config{bounded: boundedLoops || !hasIterators()})
	for name, v := range f.vars {
		d.must(name, spec.Variables[name].Set(v))
	}
	spec.Programs = map[string]*ebpf.ProgramSpec{"call": {
		Type: ebpf.SchedCLS, License: "GPL", ByteOrder: spec.ByteOrder, Instructions: append(f.main(args), f.instructions(d, spec)...),
	}}
	shared := make(map[string]*ebpf.Map)
	for name := range spec.Maps {
		if m := d.Maps[name]; m != nil && !strings.HasPrefix(name, ".") {
			shared[name] = m
		}
	}
	coll, err := ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{MapReplacements: shared})
	d.must("load "+f.name, err)
	defer coll.Close()
	run := &ebpf.RunOptions{Data: make([]byte, 64)}
	if f.skb != nil {
		run.Context = f.skb.bytes()
	}
	got, err := coll.Programs["call"].Run(run)
	d.must("run "+f.name, err)
	return got
}

// main is a program that calls the function.
func (f callee) main(args []uint64) (list asm.Instructions) {
	first := asm.R1
	if f.skb != nil {
		first = asm.R2
	}
	for i, v := range args {
		list = append(list, asm.LoadImm(first+asm.Register(i), int64(v), asm.DWord))
	}
	call := asm.Instruction{OpCode: asm.OpCode(asm.JumpClass).SetJumpOp(asm.Call), Src: asm.PseudoCall, Constant: -1}
	list = append(list, call.WithReference(f.name), asm.Return())
	list[0] = btf.WithFuncMetadata(list[0].WithSymbol("call"), &btf.Func{Name: "call", Linkage: btf.StaticFunc, Type: &btf.FuncProto{
		Return: &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed},
		Params: []btf.FuncParam{{Name: "skb", Type: &btf.Pointer{Target: &btf.Void{}}}},
	}})
	return list
}

// instructions are the function's, and those of the functions that it calls: the verifier takes no others.
func (f callee) instructions(d *domain, spec *ebpf.CollectionSpec) (list asm.Instructions) {
	d.Helper()
	for _, p := range spec.Programs {
		all := functions(p.Instructions)
		if all[f.name] == nil {
			continue
		}
		for _, name := range closure(all, f.name) {
			for _, ins := range all[name] {
				list = append(list, ins.WithSource(nil)) // main has no lines of a source either
			}
		}
		return list
	}
	d.Fatalf("no program has a function %s", f.name)
	return nil
}

// functions are a program's, by name.
func functions(all asm.Instructions) map[string]asm.Instructions {
	list := make(map[string]asm.Instructions)
	name := ""
	for _, ins := range all {
		if s := ins.Symbol(); s != "" {
			name = s
		}
		list[name] = append(list[name], ins)
	}
	return list
}

// closure is a function and those that it calls.
func closure(all map[string]asm.Instructions, name string) []string {
	list := []string{name}
	for i := 0; i < len(list); i++ {
		for _, ins := range all[list[i]] {
			if f := ins.Reference(); (ins.IsFunctionCall() || ins.IsLoadOfFunctionPointer()) && !slices.Contains(list, f) {
				list = append(list, f)
			}
		}
	}
	return list
}
