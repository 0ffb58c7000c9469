// SPDX-License-Identifier: Apache-2.0

package payload

import (
	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"github.com/vnetradar/radar/pkg/bpfobj"
	"github.com/vnetradar/radar/pkg/hook"
	"github.com/vnetradar/radar/pkg/loader"
)

// skbCB is the offset of cb[0] in struct __sk_buff.
const skbCB = 48

// tcNext is TC_ACT_UNSPEC and TCX_NEXT: go on with the next program.
const tcNext = -1

// stubNames are what the stubs are called in the kernel. They do not begin as those of the domain's programs do, behind
// which others go.
var stubNames = map[hook.Direction]string{hook.Ingress: "payload_in", hook.Egress: "payload_out"}

// newStub loads the program that is attached to one hook of one port: it says where it is, and jumps to the program
// that all share. When the process that holds progs ends, however it ends, the kernel empties progs: then it does
// nothing.
//
// It must load on 5.10, which takes no immediate store to the context.
func newStub(s *spot, progs *ebpf.Map) (*ebpf.Program, error) {
	where := int32(s.port.ID)
	if s.direction == hook.Egress {
		where |= int32(bpfobj.PayloadRdrPayloadWhereRDR_PAYLOAD_OUT)
	}
	if s.before {
		where |= int32(bpfobj.PayloadRdrPayloadWhereRDR_PAYLOAD_BEFORE)
	}
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: stubNames[s.direction], Type: ebpf.SchedCLS, License: loader.License,
		Instructions: asm.Instructions{
			asm.Mov.Imm(asm.R4, where),
			asm.StoreMem(asm.R1, skbCB, asm.R4, asm.Word),
			asm.LoadMapPtr(asm.R2, progs.FD()),
			asm.Mov.Imm(asm.R3, 0),
			asm.FnTailCall.Call(),
			asm.Mov.Imm(asm.R0, tcNext),
			asm.Return(),
		},
	})
	if err != nil {
		return nil, loader.Error("load "+stubNames[s.direction], err)
	}
	return prog, nil
}
