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

	"github.com/vnetradar/radar/pkg/hook"
	"github.com/vnetradar/radar/pkg/host"
	"github.com/vnetradar/radar/pkg/system"
	"github.com/vnetradar/radar/pkg/vnet/datapath/program"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// At is a port as the hall knows it.
func At(dom *domain.Domain, port *domain.Port) system.Port {
	return system.Port{Kind: domain.Kind, Domain: dom.Name, By: dom.Options.Hook, Name: strconv.Itoa(int(port.ID)), Ifindex: port.Ifindex}
}

// Attach attaches both programs to a port, and notes whether a clsact qdisc was made; progs is the array of the domain's programs. It
// runs in the port's namespace. On failure nothing of it stays.
func Attach(dom *domain.Domain, port *domain.Port, progs *ebpf.Map) error {
	stubs, err := newStubs(port, progs)
	if err != nil {
		return err
	}
	defer stubs.Close()
	made, err := At(dom, port).Attach(stubs, true)
	port.OwnQdisc = made
	return err
}

// Replace is Attach for an interface that has the programs of another port of
// the domain, and never has none. With TCX those stay behind the new ones, until they
// are detached; clsact filters are exchanged. On failure the filters are as they were.
func Replace(dom *domain.Domain, old, port *domain.Port, progs *ebpf.Map) error {
	if dom.Options.Hook == program.HookTCX {
		return Attach(dom, port, progs)
	}
	err := replace(dom, port, progs)
	if err != nil {
		_ = replace(dom, old, progs) // what fails there says less than the first error
	}
	return err
}

// replace tries both sides: what is put back on one must not depend on the other.
func replace(dom *domain.Domain, port *domain.Port, progs *ebpf.Map) error {
	stubs, err := newStubs(port, progs)
	if err != nil {
		return err
	}
	defer stubs.Close()
	var errs []error
	for _, d := range system.Directions {
		errs = append(errs, system.Backpack.Failed(d, At(dom, port).At(d).Replace(stubs[d])))
	}
	return errors.Join(errs...)
}

// Detach takes both programs off a port, and with them a clsact qdisc that is ours and empty. It runs in the port's namespace where
// that still exists. What is gone already is no error.
func Detach(dom *domain.Domain, port *domain.Port) error {
	var errs []error
	if dom.Options.Hook == program.HookClsact {
		for _, d := range system.Directions {
			other := hook.Filter{Ifindex: port.Ifindex, Direction: d}
			errs = append(errs, other.RemoveOthers(func(name string) bool { return IsPayloadFilter(dom.Name, name) }))
		}
	}
	return errors.Join(append(errs, At(dom, port).TakeOff(port.OwnQdisc))...)
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
