// SPDX-License-Identifier: Apache-2.0

package program

import (
	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"github.com/vnetradar/radar/pkg/hook"
	"github.com/vnetradar/radar/pkg/host/kernel"
	"github.com/vnetradar/radar/pkg/loader"
)

// Features are what the running kernel and this process can do.
type Features struct {
	Kernel string `json:"kernel"` // release
	CPUs   int    `json:"cpus"`   // possible ones: what per-CPU maps count
	BTF    bool   `json:"btf"`    // the kernel describes its types

	// Tested says whether the process had the rights to try the following.
	Tested   bool `json:"tested"`
	TCX      bool `json:"tcx"`       // 6.6
	Clsact   bool `json:"clsact"`    // sch_clsact and cls_bpf
	DropHook bool `json:"drop_hook"` // tp_btf/kfree_skb can be loaded
	LocalIn  bool `json:"local_in"`  // netfilter programs, 6.4

	QueueHook bool `json:"queue_hook"` // tp_btf/qdisc_dequeue can be loaded

	DropReason bool `json:"drop_reason"` // kfree_skb says why, 5.17

	NoSocket uint32 `json:"-"` // the reason SKB_DROP_REASON_NO_SOCKET, 0 if there is none

	CoarseClock bool `json:"coarse_clock"` // bpf_ktime_get_coarse_ns, 5.11
	Iterators   bool `json:"iterators"`    // loops by open-coded iterators, 6.4

	TCRedirects bool    `json:"tc_redirects"` // TC programs can see what tc has redirected
	redirects   skbBits // where

	BPFFS    string `json:"bpffs"`    // where it is mounted, "" if nowhere
	Memlock  bool   `json:"memlock"`  // maps count as locked memory, before 5.11
	Kallsyms bool   `json:"kallsyms"` // addresses of kernel functions can be read
	Caps     uint64 `json:"caps"`     // effective capabilities
}

// Probe finds out what the kernel and this process can do. It works for any user;
// what takes rights to try is false then, and so is Tested. What it loads and
// attaches, it does in a network namespace of its own, and takes it away again.
func Probe() Features {
	f := Features{Kernel: kernel.Release(), CPUs: 1}
	if n, err := ebpf.PossibleCPU(); err == nil {
		f.CPUs = n
	}
	f.Caps, _ = kernel.EffectiveCaps() // none held, if they cannot be read
	f.BTF, f.DropReason, f.NoSocket = kernel.DropReasons()
	f.Iterators = kernel.Iterators()
	f.Memlock = kernel.Older(f.Kernel, 5, 11)
	f.Kallsyms = kernel.ShowsSymbols()
	if hook.IsMounted() {
		f.BPFFS = hook.BPFFS
	}
	if len(kernel.MissingCaps(f.Caps)) > 0 {
		return f
	}
	f.Tested = true
	_ = loader.RaiseMemlock() // else all looks missing; whoever loads for good tells of the error
	f.DropHook, f.QueueHook = f.BTF && hook.Traces("kfree_skb"), f.BTF && hook.Traces("qdisc_dequeue")
	f.CoarseClock = hasCoarseClock()
	f.redirects = findRedirects()
	f.TCRedirects = f.redirects != skbBits{}
	hooks := hook.Probe()
	f.TCX, f.Clsact, f.LocalIn = hooks.TCX, hooks.Clsact, hooks.Netfilter
	return f
}

func hasCoarseClock() bool {
	return kernel.Takes(&ebpf.ProgramSpec{
		Type: ebpf.SchedCLS, License: loader.License,
		Instructions: asm.Instructions{asm.FnKtimeGetCoarseNs.Call(), asm.Mov.Imm(asm.R0, 0), asm.Return()},
	})
}

// skbBits says where in struct sk_buff the kernel notes what tc does with a packet, as the
// programs want it: byte << 8 | mask.
type skbBits struct{ redirected, again uint32 }

// findRedirects reads it from the kernel's types; nothing, if not all is known, or if TC programs
// cannot read it.
func findRedirects() skbBits {
	bits, ok := kernel.SkbBits("redirected", "tc_skip_classify")
	readable := ok && kernel.Takes(&ebpf.ProgramSpec{
		Type: ebpf.SchedCLS, License: loader.License,
		Instructions: asm.Instructions{
			asm.Mov.Reg(asm.R3, asm.R1), asm.Mov.Reg(asm.R1, asm.RFP), asm.Add.Imm(asm.R1, -8), asm.Mov.Imm(asm.R2, 1),
			asm.FnProbeReadKernel.Call(), asm.Mov.Imm(asm.R0, 0), asm.Return(),
		},
	})
	if !readable {
		return skbBits{}
	}
	return skbBits{redirected: bits[0], again: bits[1]}
}
