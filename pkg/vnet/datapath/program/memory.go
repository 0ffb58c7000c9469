// SPDX-License-Identifier: Apache-2.0

package program

import (
	"bufio"
	"fmt"
	"math/bits"
	"os"

	"github.com/cilium/ebpf"

	"github.com/vnetradar/radar/pkg/bpfobj"
	"github.com/vnetradar/radar/pkg/fault"
)

// Memory is what a domain takes of the kernel's memory, in bytes. It is fixed at
// attach.
type Memory struct {
	Ring  uint64 `json:"ring_bytes"`  // the slots
	Keys  uint64 `json:"keys_bytes"`  // packets measured by key
	Other uint64 `json:"other_bytes"` // ports, addresses, counters, ...
}

// Total is the sum.
func (m Memory) Total() uint64 { return m.Ring + m.Keys + m.Other }

// String is a line for people.
func (m Memory) String() string {
	return fmt.Sprintf("%s (ring %s, keys %s, other %s)", size(m.Total()), size(m.Ring), size(m.Keys), size(m.Other))
}

func size(n uint64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.2f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
}

// add books n bytes on the account of the named map.
func (m *Memory) add(name string, n uint64) {
	switch name {
	case bpfobj.TcMapRing:
		m.Ring += n
	case bpfobj.TcMapKeys:
		m.Keys += n
	default:
		m.Other += n
	}
}

// Sizes of the kernel's bookkeeping, x86-64, rounded up.
const (
	pageBytes       = 4096
	hashElemBytes   = 48 // struct htab_elem
	hashBucketBytes = 16 // struct bucket
	maxRingBytes    = 1<<32 - pageBytes
)

// estimate works out what the maps will take.
func estimate(specs map[string]*ebpf.MapSpec, cpus int) Memory {
	var m Memory
	for name, s := range specs {
		m.add(name, mapBytes(s, uint64(cpus)))
	}
	return m
}

func mapBytes(s *ebpf.MapSpec, cpus uint64) uint64 {
	key, value, n := align8(uint64(s.KeySize)), align8(uint64(s.ValueSize)), uint64(s.MaxEntries)
	switch s.Type {
	case ebpf.Hash, ebpf.LRUHash:
		buckets := uint64(1) << bits.Len64(n-1)
		return (n+cpus)*(hashElemBytes+key+value) + buckets*hashBucketBytes
	case ebpf.PerCPUArray:
		return n * value * cpus
	}
	return (n*value + pageBytes - 1) / pageBytes * pageBytes
}

func align8(n uint64) uint64 { return (n + 7) &^ 7 }

// Fits refuses what check refuses with the memory that the machine has now. It is fault.Usage.
func (m Memory) Fits() error { return m.check(memAvailable()) }

// check refuses a ring that cannot be mapped, and maps that would take more
// than three quarters of the memory that is available (0: not known).
func (m Memory) check(available uint64) error {
	if m.Ring > maxRingBytes {
		return fault.Usage.Errorf("the ring would take %s, of which at most 4 GiB can be mapped: use fewer ‹slots› or ‹max-hops›", size(m.Ring))
	}
	if available != 0 && m.Total() > available/4*3 {
		return fault.Usage.Errorf("this would take %s of memory, %s are available and a quarter of that must stay free: use fewer ‹slots› or ‹max-hops›", size(m.Total()), size(available))
	}
	return nil
}

// memAvailable returns the kernel's MemAvailable in bytes, 0 if it is not known.
func memAvailable() uint64 { return meminfo("MemAvailable") }

// meminfo is a line of /proc/meminfo, in bytes; 0: it is not known.
func meminfo(name string) uint64 {
	f, err := os.Open("/proc/meminfo")
	if err != nil {
		return 0
	}
	defer f.Close()
	for sc := bufio.NewScanner(f); sc.Scan(); {
		var kib uint64
		if _, err := fmt.Sscanf(sc.Text(), name+": %d kB", &kib); err == nil {
			return kib << 10
		}
	}
	return 0
}

// MemoryOf returns what maps take, as the kernel accounts it. Kernels that tell less are made up for with an
// estimate.
func MemoryOf(maps map[string]*ebpf.Map) Memory {
	var m Memory
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		cpus = 1
	}
	for name, bpfMap := range maps {
		n := mapBytes(&ebpf.MapSpec{
			Type: bpfMap.Type(), KeySize: bpfMap.KeySize(), ValueSize: bpfMap.ValueSize(), MaxEntries: bpfMap.MaxEntries(),
		}, uint64(cpus))
		if info, err := bpfMap.Info(); err == nil {
			if locked, ok := info.Memlock(); ok && locked > 0 {
				n = locked
			}
		}
		m.add(name, n)
	}
	return m
}
