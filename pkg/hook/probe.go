// SPDX-License-Identifier: Apache-2.0

package hook

import (
	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"github.com/vnetradar/radar/pkg/host"
	"github.com/vnetradar/radar/pkg/host/kernel"
)

// Support is which hooks the running kernel has. Whether there is XDP depends on the interface:
// try it, the error has a kind.
type Support struct {
	TCX       bool // 6.6
	Clsact    bool // sch_clsact and cls_bpf
	Netfilter bool // 6.4
}

// license of the probes: what they call is for anybody.
const license = "Dual BSD/GPL"

// Probe attaches programs that do nothing, in a network namespace of its own, and takes them away
// again. It takes the rights to attach; without them all looks missing.
func Probe() (s Support) {
	// The error is that of something not working, which is what is found out.
	_ = host.InNewNetns(func() error {
		const loopback = 1 // ifindex, in every namespace
		s.Netfilter = holds(Netfilter{Hook: LocalIn, Priority: First}, &ebpf.ProgramSpec{
			Name: "rdr_probe", Type: ebpf.Netfilter, AttachType: ebpf.AttachNetfilter, License: license,
			Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 1), asm.Return()}, // NF_ACCEPT
		})
		p, err := ebpf.NewProgram(tcProbe)
		if err != nil {
			return err
		}
		defer p.Close()
		if l, err := Attach(p, TCX{Ifindex: loopback}); err == nil {
			s.TCX = true
			l.Close()
		}
		if _, err := EnsureClsact(loopback); err == nil {
			s.Clsact = Filter{Ifindex: loopback, Name: "radar:probe"}.Add(p) == nil
		}
		return nil
	})
	return s
}

var tcProbe = &ebpf.ProgramSpec{
	Name: "rdr_probe", Type: ebpf.SchedCLS, License: license,
	Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, -1), asm.Return()}, // TC_ACT_UNSPEC
}

// holds reports whether a program of that kind can be loaded and attached.
func holds(at Point, spec *ebpf.ProgramSpec) bool {
	p, err := ebpf.NewProgram(spec)
	if err != nil {
		return false
	}
	defer p.Close()
	l, err := Attach(p, at)
	if err != nil {
		return false
	}
	l.Close()
	return true
}

// Traces reports whether a program for that raw tracepoint, such as "kfree_skb", can be loaded.
// It takes a kernel with BTF.
func Traces(tracepoint string) bool {
	return kernel.Takes(&ebpf.ProgramSpec{
		Type: ebpf.Tracing, AttachType: ebpf.AttachTraceRawTp, AttachTo: tracepoint, License: license,
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()},
	})
}
