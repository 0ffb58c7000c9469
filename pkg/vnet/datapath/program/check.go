// SPDX-License-Identifier: Apache-2.0

package program

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/vnetradar/radar/pkg/hook"
	"github.com/vnetradar/radar/pkg/host/kernel"
	"github.com/vnetradar/radar/pkg/host/statedir"
	"github.com/vnetradar/radar/pkg/system"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// Level says how grave a finding is.
type Level string

// The levels. Fail: `radar attach` will not work. Warn: it works with less.
const (
	OK   Level = "ok"
	Warn Level = "warn"
	Fail Level = "fail"
)

// Check is one finding about this machine.
type Check struct {
	Name   string `json:"name"`
	Level  Level  `json:"level"`
	Detail string `json:"detail"`
	Fix    string `json:"fix,omitempty"` // what to change, unless all is well
}

// Checks finds out whether radar can work here. It changes nothing and works for
// any user, who then learns what is missing.
func Checks() []Check { return Probe().checks() }

func (f Features) checks() []Check {
	return []Check{
		f.checkKernel(), f.checkRights(), f.checkHook(), f.checkDrops(), f.checkQueues(), f.checkLocalIn(), f.checkMirred(), f.checkPins(), checkState(),
		f.checkMemlock(), f.checkMemory(), f.checkSymbols(), checkJIT(), checkStats(), checkTools(),
	}
}

func (f Features) checkKernel() Check {
	c := Check{Name: "kernel", Level: OK, Detail: f.Kernel}
	if system.IsTooOld(f.Kernel) {
		c.Level, c.Fix = Fail, "use Linux 5.10 or newer"
	}
	return c
}

func (f Features) checkRights() Check {
	c := Check{Name: "rights", Level: OK, Detail: "all capabilities needed"}
	var lacks []string
	for _, missing := range kernel.MissingCaps(f.Caps) {
		c.Level = Fail
		lacks = append(lacks, fmt.Sprintf("no %s (to %s)", missing.Name, missing.Needed))
	}
	for _, wished := range kernel.Capabilities {
		if wished.Without != "" && f.Caps&(1<<wished.Bit) == 0 {
			if c.Level == OK {
				c.Level = Warn
			}
			lacks = append(lacks, fmt.Sprintf("no %s (%s)", wished.Name, wished.Without))
		}
	}
	if c.Level != OK {
		c.Detail, c.Fix = strings.Join(lacks, ", "), "run as root, in a container with --privileged --pid=host"
	}
	return c
}

func (f Features) checkHook() Check {
	c := Check{Name: "hook", Level: OK}
	switch {
	case !f.Tested:
		c.Level, c.Detail, c.Fix = Warn, "not tested: that takes rights", "run as root"
	case f.TCX:
		c.Detail = "TCX"
	case f.Clsact:
		c.Detail = "clsact (TCX needs Linux 6.6)"
	default:
		c.Level, c.Detail = Fail, "neither TCX nor clsact"
		c.Fix = "modprobe sch_ingress cls_bpf, or use a kernel with CONFIG_NET_SCH_INGRESS and CONFIG_NET_CLS_BPF"
	}
	return c
}

func (f Features) checkDrops() Check {
	c := Check{Name: "losses", Level: OK, Detail: "tp_btf/kfree_skb, with reasons"}
	switch {
	case !f.BTF:
		c.Level, c.Detail = Warn, "the kernel has no BTF (/sys/kernel/btf/vmlinux): losses are found by timeout, without reasons"
		c.Fix = "use a kernel with CONFIG_DEBUG_INFO_BTF"
	case !f.Tested:
		c.Level, c.Detail, c.Fix = Warn, "not tested: that takes rights", "run as root"
	case !f.DropHook:
		c.Level, c.Detail = Warn, "tp_btf/kfree_skb cannot be loaded: losses are found by timeout, without reasons"
		c.Fix = "use a kernel with CONFIG_BPF_EVENTS and BPF trampolines, not locked down"
	case !f.DropReason:
		c.Level, c.Detail, c.Fix = Warn, "tp_btf/kfree_skb without reasons", "use Linux 5.17 or newer for drop reasons"
	}
	return c
}

func (f Features) checkLocalIn() Check {
	c := Check{Name: "redirects", Level: OK, Detail: LocalHook + ": packets that NAT or TPROXY redirects to a node itself show as delivered"}
	switch {
	case !f.Tested:
		c.Level, c.Detail, c.Fix = Warn, "not tested: that takes rights", "run as root"
	case !f.LocalIn || !f.BTF:
		c.Level, c.Detail = Warn, "no netfilter programs: packets that NAT or TPROXY redirects to a node itself show as expired"
		c.Fix = "use Linux 6.4 or newer with CONFIG_NETFILTER_BPF_LINK"
	}
	return c
}

func (f Features) checkMirred() Check {
	c := Check{Name: "mirred", Level: OK, Detail: "what tc redirects as it leaves shows the port by which it left"}
	switch {
	case !f.Tested:
		c.Level, c.Detail, c.Fix = Warn, "not tested: that takes rights", "run as root"
	case !f.TCRedirects:
		c.Level, c.Detail = Warn, "TC programs cannot read the kernel's skb: what tc redirects as it leaves shows the first port, and through an IFB counts twice"
		c.Fix = "use a kernel with CONFIG_DEBUG_INFO_BTF, not locked down"
	}
	return c
}

