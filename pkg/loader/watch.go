// SPDX-License-Identifier: Apache-2.0

package loader

import (
	"errors"
	"fmt"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"github.com/cloudflare/cbpfc"
	"golang.org/x/net/bpf"

	"github.com/vnetradar/radar/pkg/fault"
)

// watchFunction is the function, in the programs of every system that has a watchlist, that says which of
// its entries a packet matches: 0 is none. bpf/backpack/watch.h and bpf/int/node.bpf.c have it.
const watchFunction = "watched"

// The registers of that function: its arguments, and what the compiled expression
// works with.
const (
	watchSkb   = asm.R1
	watchL3    = asm.R2
	watchLen   = asm.R3
	watchStart = asm.R6
	watchEnd   = asm.R7
	watchA     = asm.R4
	watchX     = asm.R5
)

// Offsets in struct __sk_buff.
const (
	skbData    = 76
	skbDataEnd = 80
)

// maxL3 bounds where the IP header can begin, as programs do: MAX_PULL of bpf/backpack/packet.h - 1.
const maxL3 = 127

// SetWatch puts programs of classic BPF, as libpcap compiles filter expressions for packets that begin at
// the IP header, in place of the function that says which entry of a watchlist a packet matches: the first
// one is 1. A program without instructions matches every packet.
//
// What an expression reads beyond the end of the skb's linear part is not there: the packet does not
// match.
func SetWatch(spec *ebpf.CollectionSpec, entries ...[]bpf.RawInstruction) error {
	body, err := watchBody(entries)
	if err != nil {
		return fault.Usage.Errorf("translate the filter expression: %v", err)
	}
	found := false
	for _, p := range spec.Programs {
		from, to := functionRange(p.Instructions, watchFunction)
		if from < 0 {
			continue
		}
		found = true
		// Symbol, type and source line are what the kernel knows the function by.
		body[0].Metadata = p.Instructions[from].Metadata
		p.Instructions = slices.Concat(p.Instructions[:from], body, p.Instructions[to:])
	}
	if !found {
		return fault.NotLoaded.Errorf("the BPF object has no function %s: rebuild radar", watchFunction)
	}
	return nil
}

// functionRange returns where a function's instructions lie, -1 if there are none.
func functionRange(insns asm.Instructions, name string) (from, to int) {
	from = slices.IndexFunc(insns, func(in asm.Instruction) bool { return in.Symbol() == name })
	if from < 0 {
		return -1, -1
	}
	for to = from + 1; to < len(insns); to++ {
		if btf.FuncMetadata(&insns[to]) != nil {
			break
		}
	}
	return from, to
}

// watchBody is the function with the expressions in it.
func watchBody(entries [][]bpf.RawInstruction) (asm.Instructions, error) {
	body := asm.Instructions{
		asm.LoadMem(watchStart, watchSkb, skbData, asm.Word),
		asm.LoadMem(watchEnd, watchSkb, skbDataEnd, asm.Word),
		asm.And.Imm(watchL3, maxL3),
		asm.Add.Reg(watchStart, watchL3),
	}
	for i, entry := range entries {
		number := int32(i + 1)
		if len(entry) == 0 {
			return append(body, asm.Mov.Imm(asm.R0, number), asm.Return()), nil
		}
		match, err := matchEntry(entry, number)
		if err != nil {
			return nil, err
		}
		body = append(body, match...)
	}
	return append(body, asm.Mov.Imm(asm.R0, 0), asm.Return()), nil
}

// matchEntry returns number from the function if the expression matches, else goes on behind it.
func matchEntry(entry []bpf.RawInstruction, number int32) (asm.Instructions, error) {
	insns, ok := bpf.Disassemble(entry)
	if !ok {
		return nil, errors.New("it has instructions that are not known")
	}
	prefix := fmt.Sprintf("watch%d", number)
	result, next := prefix+"_result", prefix+"_next"
	match, err := cbpfc.ToEBPF(insns, cbpfc.EBPFOpts{
		PacketStart: watchStart,
		PacketEnd:   watchEnd,
		Result:      asm.R0,
		ResultLabel: result,
		Working:     [4]asm.Register{watchA, watchX, asm.R8, asm.R9},
		LabelPrefix: prefix,
	})
	if err != nil {
		return nil, err
	}
	useLength(match)
	return slices.Concat(match, asm.Instructions{
		asm.JEq.Imm(asm.R0, 0, next).WithSymbol(result),
		asm.Mov.Imm(asm.R0, number),
		asm.Return(),
		asm.Mov.Imm(asm.R0, 0).WithSymbol(next),
	}), nil
}

// useLength makes "len" the length that the caller gives. cbpfc takes end - start,
// which leaves out what of an skb lies in page fragments.
func useLength(insns asm.Instructions) {
	end := asm.Mov.Reg(watchA, watchEnd)
	for i := range insns {
		if in := &insns[i]; in.OpCode == end.OpCode && in.Dst == end.Dst && in.Src == end.Src {
			in.Src = watchLen
			insns[i+1] = asm.Mov.Reg32(watchA, watchA) // was: less start
		}
	}
}

// WatchError adds to the kernel's refusal that the expressions may be to blame, which have so many
// instructions together.
func WatchError(instructions int, err error) error {
	var verifier *ebpf.VerifierError
	if instructions == 0 || !errors.As(err, &verifier) {
		return err
	}
	return fmt.Errorf("%w (the expression of ‹watch› makes %d instructions: is it too large for this kernel? name networks instead of hosts)", err, instructions)
}
