// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
)

// Takes reports whether the kernel loads the program.
func Takes(spec *ebpf.ProgramSpec) bool {
	// In a collection, since a program alone reads all types of the kernel anew.
	c, err := ebpf.NewCollectionWithOptions(&ebpf.CollectionSpec{Programs: map[string]*ebpf.ProgramSpec{"": spec}},
		ebpf.CollectionOptions{Programs: ebpf.ProgramOptions{LogDisabled: true}, Cache: Types()})
	if err != nil {
		return false
	}
	c.Close()
	return true
}

// DropReasons reports whether the kernel's types can be read, and whether its
// kfree_skb tracepoint has a reason; noSocket is SKB_DROP_REASON_NO_SOCKET, 0 if there is none.
func DropReasons() (hasBTF, hasReason bool, noSocket uint32) {
	spec, err := Types().Kernel()
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

// Iterators reports whether programs may loop by open-coded iterators (Linux 6.4): the kernel's types name
// their functions, which the loader must find.
func Iterators() bool {
	spec, err := Types().Kernel()
	if err != nil {
		return false
	}
	for _, name := range []string{"bpf_iter_num_new", "bpf_iter_num_next", "bpf_iter_num_destroy"} {
		var fn *btf.Func
		if spec.TypeByName(name, &fn) != nil {
			return false
		}
	}
	return true
}

// SkbBits says where in struct sk_buff each of these fields of one bit is: byte << 8 | mask. It
// reads that from the kernel's types. ok: all are known.
func SkbBits(names ...string) (bits []uint32, ok bool) {
	spec, err := Types().Kernel()
	if err != nil {
		return nil, false
	}
	var skb *btf.Struct
	if spec.TypeByName("sk_buff", &skb) != nil {
		return nil, false
	}
	for _, name := range names {
		bit, ok := findBit(skb.Members, 0, name)
		if !ok {
			return nil, false
		}
		bits = append(bits, bit)
	}
	return bits, true
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

// IsProgramSymbol reports whether a line of /proc/kallsyms is a BPF program's. These come behind all
// of the kernel's own and of modules, and whoever looks for functions of the kernel should stop at the
// first one: to make the line of the n-th, the kernel walks over all n before it. With the programs of
// thirty domains loaded, reading them took ten seconds.
func IsProgramSymbol(line []byte) bool { return bytes.HasSuffix(line, []byte("\t[bpf]")) }

// ShowsSymbols reports whether /proc/kallsyms shows addresses and not zeros.
func ShowsSymbols() bool {
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

// InOtherMountNS reports whether this process sees other mounts than process 1. Where that one
// shows nobody its namespaces, other ancestors show `ip netns exec`.
func InOtherMountNS() bool {
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
