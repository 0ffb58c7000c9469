// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/bpfobj"
	"github.com/vnetradar/radar/pkg/host/statedir"
	"github.com/vnetradar/radar/pkg/system"
	"github.com/vnetradar/radar/pkg/vnet/datapath/program"
	"github.com/vnetradar/radar/pkg/vnet/domain"
	"github.com/vnetradar/radar/pkg/vnet/topo"
)

// Handle is an attached domain, opened by a process that keeps it, changes it or
// reads its counters. Closing it, or the end of the process, changes nothing in
// the domain. It is not safe for concurrent use: open one per goroutine.
type Handle struct {
	// Domain is the description as of Open, Reload or Refresh.
	Domain *domain.Domain

	file statedir.Stamp // of the description, for ReloadChanged
	maps map[string]*ebpf.Map
	// lossHook has statistics; nil: there is none. It is kept, as they count to the end.
	lossHook *ebpf.Program
	control  system.Memory[bpfobj.TcRdrControl]
	// What programs note of nodes that change, see change.go: by port, by node.
	shifts system.Memory[bpfobj.TcRdrShift]
	guards system.Memory[bpfobj.TcRdrGuard]
	// looked is when the topology was last looked at that the domain is in line with, or
	// being brought in line; 0: not by this handle, so that whatever is noted holds.
	looked uint64
	// equipped is the same for interfaces that come: 0 until all of them have programs.
	equipped uint64
	// open are nodes of which an interface could not be attached.
	open    []uint16
	ring    []byte // mapped for reading, when it is first needed
	near    []topo.NodeSpec
	localIn map[uint16]*localIn // by node
	// localInProg is the program of these; nil: not loaded. It was tried then, with that result.
	localInProg    *ebpf.Program
	localInTried   time.Time
	localInRefused error
	// localInFailed is why a node has none though it needs one; "": it has.
	localInFailed map[uint16]string
	// memberships are what SyncGroups read last, by node.
	memberships map[uint16]string
	told        map[string]bool // warnings that need no repetition
	// sweep is what SweepKeys reads into, each second the same: anew it would be most of an idle agent's garbage.
	sweep struct {
		keys      []bpfobj.TcRdrKey
		positions []uint64
	}
	hold      *os.File // the directory of pins, of who attaches; nil: not held
	portsLock *os.File // the directory of the domain's state, see lockPorts; nil: not needed yet
}

// Near returns the namespaces that are not attached in which other ends of attached
// ports lay at the last Refresh. What changes there can change roles.
func (h *Handle) Near() []topo.NodeSpec { return h.near }

// handleMaps are the maps that every attached domain has.
var handleMaps = []string{
	bpfobj.TcMapRing, bpfobj.TcMapBusy, bpfobj.TcMapMembers, bpfobj.TcMapControl, bpfobj.TcMapCursor, bpfobj.TcMapAlloc, bpfobj.TcMapPorts,
	bpfobj.TcMapDevs, bpfobj.TcMapLocals, bpfobj.TcMapLocals6, bpfobj.TcMapNodes, bpfobj.TcMapNodes6, bpfobj.TcMapKeys, bpfobj.TcMapCounters, bpfobj.TcMapProgs,
	bpfobj.TcMapEnds, bpfobj.TcMapShifts, bpfobj.TcMapHomes, bpfobj.TcMapGuards, bpfobj.TcMapSiblings,
	bpfobj.TcMapUnsent, bpfobj.TcMapSpelled, bpfobj.TcMapReplaced, bpfobj.TcMapOwnHeaders,
}

// Open opens an attached domain. It returns domain.ErrNotAttached if there is
// none, and an error that names the command to mend it if it is only half there.
// The caller closes it.
func Open(name string) (*Handle, error) {
	d, err := domain.Load(name)
	if err != nil {
		return nil, err
	}
	return openHandle(d)
}

// halfAttached is what Kind.Half says, for those who must not take it for a domain that
// is not there: it has a description.
func halfAttached(name, what string) error {
	return errors.New(domain.Kind.Half(name, what).Error())
}

