// SPDX-License-Identifier: Apache-2.0

package backpack

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync/atomic"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/bpfobj"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// Range is the positions From <= p < To.
type Range struct {
	From, To uint64
}

// Source is a ring, and which of its positions have been given away.
type Source interface {
	Ring() *Ring
	// Start returns the first position of all.
	Start() uint64
	// Cursor returns the first position that no CPU has been given yet.
	Cursor() uint64
	// Held appends to dst the positions that CPUs still hold. If it is called after
	// Cursor, every position below that is not in it is used, or never will be.
	Held(dst []Range) ([]Range, error)
}

// Maps are the maps of one domain, open for reading. It is safe for concurrent use
// until Close.
type Maps struct {
	ring    *Ring
	ringMem []byte
	control []byte
	alloc   *ebpf.Map
}

// Open opens the pinned maps of d. The error is domain.ErrNotAttached if they are
// gone. The caller closes them.
func Open(d *domain.Domain) (*Maps, error) {
	m, err := openPins(domain.PinDir(d.Name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, domain.Kind.Half(d.Name, "it has a description, but its programs are gone: "+err.Error())
	}
	if err != nil {
		return nil, fmt.Errorf("domain %q: %w", d.Name, err)
	}
	if m.ring.slots != uint64(d.Options.Slots) || m.ring.slotWords*8 != uint64(d.Options.SlotBytes) {
		m.Close()
		return nil, domain.Kind.Damaged(d.Name, fmt.Errorf("it has %d slots of %d bytes, the ring has %d of %d",
			d.Options.Slots, d.Options.SlotBytes, m.ring.slots, m.ring.slotWords*8))
	}
	return m, nil
}

// openPins opens the maps pinned in a folder. A map to be mapped must be opened for
// writing, even if the mapping is read-only: Linux makes a shared mapping of a read-only
// file private, and BPF maps have no private mappings.
func openPins(dir string) (*Maps, error) {
	var maps [3]*ebpf.Map
	for i, name := range []string{bpfobj.TcMapRing, bpfobj.TcMapControl, bpfobj.TcMapAlloc} {
		m, err := ebpf.LoadPinnedMap(filepath.Join(dir, name), &ebpf.LoadPinOptions{
			ReadOnly: name == bpfobj.TcMapAlloc,
		})
		if err != nil {
			return nil, fmt.Errorf("open pinned map %s: %w", name, err)
		}
		defer m.Close()
		maps[i] = m
	}
	return FromMaps(maps[0], maps[1], maps[2])
}

// FromMaps reads maps that the caller has open and may close after the call.
func FromMaps(ring, control, alloc *ebpf.Map) (_ *Maps, err error) {
	m := &Maps{}
	defer func() {
		if err != nil {
			m.Close()
		}
	}()
	size := uint64(ring.MaxEntries()) * uint64(ring.ValueSize())
	if m.ringMem, err = mapMemory(ring, size); err != nil {
		return nil, fmt.Errorf("map ring: %w", err)
	}
	if m.ring, err = NewRing(m.ringMem, ring.MaxEntries(), int(ring.ValueSize())); err != nil {
		return nil, err
	}
	if m.control, err = mapMemory(control, uint64(control.ValueSize())); err != nil {
		return nil, fmt.Errorf("map control page: %w", err)
	}
	if m.alloc, err = alloc.Clone(); err != nil {
		return nil, fmt.Errorf("open allocation map: %w", err)
	}
	return m, nil
}

// mapMemory maps an array read-only. ebpf's Map.Memory asks for writing, but a reader
// should not be able to change a slot.
func mapMemory(m *ebpf.Map, size uint64) ([]byte, error) {
	return unix.Mmap(m.FD(), 0, int(size), unix.PROT_READ, unix.MAP_SHARED)
}

// Close unmaps and closes. Rings of these maps must not be used any more.
func (m *Maps) Close() error {
	var errs []error
	for _, mem := range [][]byte{m.ringMem, m.control} {
		if mem != nil {
			errs = append(errs, unix.Munmap(mem))
		}
	}
	if m.alloc != nil {
		errs = append(errs, m.alloc.Close())
	}
	*m = Maps{}
	return errors.Join(errs...)
}

// Ring implements Source.
func (m *Maps) Ring() *Ring { return m.ring }

// Start implements Source.
func (m *Maps) Start() uint64 { return m.page().Start }

// Cursor implements Source. It costs no system call.
func (m *Maps) Cursor() uint64 { return atomic.LoadUint64(&m.page().Cursor) }

func (m *Maps) page() *bpfobj.TcRdrControl {
	return (*bpfobj.TcRdrControl)(unsafe.Pointer(&m.control[0]))
}

// Held implements Source with one system call.
func (m *Maps) Held(dst []Range) ([]Range, error) {
	var cpus []bpfobj.TcRdrAlloc
	if err := m.alloc.Lookup(uint32(0), &cpus); err != nil {
		return dst, fmt.Errorf("read what CPUs hold of the ring: %w", err)
	}
	for _, c := range cpus {
		if c.Next < c.End {
			dst = append(dst, Range{c.Next, c.End})
		}
	}
	return dst, nil
}
