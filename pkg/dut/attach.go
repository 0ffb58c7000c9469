// SPDX-License-Identifier: Apache-2.0

package dut

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/cilium/ebpf"

	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/hook"
	"github.com/vnetradar/radar/pkg/host"
	"github.com/vnetradar/radar/pkg/system"
)

// Priorities of filters: a domain's is 1. What stamps is before what ends a packet.
const (
	stampPriority = 2
	endPriority   = 3
)

// place is where a program stands.
type place struct {
	port      *Port
	direction hook.Direction
	last      bool // behind all others of the direction
	name      string
}

// attach puts a program there, until the returned closer is closed.
func (p place) attach(prog *ebpf.Program, by string) (off io.Closer, err error) {
	err = p.port.do(func() error {
		if by == hook.ByTCX {
			off, err = hook.Attach(prog, hook.TCX{Ifindex: p.port.Index, Direction: p.direction, Last: p.last})
			return err
		}
		off, err = p.addFilter(prog)
		return err
	})
	if errors.Is(err, hook.ErrBusy) {
		return nil, fault.Usage.Errorf("%s: another program stands at its TC hook: %w; does another «dut» run there?", p.port.Name, err)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.port.Name, err)
	}
	return off, nil
}

// filter is a program at clsact.
type filter struct {
	hook.Filter
	port     *Port
	ownQdisc bool
}

func (p place) addFilter(prog *ebpf.Program) (io.Closer, error) {
	created, err := hook.EnsureClsact(p.port.Index)
	if err != nil {
		return nil, err
	}
	self, err := host.Self()
	if err != nil {
		return nil, err
	}
	f := &filter{port: p.port, ownQdisc: created}
	f.Filter = hook.Filter{Ifindex: p.port.Index, Direction: p.direction, Name: owner{self, created}.name(p.name), Priority: stampPriority}
	if p.last && p.direction == hook.Ingress {
		f.Priority = endPriority
	}
	if err := f.Add(prog); err != nil {
		return nil, errors.Join(err, f.removeQdisc())
	}
	return f, nil
}

// Close takes the filter off, and the qdisc if it was made for it.
func (f *filter) Close() error {
	return f.port.do(func() error { return errors.Join(f.Remove(), f.removeQdisc()) })
}

func (f *filter) removeQdisc() error {
	if !f.ownQdisc {
		return nil
	}
	return hook.RemoveClsact(f.Ifindex)
}

// owner is the process that a filter is of, and whether it made the qdisc. Both are in the
// filter's name, so that a later process can tell what a killed one has left.
type owner struct {
	host.Process
	ownQdisc bool
}

func (o owner) name(role string) string {
	return fmt.Sprintf("%s%d:%d:%t:%s", system.DUT.Filters, o.PID, o.Start, o.ownQdisc, role)
}

func ownerOf(name string) (o owner, ok bool) {
	rest, ours := strings.CutPrefix(name, system.DUT.Filters)
	parts := strings.Split(rest, ":")
	if !ours || len(parts) != 4 {
		return o, false
	}
	var errs [3]error
	o.PID, errs[0] = strconv.Atoi(parts[0])
	o.Start, errs[1] = strconv.ParseUint(parts[1], 10, 64)
	o.ownQdisc, errs[2] = strconv.ParseBool(parts[2])
	return o, errors.Join(errs[:]...) == nil
}

// removeLeft takes off what killed processes have left in the port's namespace.
func (p *Port) removeLeft() error {
	return p.do(func() error {
		left, err := hook.Filters(func(name string) bool {
			o, ours := ownerOf(name)
			return ours && !o.Alive()
		})
		errs := []error{err}
		for _, f := range left {
			errs = append(errs, f.Remove())
		}
		for _, f := range left {
			if o, _ := ownerOf(f.Name); o.ownQdisc {
				errs = append(errs, hook.RemoveClsact(f.Ifindex))
			}
		}
		return errors.Join(errs...)
	})
}
