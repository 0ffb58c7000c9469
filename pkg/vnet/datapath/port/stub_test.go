// SPDX-License-Identifier: Apache-2.0

package port

import (
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/pkg/bpfobj"
	"github.com/vnetradar/radar/pkg/loader"
	"github.com/vnetradar/radar/pkg/system"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// The stub hands the port's number over and jumps; without a target it passes.
func TestStub(t *testing.T) {
	need.AsRoot(t)
	progs, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.ProgramArray, KeySize: 4, ValueSize: 4, MaxEntries: uint32(bpfobj.TcRdrProgRDR_PROG_MAX)})
	if err != nil {
		t.Fatal(err)
	}
	defer progs.Close()
	packet := make([]byte, 64)
	for i, d := range system.Directions {
		stub, err := newStub(d, &domain.Port{ID: 4242}, progs)
		if err != nil {
			t.Fatal(err)
		}
		defer stub.Close()
		if ret, _, err := stub.Test(packet); err != nil || int32(ret) != tcNext {
			t.Errorf("%s without a program: %d, %v", d, int32(ret), err)
		}
		target, err := ebpf.NewProgram(&ebpf.ProgramSpec{
			Type: ebpf.SchedCLS, License: loader.License,
			Instructions: asm.Instructions{
				asm.LoadMem(asm.R0, asm.R1, skbCB, asm.Word),
				asm.Add.Imm(asm.R0, int32(i)),
				asm.Return(),
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		defer target.Close()
		if err := progs.Put(uint32(targets[d]), target); err != nil {
			t.Fatal(err)
		}
		if ret, _, err := stub.Test(packet); err != nil || ret != 4242+uint32(i) {
			t.Errorf("%s jumps to %d, %v", d, ret, err)
		}
	}
}
