// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/vnetradar/radar/pkg/bpfobj"
	"github.com/vnetradar/radar/pkg/host/clock"
	"github.com/vnetradar/radar/pkg/system"
)

// mapOf is what a map of a node is called in the domain's pins; the domain's own are called as in the object.
func mapOf(name string, index uint32) string { return fmt.Sprintf("%s-%d", name, index) }

// Control is what programs and user space share, of one domain. It is for many goroutines.
type Control struct {
	page system.Memory[bpfobj.IntControl]
}

// OpenControl opens that of a domain.
func OpenControl(name string) (*Control, error) {
	page, err := system.OpenMemory[bpfobj.IntControl](Kind, name, bpfobj.IntMapControl)
	if errors.Is(err, system.ErrNoPin) {
		return nil, Kind.Half(name, "its control page is gone")
	}
	if err != nil {
		return nil, err
	}
	return &Control{page}, nil
}

// Close lets go of the memory.
func (c *Control) Close() { _ = c.page.Close() }

// Lease says up to when sources mark and transits add.
func (c *Control) Lease() system.Lease { return system.LeaseAt(&c.page[0].LeaseNs) }

// clockStep is by how much the wall clock must have been set to count as set.
const clockStep = time.Millisecond

// SetWall tells programs what makes Unix time of their clock, if that has changed since. It returns what
// they have now.
func (c *Control) SetWall() int64 {
	now, was := clock.WallOffset(), int64(atomic.LoadUint64(&c.page[0].WallNs))
	if d := time.Duration(now - was); d > -clockStep && d < clockStep {
		return was
	}
	atomic.StoreUint64(&c.page[0].WallNs, uint64(now))
	return now
}

// table is the map of a node's ports.
type table struct {
	list system.Memory[bpfobj.IntPort]
	mask uint32
}

// pinnedTable is that of a node whose programs are there; nil: there is none. The caller closes it.
func pinnedTable(domainName string, index uint32) (*table, error) {
	return tableIn(system.OpenMemory[bpfobj.IntPort](Kind, domainName, mapOf(bpfobj.IntMapPorts, index)))
}

func tableIn(list system.Memory[bpfobj.IntPort], err error) (*table, error) {
	if errors.Is(err, system.ErrNoPin) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &table{list, uint32(len(list) - 1)}, nil
}

func (t *table) close() { _ = t.list.Close() }

// unknown is a value that is not known.
const unknown = math.MaxUint32

// set writes an interface's fields, each by itself: programs read the element meanwhile, and write others.
func (t *table) set(ifindex int, p *bpfobj.IntPort) {
	e := &t.list[uint32(ifindex)&t.mask]
	if atomic.LoadUint32(&e.Ifindex) != uint32(ifindex) {
		atomic.StoreUint32(&e.Ifindex, 0)
		atomic.StoreUint64(&e.QueueReportNs, 0)
		atomic.StoreUint32(&e.Utilisation, unknown)
	}
	e.Id = p.Id
	atomic.StoreUint32(&e.L2, p.L2)
	atomic.StoreUint32(&e.Mtu, p.Mtu)
	atomic.StoreUint32(&e.CongestedAt, p.CongestedAt)
	atomic.StoreUint32(&e.Flags, p.Flags)
	atomic.StoreUint32(&e.Ifindex, uint32(ifindex))
}

// entryOf is what programs know of an interface; most is the longest packet that passes the domain.
func entryOf(n *Node, i *Interface, flags Flags, most int) bpfobj.IntPort {
	e := bpfobj.IntPort{Ifindex: uint32(i.Ifindex), Flags: uint32(flags), Mtu: uint32(min(i.MTU, most)), L2: uint32(i.Ifindex), Id: uint16(i.Ifindex)}
	if p := n.Port(i.Name); p != nil {
		e.CongestedAt = p.CongestedAt
		if p.MTU > 0 {
			e.Mtu = uint32(p.MTU)
		}
	}
	return e
}

// fill writes what the node's ports are. mixed: see through.
func (t *table) fill(n *Node, list []Interface, most int) (mixed []string) {
	return t.write(n, list, most, func(_ int, f Flags) Flags { return f })
}

// prepare writes what the node's ports are while programs of others are not all there. Sources do not mark yet, unless
// they did. Ports to the inside that open or close take INT from others, and send none.
func (t *table) prepare(n *Node, list []Interface, most int, had map[int]Flags) {
	isOpen := func(f Flags) bool { return f&(Inside|edge) == Inside }
	t.write(n, list, most, func(index int, f Flags) Flags {
		was := had[index]
		f &^= Source &^ was
		if isOpen(f) != isOpen(was) {
			f = f&^DropForeign | Inside | Sink
		}
		return f
	})
}

func (t *table) write(n *Node, list []Interface, most int, as func(ifindex int, f Flags) Flags) (mixed []string) {
	roles, mixed := through(n, list)
	for index, flags := range roles {
		if i := numbered(list, index); i != nil {
			e := entryOf(n, i, as(index, flags), most)
			t.set(index, &e)
		}
	}
	t.keepOnly(roles)
	return mixed
}

// flags are those that interfaces have now, by their numbers.
func (t *table) flags() map[int]Flags {
	has := make(map[int]Flags)
	for i := range t.list {
		e := &t.list[i]
		if index := atomic.LoadUint32(&e.Ifindex); index != 0 {
			has[int(index)] = Flags(atomic.LoadUint32(&e.Flags))
		}
	}
	return has
}

// narrow writes the MTU of an interface. It reports whether the rest of what programs know is the same.
func (t *table) narrow(ifindex int, p *bpfobj.IntPort) bool {
	e := &t.list[uint32(ifindex)&t.mask]
	if atomic.LoadUint32(&e.Ifindex) != uint32(ifindex) {
		return false
	}
	atomic.StoreUint32(&e.Mtu, p.Mtu)
	return atomic.LoadUint32(&e.Flags) == p.Flags && atomic.LoadUint32(&e.CongestedAt) == p.CongestedAt
}

// keepOnly removes all interfaces but these.
func (t *table) keepOnly(roles map[int]Flags) {
	for i := range t.list {
		e := &t.list[i]
		index := atomic.LoadUint32(&e.Ifindex)
		if _, is := roles[int(index)]; index != 0 && !is {
			atomic.StoreUint32(&e.Ifindex, 0)
		}
	}
}

func (t *table) utilise(ifindex int, kbits uint32) {
	e := &t.list[uint32(ifindex)&t.mask]
	if atomic.LoadUint32(&e.Ifindex) == uint32(ifindex) {
		atomic.StoreUint32(&e.Utilisation, kbits)
	}
}
