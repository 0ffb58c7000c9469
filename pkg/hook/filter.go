// SPDX-License-Identifier: Apache-2.0

package hook

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/host"
)

// FilterPriority is that of filters that do not say another one: they are the first of all, for
// every protocol.
const FilterPriority = 1

const filterHandle = 1

// Filter is a program at an interface's clsact qdisc (EnsureClsact). The program is an
// ebpf.SchedCLS. The kernel keeps it until it is removed, or the interface goes.
type Filter struct {
	Ifindex   int
	Direction Direction
	Name      string // what it is known by, at most 255 bytes
	Priority  uint16 // the lowest one sees a packet first; 0: FilterPriority
}

func (f Filter) String() string { return f.Name }

func (f Filter) priority() uint16 { return cmp.Or(f.Priority, FilterPriority) }

// parent is where the filter hangs.
func (f Filter) parent() uint32 {
	if f.Direction == Egress {
		return netlink.HANDLE_MIN_EGRESS
	}
	return netlink.HANDLE_MIN_INGRESS
}

// clsactState is what hangs at an interface's ingress point.
type clsactState int

const (
	clsactMissing clsactState = iota
	clsactPresent
	clsactBlocked // an "ingress" qdisc is in its place, which has no egress
)

func findClsact(ifindex int) (clsactState, error) {
	qdiscs, err := host.RetryDump(func() ([]netlink.Qdisc, error) { return netlink.QdiscList(linkByIndex(ifindex)) })
	if err != nil {
		return clsactMissing, &Error{Step: "list qdiscs", Cause: err}
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

// LacksClsact reports whether EnsureClsact would make a qdisc.
func LacksClsact(ifindex int) (bool, error) {
	state, err := findClsact(ifindex)
	return state == clsactMissing, err
}

// EnsureClsact creates an interface's clsact qdisc where it is missing, and says whether it
// did. Errors are *Error: ErrBusy if an ingress qdisc is in its place.
func EnsureClsact(ifindex int) (created bool, err error) {
	const step = "add clsact qdisc"
	state, err := findClsact(ifindex)
	if err != nil {
		return false, err
	}
	switch state {
	case clsactPresent:
		return false, nil
	case clsactBlocked:
		return false, &Error{Step: step, Kind: ErrBusy, By: "an ingress qdisc"}
	}
	err = netlink.QdiscAdd(clsact(ifindex))
	if errors.Is(err, unix.EEXIST) {
		return false, nil // someone was faster
	}
	if err != nil {
		return false, tcError(step, "", err)
	}
	return true, nil
}

// RemoveClsact removes an interface's clsact qdisc unless someone's filters are there. What is
// gone already is no error.
func RemoveClsact(ifindex int) error {
	for _, d := range []Direction{Ingress, Egress} {
		filters, err := Filter{Ifindex: ifindex, Direction: d}.all()
		if err != nil || len(filters) > 0 {
			return nil // gone with its interface, or in use
		}
	}
	if state, err := findClsact(ifindex); err != nil || state != clsactPresent {
		return nil
	}
	if err := netlink.QdiscDel(clsact(ifindex)); err != nil && !isGone(err) {
		return &Error{Step: "remove clsact qdisc", Cause: err}
	}
	return nil
}

func clsact(ifindex int) netlink.Qdisc {
	return &netlink.GenericQdisc{
		QdiscAttrs: netlink.QdiscAttrs{LinkIndex: ifindex, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT},
		QdiscType:  "clsact",
	}
}

// Add attaches prog. Another filter of its priority is ErrBusy, which says whose it is: which of
// the two comes first would be left to chance.
func (f Filter) Add(prog *ebpf.Program) error {
	const step = "add filter"
	filters, err := f.all()
	if err != nil {
		return &Error{Step: "list filters", Cause: err}
	}
	for _, other := range filters {
		if other.Attrs().Priority == f.priority() {
			return &Error{Step: step, Subject: f.Name, Kind: ErrBusy, By: describe(other)}
		}
	}
	return tcError(step, f.Name, netlink.FilterAdd(f.with(prog)))
}

// Replace puts prog in place of the filter that is there, at once for every packet.
func (f Filter) Replace(prog *ebpf.Program) error {
	return tcError("replace filter", f.Name, netlink.FilterReplace(f.with(prog)))
}

func (f Filter) with(prog *ebpf.Program) *netlink.BpfFilter {
	return &netlink.BpfFilter{
		FilterAttrs: netlink.FilterAttrs{
			LinkIndex: f.Ifindex, Parent: f.parent(), Handle: filterHandle,
			Priority: f.priority(), Protocol: unix.ETH_P_ALL,
		},
		Fd: prog.FD(), Name: f.Name, DirectAction: true,
	}
}

func describe(f netlink.Filter) string {
	if b, ok := f.(*netlink.BpfFilter); ok {
		return fmt.Sprintf("bpf %q, program id %d", b.Name, b.Id)
	}
	return f.Type()
}

// Stands reports whether a program is at an interface whose name begins so: the first is that of a
// program at TCX, as the kernel has it, the second that of a clsact filter of our priority.
func Stands(ifindex int, d Direction, program, filter string) bool {
	there, err := link.QueryPrograms(link.QueryOptions{Target: ifindex, Attach: TCX{Direction: d}.kind()})
	if err == nil && slices.ContainsFunc(there.Programs, func(p link.AttachedProgram) bool { return strings.HasPrefix(programName(p.ID), program) }) {
		return true
	}
	filters, err := Filter{Ifindex: ifindex, Direction: d}.all()
	return err == nil && slices.ContainsFunc(filters, func(f netlink.Filter) bool {
		b, ok := f.(*netlink.BpfFilter)
		return ok && b.Priority == FilterPriority && strings.HasPrefix(b.Name, filter)
	})
}

// all are the filters in the place, whoever's they are.
func (f Filter) all() ([]netlink.Filter, error) {
	return host.RetryDump(func() ([]netlink.Filter, error) { return netlink.FilterList(linkByIndex(f.Ifindex), f.parent()) })
}

// find returns the filter of that name, nil if there is none.
func (f Filter) find() (*netlink.BpfFilter, error) {
	filters, err := f.all()
	if isGone(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list filters: %w", err)
	}
	for _, other := range filters {
		if b, ok := other.(*netlink.BpfFilter); ok && b.Name == f.Name {
			return b, nil
		}
	}
	return nil, nil
}

// Stands reports whether a filter of that name is in the place.
func (f Filter) Stands() bool {
	b, err := f.find()
	return err == nil && b != nil
}

// RemoveOthers removes the filters in the place whose names match.
func (f Filter) RemoveOthers(match func(name string) bool) error {
	others, err := f.all()
	if err != nil && !isGone(err) {
		return &Error{Step: "list filters", Cause: err}
	}
	var errs []error
	for _, other := range others {
		if b, ok := other.(*netlink.BpfFilter); ok && match(b.Name) {
			if err := netlink.FilterDel(b); err != nil && !isGone(err) {
				errs = append(errs, &Error{Step: "remove filter", Subject: b.Name, Cause: err})
			}
		}
	}
	return errors.Join(errs...)
}

// Remove removes the filter of that name. What is gone already is no error.
func (f Filter) Remove() error {
	b, err := f.find()
	if err == nil && b != nil {
		err = netlink.FilterDel(b)
	}
	if err != nil && !isGone(err) {
		return &Error{Step: "remove filter", Subject: f.Name, Cause: err}
	}
	return nil
}

// Filters lists the filters whose names match, at all interfaces of the calling thread's
// namespace, those of Egress first: of what a crash has left nobody knows where it stands. With an
// error it returns what it has found.
func Filters(match func(name string) bool) ([]Filter, error) {
	links, err := host.RetryDump(netlink.LinkList)
	if err != nil {
		return nil, &Error{Step: "list interfaces", Cause: err}
	}
	var found []Filter
	var errs []error
	for _, d := range []Direction{Egress, Ingress} {
		for _, l := range links {
			at := Filter{Ifindex: l.Attrs().Index, Direction: d}
			all, err := at.all()
			if err != nil && !isGone(err) {
				errs = append(errs, fmt.Errorf("list filters: %w", err))
			}
			for _, other := range all {
				if b, ok := other.(*netlink.BpfFilter); ok && match(b.Name) {
					at.Name, at.Priority = b.Name, b.Priority
					found = append(found, at)
				}
			}
		}
	}
	return found, errors.Join(errs...)
}

// tcError says what a failed change of qdiscs or filters means.
func tcError(step, subject string, err error) error {
	if err == nil {
		return nil
	}
	e := &Error{Step: step, Subject: subject, Cause: err}
	switch {
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		e.Kind = ErrPermission
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.EOPNOTSUPP):
		e.Kind = ErrUnsupported // the kernel has no such qdisc or filter, or cannot load its module
	}
	return e
}

// isGone reports whether an error only means that the thing does not exist.
func isGone(err error) bool {
	return errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EINVAL)
}

// linkByIndex is what the netlink library wants to see of an interface whose
// number is known.
func linkByIndex(ifindex int) netlink.Link {
	return &netlink.GenericLink{LinkAttrs: netlink.LinkAttrs{Index: ifindex}}
}
