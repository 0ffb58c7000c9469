// SPDX-License-Identifier: Apache-2.0

package program

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

// watchFunction is the function of bpf/backpack/watch.h that says which packets are
// measured.
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

// maxL3 bounds where the IP header can begin: MAX_PULL of bpf/backpack/packet.h - 1.
const maxL3 = 127

// SetWatch puts a program of classic BPF, as libpcap compiles a filter expression for
// packets that begin at the IP header, in place of the function that says which
// packets are measured. The programs ask it where cfg_watch is set.
//
// What the program reads beyond the end of the skb's linear part is not there: the
// packet does not match.
func SetWatch(spec *ebpf.CollectionSpec, program []bpf.RawInstruction) error {
	body, err := watchBody(program)
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

// watchBody is the function with the expression in it.
func watchBody(program []bpf.RawInstruction) (asm.Instructions, error) {
	insns, ok := bpf.Disassemble(program)
	if !ok {
		return nil, errors.New("it has instructions that are not known")
	}
	const result = "watch_result"
	match, err := cbpfc.ToEBPF(insns, cbpfc.EBPFOpts{
		PacketStart: watchStart,
		PacketEnd:   watchEnd,
		Result:      asm.R0,
		ResultLabel: result,
		Working:     [4]asm.Register{watchA, watchX, asm.R8, asm.R9},
		LabelPrefix: "watch",
	})
	if err != nil {
		return nil, err
	}
	useLength(match)
	return slices.Concat(asm.Instructions{
		asm.LoadMem(watchStart, watchSkb, skbData, asm.Word),
		asm.LoadMem(watchEnd, watchSkb, skbDataEnd, asm.Word),
		asm.And.Imm(watchL3, maxL3),
		asm.Add.Reg(watchStart, watchL3),
	}, match, asm.Instructions{
		asm.Return().WithSymbol(result),
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

// watchError adds to the kernel's refusal that the expression may be to blame.
func watchError(o Options, err error) error {
	var verifier *ebpf.VerifierError
	if len(o.WatchProgram) == 0 || !errors.As(err, &verifier) {
		return err
	}
	return fmt.Errorf("%w (the expression of ‹watch› makes %d instructions: is it too large for this kernel? name networks instead of hosts)", err, len(o.WatchProgram))
}