func (f Features) checkQueues() Check {
	c := Check{Name: "queues", Level: OK, Detail: QueueHook + ", attached while a port has a queue"}
	const without = "the wait in a queue is part of the link's time"
	switch {
	case !f.BTF:
		c.Level, c.Detail = Warn, "the kernel has no BTF (/sys/kernel/btf/vmlinux): "+without
		c.Fix = "use a kernel with CONFIG_DEBUG_INFO_BTF"
	case !f.Tested:
		c.Level, c.Detail, c.Fix = Warn, "not tested: that takes rights", "run as root"
	case !f.QueueHook:
		c.Level, c.Detail = Warn, QueueHook+" cannot be loaded: "+without
		c.Fix = "use a kernel with CONFIG_BPF_EVENTS and BPF trampolines, not locked down"
	}
	return c
}

func (f Features) checkPins() Check {
	c := Check{Name: "bpffs", Level: OK, Detail: "mounted at " + f.BPFFS}
	switch {
	case f.BPFFS == "" && kernel.InOtherMountNS():
		c.Level, c.Detail = Fail, "no BPF file system at "+hook.BPFFS+", and this process has a mount namespace of its own: pins would not outlive it"
		c.Fix = "run outside `ip netns exec`; in a container, bind-mount the host's " + hook.BPFFS
	case f.BPFFS == "":
		c.Detail = "not mounted at " + hook.BPFFS + "; «attach» mounts it"
	default:
		c.needs(filepath.Dir(domain.PinDir(domain.DefaultName)))
	}
	return c
}

// checkState says whether this user can keep domains.
func checkState() Check {
	c := Check{Name: "state", Level: OK, Detail: statedir.Root()}
	c.needs(statedir.Root())
	return c
}

// needs fails where this user cannot have a directory.
func (c *Check) needs(dir string) {
	if err := statedir.CanMake(dir); err != nil {
		c.Level, c.Detail, c.Fix = Fail, err.Error(), "run as root: capabilities alone do not let a user have that directory"
		if !errors.Is(err, fs.ErrPermission) {
			c.Fix = "run as its owner, or remove it"
		}
	}
}

func (f Features) checkMemlock() Check {
	c := Check{Name: "memlock", Level: OK, Detail: "maps do not count as locked memory"}
	if f.Memlock {
		c.Detail = "maps count as locked memory before Linux 5.11; radar raises the limit"
	}
	return c
}

func (f Features) checkMemory() Check {
	c := Check{Name: "memory", Level: OK}
	o := DefaultOptions()
	l, err := o.layoutFor(f.CPUs)
	var b *Blueprint
	if err == nil {
		b, err = New(o, l, f)
	}
	if err != nil {
		return Check{Name: c.Name, Level: Fail, Detail: err.Error(), Fix: "rebuild radar"}
	}
	available := memAvailable()
	c.Detail = fmt.Sprintf("%s available, a domain with %d slots takes %s", size(available), l.Slots, b.Memory)
	if b.Memory.check(available) != nil {
		c.Level, c.Fix = Warn, "attach with fewer ‹slots›"
	}
	return c
}

func (f Features) checkSymbols() Check {
	c := Check{Name: "symbols", Level: OK, Detail: "kernel functions can be named"}
	if !f.Kallsyms {
		c.Level, c.Detail = Warn, "/proc/kallsyms shows no addresses: losses have no function name, and drops of packet taps' copies may be taken for losses"
		c.Fix = "run as root with sysctl kernel.kptr_restrict=0 or 1"
	}
	return c
}

func checkJIT() Check {
	c := Check{Name: "jit", Level: OK, Detail: "BPF is compiled"}
	if b, err := os.ReadFile("/proc/sys/net/core/bpf_jit_enable"); err == nil && strings.TrimSpace(string(b)) == "0" {
		c.Level, c.Detail, c.Fix = Warn, "BPF is interpreted, which costs several times as much", "sysctl net.core.bpf_jit_enable=1"
	}
	return c
}

func checkStats() Check {
	c := Check{Name: "bpf_stats", Level: OK, Detail: "run time statistics are off"}
	if b, err := os.ReadFile("/proc/sys/kernel/bpf_stats_enabled"); err == nil && strings.TrimSpace(string(b)) != "0" {
		c.Level, c.Detail, c.Fix = Warn, "run time statistics are on, which slows every program", "sysctl kernel.bpf_stats_enabled=0"
	}
	return c
}

// checkTools looks for what rules.Find runs to give rules their text.
func checkTools() Check {
	c := Check{Name: "tools", Level: OK, Detail: "nft and iptables-save, to show rules that use our mark bits"}
	var missing []string
	for _, tool := range []string{"nft", "iptables-save"} {
		if _, err := exec.LookPath(tool); err != nil {
			missing = append(missing, tool)
		}
	}
	// The kernel says which there are.
	if len(missing) > 0 {
		c.Detail = "no " + strings.Join(missing, ", no ") + ": rules that use our mark bits are shown by number, not by text"
	}
	return c
}
