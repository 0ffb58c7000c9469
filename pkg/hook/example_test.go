// SPDX-License-Identifier: Apache-2.0

package hook_test

import (
	"errors"
	"fmt"
	"log"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"github.com/vnetradar/radar/pkg/hook"
)

// A program at an interface's egress, that outlives the process: by TCX where the kernel has it, else by clsact.
func ExampleTC() {
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: "example", Type: ebpf.SchedCLS, License: "GPL", Instructions: asm.Instructions{
		asm.Mov.Imm(asm.R0, -1), // TC_ACT_UNSPEC: the next program decides
		asm.Return(),
	}})
	if err != nil {
		log.Fatal(err)
	}
	defer prog.Close()

	at := hook.TC{By: hook.ByTCX, Ifindex: 7, Direction: hook.Egress, Pin: "/sys/fs/bpf/example/egress"}
	if !hook.Probe().TCX {
		at = hook.TC{By: hook.ByClsact, Ifindex: 7, Direction: hook.Egress, Name: "example"}
		if _, err := hook.EnsureClsact(at.Ifindex); err != nil {
			log.Fatal(err)
		}
	}
	if err := at.Attach(prog); errors.Is(err, hook.ErrPermission) {
		log.Fatal("this needs root: ", err)
	} else if err != nil {
		log.Fatal(err)
	}
	fmt.Println("attached:", at.Stands())

	if err := at.Detach(); err != nil { // any process can, later
		log.Fatal(err)
	}
}

// What a pin of an earlier process holds in place, and how it is taken off.
func ExampleLook() {
	const pin = "/sys/fs/bpf/example/egress"
	standing, err := hook.Look(pin)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%+v\n", standing)
	if err := hook.Detach(pin); err != nil {
		log.Fatal(err)
	}
}
