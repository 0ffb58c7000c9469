// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"

	"github.com/vnetradar/radar/pkg/bpfobj"
	"github.com/vnetradar/radar/pkg/domain"
	"github.com/vnetradar/radar/pkg/fault"
)

// directions are the two hooks of a port. Ingress comes first: a port that only
// restores is harmless, one that only marks is not.
var directions = [2]direction{
	{name: "in", stub: "rdr_in", prog: bpfobj.TcRdrProgRDR_PROG_INGRESS,
		attach: ebpf.AttachTCXIngress, parent: netlink.HANDLE_MIN_INGRESS},
	{name: "out", stub: "rdr_out", prog: bpfobj.TcRdrProgRDR_PROG_EGRESS,
		attach: ebpf.AttachTCXEgress, parent: netlink.HANDLE_MIN_EGRESS},
}

// chooseHook settles "auto" and refuses what the kernel lacks.
func chooseHook(want string, f Features) (string, error) {
	switch {
	case want == HookTCX && !f.TCX:
		return "", fault.Unsupported.Errorf("this kernel (%s) has no TCX, which came with Linux 6.6: use ‹hook› auto or clsact", f.Kernel)
	case want == HookClsact && !f.Clsact:
		return "", fault.Unsupported.Errorf("this kernel (%s) has no clsact with BPF: modprobe sch_ingress cls_bpf, or use ‹hook› auto", f.Kernel)
	case want == HookTCX, want == HookAuto && f.TCX:
		return HookTCX, nil
	case f.Clsact:
		return HookClsact, nil
	}
	return "", fault.Unsupported.Errorf("this kernel (%s) has neither TCX nor clsact with BPF: see «check»", f.Kernel)
}

// attachPort attaches both programs to a port. It runs in the port's namespace.
// On failure nothing of it stays.
func attachPort(dom *domain.Domain, port *domain.Port, progs *ebpf.Map) error {
	for _, d := range directions {
		if err := attachHook(dom, port, d, progs); err != nil {
			_ = detachPort(dom, port) // the first error is the one to tell
			return err
		}
	}
	return nil
}

func attachHook(dom *domain.Domain, port *domain.Port, d direction, progs *ebpf.Map) error {
	stub, err := newStub(d, port, progs)
	if err != nil {
		return bpfError("load "+d.stub, err)
	}
	defer stub.Close()
	if dom.Options.Hook == HookTCX {
		return attachTCX(port.Ifindex, d, stub, linkPin(dom.Name, port.ID, d))
	}
	return addFilter(port.Ifindex, d, filterName(dom.Name), stub)
}

// replacePort is attachPort for an interface that has the programs of another port of
// the domain, and never has none. With TCX those stay behind the new ones, until they
// are detached; clsact filters are exchanged. On failure the filters are as they were.
func replacePort(dom *domain.Domain, old, port *domain.Port, progs *ebpf.Map) error {
	if dom.Options.Hook == HookTCX {
		return attachPort(dom, port, progs)
	}
	for _, d := range directions {
		if err := exchangeFilter(dom, port, d, progs); err != nil {
			for _, d := range directions {
				_ = exchangeFilter(dom, old, d, progs) // the first error is the one to tell
			}
			return err
		}
	}
	return nil
}

// exchangeFilter makes the domain's filter at one hook the port's.
func exchangeFilter(dom *domain.Domain, port *domain.Port, d direction, progs *ebpf.Map) error {
	stub, err := newStub(d, port, progs)
	if err != nil {
		return bpfError("load "+d.stub, err)
	}
	defer stub.Close()
	return replaceFilter(port.Ifindex, d, filterName(dom.Name), stub)
}

// detachPort takes both programs off a port, in the reverse order, and with them
// a clsact qdisc that is ours and empty. It runs in the port's namespace where
// that still exists. What is gone already is no error.
func detachPort(dom *domain.Domain, port *domain.Port) error {
	if dom.Options.Hook == HookTCX {
		return detachTCX(dom.Name, port.ID)
	}
	return detachClsact(port.Ifindex, dom.Name, port.OwnQdisc)
}

// attached says whether both programs are on the port: its interface can be gone
// and another one have its number. It runs in the port's namespace.
func attached(dom *domain.Domain, port *domain.Port) bool {
	for _, d := range directions {
		if !hookAttached(dom, port, d) {
			return false
		}
	}
	return true
}

// hookAttached is attached for one of the two programs.
func hookAttached(dom *domain.Domain, port *domain.Port, d direction) bool {
	if dom.Options.Hook == HookTCX {
		return tcxAttached(linkPin(dom.Name, port.ID, d), port.Ifindex)
	}
	return filterAttached(port.Ifindex, d, filterName(dom.Name))
}

// filterName is how our clsact filters are recognised.
func filterName(domainName string) string { return fmt.Sprintf("radar:%s", domainName) }
