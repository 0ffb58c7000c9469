// SPDX-License-Identifier: Apache-2.0

package port

import (
	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"github.com/vnetradar/radar/pkg/bpfobj"
	"github.com/vnetradar/radar/pkg/hook"
	"github.com/vnetradar/radar/pkg/host/kernel"
	"github.com/vnetradar/radar/pkg/loader"
	"github.com/vnetradar/radar/pkg/system"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// skbCB is the offset of cb[0] in struct __sk_buff.
const skbCB = 48

// tcNext is TC_ACT_UNSPEC and TCX_NEXT: go on with the next program.
const tcNext = -1

// targets are the shared programs that stubs jump to.
var targets = [2]bpfobj.TcRdrProg{hook.Ingress: bpfobj.TcRdrProgRDR_PROG_INGRESS, hook.Egress: bpfobj.TcRdrProgRDR_PROG_EGRESS}

// newStubs loads the programs that are attached to the hooks of one port.
func newStubs(port *domain.Port, progs *ebpf.Map) (stubs system.Pair, err error) {
	for _, d := range system.Directions {
		if stubs[d], err = newStub(d, port, progs); err != nil {
			stubs.Close()
			return system.Pair{}, loader.Error("load "+system.Backpack.Program(d), err)
		}
	}
	return stubs, nil
}

// newStub loads one that puts the port's number where the shared program looks for it and jumps there. While
// the shared program is missing packets pass untouched.
//
// It must load on 5.10, which takes no immediate store to the context.
func newStub(d hook.Direction, port *domain.Port, progs *ebpf.Map) (*ebpf.Program, error) {
	prog := int32(targets[d])
	if d == hook.Ingress && IsUnreadable(port) {
		prog = -1 // there is none: all passes untouched
	}
	if err := loader.RaiseMemlock(); err != nil {
		return nil, err
	}
	return ebpf.NewProgramWithOptions(&ebpf.ProgramSpec{
		Name: system.Backpack.Program(d), Type: ebpf.SchedCLS, License: loader.License,
		Instructions: asm.Instructions{
			asm.Mov.Imm(asm.R4, int32(port.ID)),
			asm.StoreMem(asm.R1, skbCB, asm.R4, asm.Word),
			asm.LoadMapPtr(asm.R2, progs.FD()),
			asm.Mov.Imm(asm.R3, prog),
			asm.FnTailCall.Call(),
			asm.Mov.Imm(asm.R0, tcNext),
			asm.Return(),
		},
	}, ebpf.ProgramOptions{})
}

// IsUnreadable says whether a program at the port's ingress cannot tell where a packet begins:
// before Linux 5.14 the headers that an IP or GRE tunnel took off stay its link layer header, and
// nothing says how long they are. Such a tunnel is no link of the domain (pkg/vnet/topo); what comes
// out of it is measured from where it leaves the node.
func IsUnreadable(p *domain.Port) bool {
	return p.Tunnel && p.L3 && kernel.Older(kernel.Release(), 5, 14)
}
