// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"bufio"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/kernel"
	"github.com/vnetradar/radar/pkg/topo"
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

	TCRedirects bool    `json:"tc_redirects"` // TC programs can see what tc has redirected
	redirects   skbBits // where

	BPFFS    string `json:"bpffs"`    // where it is mounted, "" if nowhere
	Memlock  bool   `json:"memlock"`  // maps count as locked memory, before 5.11
	Kallsyms bool   `json:"kallsyms"` // addresses of kernel functions can be read
	Caps     uint64 `json:"caps"`     // effective capabilities
}

// bpffsPath is where the BPF file system is mounted by everyone.
const bpffsPath = "/sys/fs/bpf"

// Probe finds out what the kernel and this process can do. It works for any user;
// what takes rights to try is false then, and so is Tested. What it loads and
// attaches, it does in a network namespace of its own, and takes it away again.
func Probe() Features {
	f := Features{Kernel: kernel.Release(), CPUs: 1}
	if n, err := ebpf.PossibleCPU(); err == nil {
		f.CPUs = n
	}
	f.Caps, _ = effectiveCaps() // none held, if they cannot be read
	f.BTF, f.DropReason, f.NoSocket = dropReason()
	f.Memlock = kernel.Older(f.Kernel, 5, 11)
	f.Kallsyms = kallsymsReadable()
	if isBPFFS(bpffsPath) {
		f.BPFFS = bpffsPath
	}
	if len(missingCaps(f.Caps)) > 0 {
		return f
	}
	f.Tested = true
	_ = raiseMemlock() // else all looks missing; whoever loads for good tells of the error
	traces := func(tracepoint string) bool {
		return f.BTF && loads(&ebpf.ProgramSpec{
			Type: ebpf.Tracing, AttachType: ebpf.AttachTraceRawTp, AttachTo: tracepoint, License: license,
			Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()},
		})
	}
	f.DropHook, f.QueueHook = traces("kfree_skb"), traces("qdisc_dequeue")
	f.CoarseClock = loads(&ebpf.ProgramSpec{
		Type: ebpf.SchedCLS, License: license,
		Instructions: asm.Instructions{asm.FnKtimeGetCoarseNs.Call(), asm.Mov.Imm(asm.R0, 0), asm.Return()},
	})
	f.redirects = findSkbBits()
	f.TCRedirects = f.redirects != skbBits{} && loads(&ebpf.ProgramSpec{
		Type: ebpf.SchedCLS, License: license,
		Instructions: asm.Instructions{
			asm.Mov.Reg(asm.R3, asm.R1), asm.Mov.Reg(asm.R1, asm.RFP), asm.Add.Imm(asm.R1, -8), asm.Mov.Imm(asm.R2, 1),
			asm.FnProbeReadKernel.Call(), asm.Mov.Imm(asm.R0, 0), asm.Return(),
		},
	})
	if !f.TCRedirects {
		f.redirects = skbBits{}
	}
	f.TCX, f.Clsact = probeHooks()
	// The error is that of something not working, which is what is found out.
	_ = topo.DoInNew(func() error {
		f.LocalIn = probeLocalIn()
		return nil
	})
	return f
}

// dropReason says whether the kernel's types can be read, and whether its
// kfree_skb tracepoint has a reason; noSocket is one of them.
func dropReason() (hasBTF, hasReason bool, noSocket uint32) {
	spec, err := btf.LoadKernelSpec()
	if err != nil {
		return false, false, 0
	}
	var typedef *btf.Typedef
	if spec.TypeByName("btf_trace_kfree_skb", &typedef) != nil {
		return true, false, 0
	}
	pointer, _ := btf.UnderlyingType(typedef.Type).(*btf.Pointer)
	if pointer == nil {
		return true, false, 0
	}
	proto, _ := btf.UnderlyingType(pointer.Target).(*btf.FuncProto)
	if proto == nil {
		return true, false, 0
	}
	// context, skb, location, reason
	var reasons *btf.Enum
	if spec.TypeByName("skb_drop_reason", &reasons) == nil {
		for _, v := range reasons.Values {
			if v.Name == "SKB_DROP_REASON_NO_SOCKET" {
				noSocket = uint32(v.Value)
			}
		}
	}
	return true, len(proto.Params) >= 4, noSocket
}

// skbBits says where in struct sk_buff the kernel notes what tc does with a packet, as the
// programs want it: byte << 8 | mask.
type skbBits struct{ redirected, again uint32 }

