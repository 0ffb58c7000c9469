// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/topo"
)

// Our filters: the first of all, for every protocol.
const (
	filterPrio   = 1
	filterHandle = 1
)

// clsactState is what hangs at an interface's ingress point.
type clsactState int

const (
	clsactMissing clsactState = iota
	clsactPresent
	clsactBlocked // an "ingress" qdisc is in its place, which has no egress
)

// findClsact runs in the interface's namespace, as all of this file does.
func findClsact(ifindex int) (clsactState, error) {
	qdiscs, err := topo.RetryDump(func() ([]netlink.Qdisc, error) { return netlink.QdiscList(linkByIndex(ifindex)) })
	if err != nil {
		return clsactMissing, fmt.Errorf("list qdiscs: %w", err)
	}
	for _, q := range qdiscs {
		switch q.Type() {
		case "clsact":
			return clsactPresent, nil
		case "ingress":
			return clsactBlocked, nil
		}
	}
	return clsactMissing, nil
}

// ensureClsact creates the clsact qdisc where it is missing, and says whether it
// did.
func ensureClsact(ifindex int) (created bool, err error) {
	state, err := findClsact(ifindex)
	if err != nil {
		return false, err
	}
	switch state {
	case clsactPresent:
		return false, nil
	case clsactBlocked:
		return false, fault.Usage.Errorf("an ingress qdisc is in the place of clsact: remove it (tc qdisc del dev IF ingress), or use ‹hook› tcx")
	}
	err = netlink.QdiscAdd(&netlink.GenericQdisc{
		QdiscAttrs: netlink.QdiscAttrs{LinkIndex: ifindex, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT},
		QdiscType:  "clsact",
	})
	if errors.Is(err, unix.EEXIST) {
		return false, nil // someone was faster
	}
	if err != nil {
		return false, tcError("add clsact qdisc", err)
	}
	return true, nil
}

func listFilters(ifindex int, d direction) ([]netlink.Filter, error) {
	return topo.RetryDump(func() ([]netlink.Filter, error) { return netlink.FilterList(linkByIndex(ifindex), d.parent) })
}

// addFilter attaches the program before all other filters. Another program's
// filter with our priority is an error that names it: which of the two came first
// would be left to chance.
func addFilter(ifindex int, d direction, name string, prog *ebpf.Program) error {
	filters, err := listFilters(ifindex, d)
	if err != nil {
		return fmt.Errorf("list filters: %w", err)
	}
	for _, f := range filters {
		if f.Attrs().Priority == filterPrio {
			return fault.Usage.Errorf("the %s hook already has a filter of priority %d (%s): give that one another priority, or use ‹hook› tcx", d.name, filterPrio, describeFilter(f))
		}
	}
	return tcError("add filter "+d.stub, netlink.FilterAdd(newFilter(ifindex, d, name, prog)))
}

// replaceFilter puts the program in place of the one that the domain has there, at
// once for every packet.
func replaceFilter(ifindex int, d direction, name string, prog *ebpf.Program) error {
	return tcError("replace filter "+d.stub, netlink.FilterReplace(newFilter(ifindex, d, name, prog)))
}

func newFilter(ifindex int, d direction, name string, prog *ebpf.Program) *netlink.BpfFilter {
	return &netlink.BpfFilter{
		FilterAttrs: netlink.FilterAttrs{
			LinkIndex: ifindex, Parent: d.parent, Handle: filterHandle,
			Priority: filterPrio, Protocol: unix.ETH_P_ALL,
		},
		Fd: prog.FD(), Name: name, DirectAction: true,
	}
}

func describeFilter(f netlink.Filter) string {
	if b, ok := f.(*netlink.BpfFilter); ok {
		return fmt.Sprintf("bpf %q, program id %d", b.Name, b.Id)
	}
	return f.Type()
}

// tcError says what a failed change of qdiscs or filters means.
func tcError(what string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.EPERM):
		return fault.Unsupported.Errorf("%s: %s: %w", what, MissingRights(), err)
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.EOPNOTSUPP):
		return fault.Unsupported.Errorf("%s (modprobe sch_ingress cls_bpf): %w", what, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}

// ours returns the domain's filter at one hook, nil if there is none.
func ours(ifindex int, d direction, name string) (*netlink.BpfFilter, error) {
	filters, err := listFilters(ifindex, d)
	if gone(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list filters: %w", err)
	}
	for _, f := range filters {
		if b, ok := f.(*netlink.BpfFilter); ok && b.Name == name {
			return b, nil
		}
	}
	return nil, nil
}

func filterAttached(ifindex int, d direction, name string) bool {
	f, err := ours(ifindex, d, name)
	return err == nil && f != nil
}

// removeFilter removes the domain's filter from one hook.
func removeFilter(ifindex int, d direction, name string) error {
	f, err := ours(ifindex, d, name)
	if err == nil && f != nil {
		err = netlink.FilterDel(f)
	}
	if err != nil && !gone(err) {
		return fmt.Errorf("remove filter %s: %w", d.stub, err)
	}
	return nil
}

// detachClsact removes the domain's filters from both hooks, and the qdisc if it
// is ours and nothing else hangs there.
func detachClsact(ifindex int, domainName string, ownQdisc bool) error {
	var errs []error
	for i := len(directions) - 1; i >= 0; i-- {
		errs = append(errs, removeFilter(ifindex, directions[i], filterName(domainName)))
	}
	if err := errors.Join(errs...); err != nil || !ownQdisc {
		return err
	}
	return removeClsact(ifindex)
}

// removeClsact removes the qdisc unless someone's filters are there.
func removeClsact(ifindex int) error {
	for _, d := range directions {
		filters, err := listFilters(ifindex, d)
		if err != nil || len(filters) > 0 {
			return nil // gone with its interface, or in use
		}
	}
	if state, err := findClsact(ifindex); err != nil || state != clsactPresent {
		return nil
	}
	err := netlink.QdiscDel(&netlink.GenericQdisc{
		QdiscAttrs: netlink.QdiscAttrs{LinkIndex: ifindex, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT},
		QdiscType:  "clsact",
	})
	if err != nil && !gone(err) {
		return fmt.Errorf("remove clsact qdisc: %w", err)
	}
	return nil
}

// gone says that an error only means that the thing does not exist.
func gone(err error) bool {
	return errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EINVAL)
}

// linkByIndex is what the netlink library wants to see of an interface whose
// number is known.
func linkByIndex(ifindex int) netlink.Link {
	return &netlink.GenericLink{LinkAttrs: netlink.LinkAttrs{Index: ifindex}}
}
