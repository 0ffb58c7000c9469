// SPDX-License-Identifier: Apache-2.0

package test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"
)

// The test_run of old kernels (5.10) cannot say by which interface a packet came: there
// the programs read skb->priority, of which they know nothing else, in place of
// skb->ingress_ifindex. All else is as it ships.

// noIngressIfindex says whether this kernel's test_run refuses skb->ingress_ifindex.
var noIngressIfindex = sync.OnceValue(func() bool {
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SchedCLS, License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()}})
	if err != nil {
		return false // the programs themselves will say why
	}
	defer p.Close()
	_, err = p.Run(&ebpf.RunOptions{Data: make([]byte, 64), Context: &skBuff{IngressIfindex: 1}})
	lacks := errors.Is(err, unix.EINVAL)
	if lacks {
		fmt.Fprintln(os.Stderr, "lacks: ingress_ifindex in test_run (the programs read priority in its place)")
	}
	return lacks
})

// readPriority has all programs read skb->priority in place of skb->ingress_ifindex.
func readPriority(t testing.TB, spec *ebpf.CollectionSpec) {
	t.Helper()
	const from, to = int16(unsafe.Offsetof(skBuff{}.IngressIfindex)), int16(unsafe.Offsetof(skBuff{}.Priority))
	changed := 0
	for _, p := range spec.Programs {
		line := ""
		for i := range p.Instructions {
			ins := &p.Instructions[i]
			if s := ins.Source(); s != nil {
				line = s.String()
			}
			if strings.Contains(line, "skb->priority") {
				t.Fatalf("%s uses skb->priority: the tests cannot", p.Name)
			}
			if ins.OpCode == asm.LoadMemOp(asm.Word) && ins.Offset == from && strings.Contains(line, "skb->ingress_ifindex") {
				ins.Offset = to
				changed++
			}
		}
	}
	if changed == 0 {
		t.Fatal("no program reads skb->ingress_ifindex")
	}
}
