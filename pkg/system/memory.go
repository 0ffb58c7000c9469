// SPDX-License-Identifier: Apache-2.0

package system

import (
	"fmt"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/loader"
)

// Memory is the elements of an array that programs and this process share, such as a control page. Programs and other
// processes read and write them at the same time: use package atomic.
type Memory[T any] []T

// MapMemory maps an array whose values are T, for reading and writing. The map can be closed afterwards. The caller closes the
// memory.
func MapMemory[T any](m *ebpf.Map) (Memory[T], error) {
	var elem T
	if size := unsafe.Sizeof(elem); uintptr(m.ValueSize()) != size || size%8 != 0 && m.MaxEntries() > 1 { // the kernel puts each at a multiple of 8
		return nil, fmt.Errorf("map memory of %v: it has values of %d bytes, this radar wants %d", m, m.ValueSize(), size)
	}
	n := int(m.MaxEntries())
	mem, err := unix.Mmap(m.FD(), 0, pages(n*int(m.ValueSize())), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, loader.Error("map memory of "+m.String(), err)
	}
	return unsafe.Slice((*T)(unsafe.Pointer(&mem[0])), n), nil
}

// OpenMemory is MapMemory of a pinned map. ErrNoPin: there is none.
func OpenMemory[T any](k Kind, domain, name string) (Memory[T], error) {
	m, err := k.OpenMap(domain, name)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	return MapMemory[T](m)
}

// Close lets go of the memory. That of nothing is no error.
func (m Memory[T]) Close() error {
	if len(m) == 0 {
		return nil
	}
	return unix.Munmap(unsafe.Slice((*byte)(unsafe.Pointer(&m[0])), pages(len(m)*int(unsafe.Sizeof(m[0])))))
}

// pages is how many bytes the pages take that hold so many.
func pages(bytes int) int {
	page := unix.Getpagesize()
	return (bytes + page - 1) / page * page
}
