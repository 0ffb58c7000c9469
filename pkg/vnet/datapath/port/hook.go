// SPDX-License-Identifier: Apache-2.0

// Package port puts the domain's two programs on an interface and takes them off: which hook the kernel offers, how
// ours is recognised there, and what an error means to the user. It writes no table; what the programs know of the
// port is package datapath's business.
package port

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/cilium/ebpf"

	"github.com/vnetradar/radar/pkg/bpfobj"
	"github.com/vnetradar/radar/pkg/hook"
	"github.com/vnetradar/radar/pkg/host"
	"github.com/vnetradar/radar/pkg/loader"
	"github.com/vnetradar/radar/pkg/system"
	"github.com/vnetradar/radar/pkg/vnet/datapath/program"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// Sides are the two hooks of a port. Ingress comes first: a port that only
// restores is harmless, one that only marks is not.
var Sides = [2]Side{
	{Direction: hook.Ingress, Stub: "rdr_in", prog: bpfobj.TcRdrProgRDR_PROG_INGRESS},
	{Direction: hook.Egress, Stub: "rdr_out", prog: bpfobj.TcRdrProgRDR_PROG_EGRESS},
}

// At is one of a port's hooks, with what the domain's program there is known by.
func (d Side) At(dom *domain.Domain, port *domain.Port) hook.TC {
	return domain.Kind.At(dom.Name, dom.Options.Hook, strconv.Itoa(int(port.ID)), port.Ifindex, d.Direction)
}

// put loads the program of one hook of a port and lets attach put it there.
func (d Side) put(port *domain.Port, progs *ebpf.Map, attach func(*ebpf.Program) error) error {
	stub, err := newStub(d, port, progs)
	if err != nil {
		return loader.Error("load "+d.Stub, err)
	}
	defer stub.Close()
	return d.Failed(attach(stub))
}

// Attach attaches both programs to a port; progs is the array of the domain's programs. It runs in the
// port's namespace. On failure nothing of it stays.
func Attach(dom *domain.Domain, port *domain.Port, progs *ebpf.Map) error {
	for _, d := range Sides {
		if err := d.put(port, progs, d.At(dom, port).Attach); err != nil {
			_ = Detach(dom, port) // the first error is the one to tell
			return err
		}
	}
	return nil
}

// Replace is Attach for an interface that has the programs of another port of
// the domain, and never has none. With TCX those stay behind the new ones, until they
// are detached; clsact filters are exchanged. On failure the filters are as they were.
func Replace(dom *domain.Domain, old, port *domain.Port, progs *ebpf.Map) error {
	if dom.Options.Hook == program.HookTCX {
		return Attach(dom, port, progs)
	}
	for _, d := range Sides {
		if err := d.put(port, progs, d.At(dom, port).Replace); err != nil {
			for _, d := range Sides {
				_ = d.put(old, progs, d.At(dom, old).Replace) // the first error is the one to tell
			}
			return err
		}
	}
	return nil
}

// Detach takes both programs off a port, in the reverse order, and with them
// a clsact qdisc that is ours and empty. It runs in the port's namespace where
// that still exists. What is gone already is no error.
func Detach(dom *domain.Domain, port *domain.Port) error {
	var errs []error
	for i := len(Sides) - 1; i >= 0; i-- {
		d := Sides[i]
		errs = append(errs, d.Failed(d.At(dom, port).Detach()))
	}
	if dom.Options.Hook == program.HookClsact {
		for _, d := range Sides {
			other := hook.Filter{Ifindex: port.Ifindex, Direction: d.Direction}
			errs = append(errs, other.RemoveOthers(func(name string) bool { return IsPayloadFilter(dom.Name, name) }))
		}
	}
	err := errors.Join(errs...)
	if dom.Options.Hook == program.HookTCX || err != nil || !port.OwnQdisc {
		return err
	}
	return hook.RemoveClsact(port.Ifindex)
}

// Attached says whether both programs are on the port: its interface can be gone
// and another one have its number. It runs in the port's namespace.
func Attached(dom *domain.Domain, port *domain.Port) bool {
	for _, d := range Sides {
		if !d.At(dom, port).Stands() {
			return false
		}
	}
	return true
}

// PayloadFilterName is what the filters of a process are called that captures payload of a domain (pkg/vnet/payload).
// They end with the process, but for their stubs, which do nothing then: the next capture, or detaching, removes those.
func PayloadFilterName(domainName string, of host.Process) string {
	return fmt.Sprintf("%s%d:%d", payloadPrefix(domainName), of.PID, of.Start)
}

func payloadPrefix(domainName string) string { return system.Payload.Filters + domainName + ":" }

// IsPayloadFilter reports whether a filter is one of these.
func IsPayloadFilter(domainName, name string) bool {
	return strings.HasPrefix(name, payloadPrefix(domainName))
}

// IsStalePayloadFilter reports whether it is one whose process has ended.
func IsStalePayloadFilter(domainName, name string) bool {
	var of host.Process
	_, err := fmt.Sscanf(strings.TrimPrefix(name, payloadPrefix(domainName)), "%d:%d", &of.PID, &of.Start)
	return IsPayloadFilter(domainName, name) && (err != nil || !of.Alive())
}

// Failed is what an error of one of a port's hooks means to the user.
func (d Side) Failed(err error) error {
	return loader.HookError(d.Stub, system.Suffix(d.Direction), err)
}