// findSkbBits reads it from the kernel's types; nothing, if not all is known.
func findSkbBits() skbBits {
	spec, err := btf.LoadKernelSpec()
	if err != nil {
		return skbBits{}
	}
	var skb *btf.Struct
	if spec.TypeByName("sk_buff", &skb) != nil {
		return skbBits{}
	}
	redirected, ok := findBit(skb.Members, 0, "redirected")
	again, okAgain := findBit(skb.Members, 0, "tc_skip_classify")
	if !ok || !okAgain {
		return skbBits{}
	}
	return skbBits{redirected: redirected, again: again}
}

// findBit finds a field of one bit, also in members without a name, which begin at base.
func findBit(members []btf.Member, base btf.Bits, name string) (bit uint32, ok bool) {
	for _, m := range members {
		at := base + m.Offset
		switch t := btf.UnderlyingType(m.Type).(type) {
		case *btf.Struct:
			if m.Name == "" {
				bit, ok = findBit(t.Members, at, name)
			}
		case *btf.Union:
			if m.Name == "" {
				bit, ok = findBit(t.Members, at, name)
			}
		default:
			if m.Name == name && m.BitfieldSize == 1 {
				return uint32(at/8)<<8 | 1<<(at%8), true
			}
		}
		if ok {
			return bit, true
		}
	}
	return 0, false
}

// loads says whether the kernel takes the program.
func loads(spec *ebpf.ProgramSpec) bool {
	p, err := ebpf.NewProgramWithOptions(spec, ebpf.ProgramOptions{LogDisabled: true})
	if err != nil {
		return false
	}
	p.Close()
	return true
}

// probeHooks attaches a program that does nothing to the loopback interface of a
// new network namespace.
func probeHooks() (tcx, clsact bool) {
	// The error is that of something not working, which is what is found out.
	_ = topo.DoInNew(func() error {
		p, err := ebpf.NewProgram(&ebpf.ProgramSpec{
			Name: "rdr_probe", Type: ebpf.SchedCLS, License: license,
			Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, tcNext), asm.Return()},
		})
		if err != nil {
			return err
		}
		defer p.Close()
		const loopback = 1 // ifindex, in every namespace
		l, err := link.AttachTCX(link.TCXOptions{Interface: loopback, Program: p, Attach: ebpf.AttachTCXIngress})
		if err == nil {
			tcx = true
			l.Close()
		}
		if _, err := ensureClsact(loopback); err == nil {
			clsact = addFilter(loopback, directions[0], "radar:probe", p) == nil
		}
		return nil
	})
	return tcx, clsact
}

func isBPFFS(path string) bool {
	var st unix.Statfs_t
	return unix.Statfs(path, &st) == nil && st.Type == unix.BPF_FS_MAGIC
}

// kallsymsReadable says whether /proc/kallsyms shows addresses and not zeros.
func kallsymsReadable() bool {
	f, err := os.Open("/proc/kallsyms")
	if err != nil {
		return false
	}
	defer f.Close()
	// The first symbols can be per-CPU offsets that really are 0.
	sc := bufio.NewScanner(f)
	for range 1000 {
		if !sc.Scan() {
			return false
		}
		if addr, _, _ := strings.Cut(sc.Text(), " "); strings.Trim(addr, "0") != "" {
			return true
		}
	}
	return false
}

// otherMountNS says whether this process sees other mounts than process 1. Where that one
// shows nobody its namespaces, other ancestors tell of `ip netns exec`.
func otherMountNS() bool {
	mountNS := func(process string) string {
		ns, _ := os.Readlink("/proc/" + process + "/ns/mnt")
		return ns
	}
	var ancestors []string
	for pid := os.Getppid(); pid > 1; pid = parentOf(pid) {
		ancestors = append(ancestors, mountNS(strconv.Itoa(pid)))
	}
	return isOtherMountNS(mountNS("self"), mountNS("1"), ancestors)
}

// isOtherMountNS decides for a process by the mount namespaces of itself, of process 1 and
// of what lies between; "" where one cannot be read.
func isOtherMountNS(ours, first string, ancestors []string) bool {
	if first != "" {
		return ours != first
	}
	return slices.ContainsFunc(ancestors, func(ns string) bool { return ns != "" && ns != ours })
}

// parentOf a process; 0 if it has none here.
func parentOf(pid int) int {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		if value, ok := strings.CutPrefix(line, "PPid:"); ok {
			parent, err := strconv.Atoi(strings.TrimSpace(value))
			if err != nil {
				return 0
			}
			return parent
		}
	}
	return 0
}
