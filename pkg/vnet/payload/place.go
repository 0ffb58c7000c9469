// SPDX-License-Identifier: Apache-2.0

package payload

import (
	"errors"
	"fmt"
	"io"

	"github.com/cilium/ebpf"

	"github.com/vnetradar/radar/pkg/bpfobj"
	"github.com/vnetradar/radar/pkg/hook"
	"github.com/vnetradar/radar/pkg/host"
	"github.com/vnetradar/radar/pkg/loader"
	"github.com/vnetradar/radar/pkg/system"
	"github.com/vnetradar/radar/pkg/vnet/datapath/port"
	"github.com/vnetradar/radar/pkg/vnet/datapath/program"
	"github.com/vnetradar/radar/pkg/vnet/datapath/tables"
	"github.com/vnetradar/radar/pkg/vnet/domain"
	"github.com/vnetradar/radar/pkg/vnet/topo"
)

// spot is one hook of one port.
type spot struct {
	node      *domain.Node
	port      *domain.Port
	direction hook.Direction
	before    bool // before the domain's program, else behind it
}

func (s *spot) String() string {
	way := "in"
	if s.direction == hook.Egress {
		way = "out"
	}
	return fmt.Sprintf("%s/%s %s", s.node.Name, s.port.Name, way)
}

// spotsOf are the two hooks of a port. Which packet of the domain a packet is can be read on one side of the domain's
// program: in the mark inside a node, in the header on a link between nodes. What leaves the domain, or comes into a
// node that has no mark, has it before that program alone.
func spotsOf(d *domain.Domain, n *domain.Node, p *domain.Port) []spot {
	const internal = bpfobj.TcRdrPortFlagRDR_PF_INTERNAL
	carriesMark := d.Options.MarkMask != 0 && n.Header == "" && n.Apart == "" && p.Place == ""
	member := p.Place == domain.BridgePort // it sends onto the link what comes in by it
	return []spot{
		{n, p, hook.Ingress, !carriesMark && !member},
		{n, p, hook.Egress, member || tables.Flags(p)&internal == 0},
	}
}

// Bounds of the priorities of filters: those of several captures at once.
const (
	firstPriority = hook.FilterPriority + 1
	lastPriority  = hook.FilterPriority + 64
)

// errNoPlace: clsact has no place before the domain's program.
var errNoPlace = errors.New("no place")

// attach puts a stub at a hook, in the namespace of the calling thread.
func (s *spot) attach(d *domain.Domain, self host.Process, progs *ebpf.Map) (io.Closer, error) {
	if s.before && d.Options.Hook == program.HookClsact {
		return nil, errNoPlace
	}
	stub, err := newStub(s, progs)
	if err != nil {
		return nil, err
	}
	defer stub.Close()
	if d.Options.Hook == program.HookClsact {
		return s.addFilter(d, self, stub)
	}
	at := hook.TCX{Ifindex: s.port.Ifindex, Direction: s.direction}
	if !s.before {
		at.Behind = []string{system.Backpack.Program(s.direction)}
	}
	l, err := hook.Attach(stub, at)
	return l, loader.LinkError(stubNames[s.direction], err)
}

// addFilter adds a filter behind the domain's, and removes those that captures have left which were killed.
func (s *spot) addFilter(d *domain.Domain, self host.Process, stub *ebpf.Program) (io.Closer, error) {
	f := hook.Filter{Ifindex: s.port.Ifindex, Direction: s.direction, Name: port.PayloadFilterName(d.Name, self)}
	if err := f.RemoveOthers(func(name string) bool { return port.IsStalePayloadFilter(d.Name, name) }); err != nil {
		return nil, system.Backpack.Failed(s.direction, err)
	}
	var err error
	for f.Priority = firstPriority; f.Priority <= lastPriority; f.Priority++ {
		if err = f.Add(stub); !errors.Is(err, hook.ErrBusy) {
			break
		}
	}
	if err != nil {
		return nil, system.Backpack.Failed(s.direction, err)
	}
	spec := topo.SpecOf(*s.node)
	return closer(func() error {
		err := spec.Do(f.Remove)
		if errors.Is(err, topo.ErrGone) {
			return nil
		}
		return err
	}), nil
}

type closer func() error

func (c closer) Close() error { return c() }