func openHandle(d *domain.Domain) (_ *Handle, err error) {
	h := &Handle{Domain: d, maps: make(map[string]*ebpf.Map)}
	defer func() {
		if err != nil {
			h.Close()
		}
	}()
	for _, name := range handleMaps {
		m, err := domain.Kind.OpenMap(d.Name, name)
		if errors.Is(err, system.ErrNoPin) {
			return nil, halfAttached(d.Name, err.Error())
		}
		if err != nil {
			return nil, err
		}
		h.maps[name] = m
	}
	if err := h.checkSizes(); err != nil {
		return nil, domain.Kind.Damaged(d.Name, err)
	}
	if h.lossHook, err = openLossHook(d.Name); err != nil {
		return nil, err
	}
	if h.control, err = system.MapMemory[bpfobj.TcRdrControl](h.maps[bpfobj.TcMapControl]); err != nil {
		return nil, err
	}
	if h.shifts, err = system.MapMemory[bpfobj.TcRdrShift](h.maps[bpfobj.TcMapShifts]); err != nil {
		return nil, err
	}
	if h.guards, err = system.MapMemory[bpfobj.TcRdrGuard](h.maps[bpfobj.TcMapGuards]); err != nil {
		return nil, err
	}
	return h, nil
}

// checkSizes wants the description to say of the maps what they are: slots are read from
// mapped memory by it.
func (h *Handle) checkSizes() error {
	o := h.Domain.Options
	ring, keys := h.maps[bpfobj.TcMapRing], h.maps[bpfobj.TcMapKeys]
	if ring.MaxEntries() != o.Slots || ring.ValueSize() != o.SlotBytes {
		return fmt.Errorf("it has %d slots of %d bytes, the ring has %d of %d", o.Slots, o.SlotBytes, ring.MaxEntries(), ring.ValueSize())
	}
	if keys.MaxEntries() != o.Keys {
		return fmt.Errorf("it has %d keys, their map has %d", o.Keys, keys.MaxEntries())
	}
	return nil
}

// Close releases the handle.
func (h *Handle) Close() error {
	errs := []error{h.control.Close(), h.shifts.Close(), h.guards.Close()}
	if h.ring != nil {
		errs = append(errs, unix.Munmap(h.ring))
	}
	h.control, h.ring, h.shifts, h.guards = nil, nil, nil, nil
	for _, l := range h.localIn {
		l.close()
	}
	h.localIn = nil
	h.dropLocalIn()
	if h.lossHook != nil {
		errs = append(errs, h.lossHook.Close())
	}
	h.lossHook = nil
	for _, dir := range []*os.File{h.hold, h.portsLock} {
		if dir != nil {
			errs = append(errs, dir.Close())
		}
	}
	h.hold, h.portsLock = nil, nil
	for _, m := range h.maps {
		errs = append(errs, m.Close())
	}
	h.maps = nil
	return errors.Join(errs...)
}

// lockAndReload locks the domain and reads its description again, for a change of it. Without
// an error the caller calls unlock at the end.
//
// Errors: domain.ErrNotAttached.
func (h *Handle) lockAndReload() (unlock func(), err error) {
	unlock, err = domain.Lock(h.Domain.Name)
	if err != nil {
		return nil, err
	}
	if err := h.Reload(); err != nil {
		domain.Kind.ForgetUnused(h.Domain.Name)
		unlock()
		return nil, err
	}
	return unlock, nil
}

// ReloadChanged is Reload, if the description has changed since it was last called.
func (h *Handle) ReloadChanged() error {
	return h.file.IfChanged(domain.File(h.Domain.Name, domain.Description), h.Reload)
}

// Reload reads the description again: others may have changed it.
func (h *Handle) Reload() error {
	d, err := domain.Load(h.Domain.Name)
	if err != nil {
		return err
	}
	was := h.Domain
	h.Domain = d
	if err := h.checkSizes(); err != nil {
		h.Domain = was
		return domain.Kind.Damaged(d.Name, err)
	}
	return nil
}

// Memory returns what the domain's maps take, as the kernel accounts it. Kernels
// that tell less are made up for with an estimate.
func (h *Handle) Memory() program.Memory {
	return program.MemoryOf(h.maps)
}
