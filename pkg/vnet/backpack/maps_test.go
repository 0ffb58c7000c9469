// SPDX-License-Identifier: Apache-2.0

package backpack_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/rlimit"
	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/pkg/bpfobj"
	"github.com/vnetradar/radar/pkg/host/clock"
	"github.com/vnetradar/radar/pkg/vnet/backpack"
	rt "github.com/vnetradar/radar/pkg/vnet/backpack/ringtest"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// kernelMaps makes the maps that a reader needs, as the programs declare them.
func kernelMaps(t *testing.T) (ring, control, alloc *ebpf.Map) {
	t.Helper()
	need.AsRoot(t)
	if err := rlimit.RemoveMemlock(); err != nil {
		t.Fatal(err)
	}
	spec, err := bpfobj.LoadTc()
	if err != nil {
		t.Fatal(err)
	}
	var maps []*ebpf.Map
	for _, name := range []string{bpfobj.TcMapRing, bpfobj.TcMapControl, bpfobj.TcMapAlloc} {
		s := spec.Maps[name]
		if name == bpfobj.TcMapRing {
			s.MaxEntries, s.ValueSize, s.Value = 64, 256, nil
		}
		m, err := ebpf.NewMap(s)
		if err != nil {
			t.Fatalf("make map %s: %v", name, err)
		}
		t.Cleanup(func() { m.Close() })
		maps = append(maps, m)
	}
	return maps[0], maps[1], maps[2]
}

func TestFromMaps(t *testing.T) {
	ring, control, alloc := kernelMaps(t)
	m, err := backpack.FromMaps(ring, control, alloc)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()

	// One packet, written into an image and from there into the kernel's map.
	image := rt.New(64, 256, 1, 8)
	now := clock.Monotonic()
	pos, _ := image.Send(0, udp, rt.Deliver, r1e0, now)
	slot := int(pos%64) * 256
	if err := ring.Put(uint32(pos%64), image.Mem[slot:slot+256]); err != nil {
		t.Fatal(err)
	}
	if err := control.Put(uint32(0), bpfobj.TcRdrControl{Cursor: 4711}); err != nil {
		t.Fatal(err)
	}
	cpus := make([]bpfobj.TcRdrAlloc, ebpf.MustPossibleCPU())
	cpus[0].Next, cpus[0].End = pos+1, 16
	cpus[len(cpus)-1].Next, cpus[len(cpus)-1].End = 32, 32 // used up
	if err := alloc.Put(uint32(0), cpus); err != nil {
		t.Fatal(err)
	}

	if got := m.Cursor(); got != 4711 {
		t.Errorf("cursor %d, want 4711", got)
	}
	held, err := m.Held(nil)
	if want := (backpack.Range{From: pos + 1, To: 16}); len(cpus) > 1 && (err != nil || len(held) != 1 || held[0] != want) {
		t.Errorf("held %v, %v; want %v", held, err, want)
	}
	recs, _, err := backpack.Scan(m, backpack.NewDecoder(testDomain(64), nil), backpack.ScanOptions{})
	if err != nil || len(recs) != 1 || recs[0].Src != "10.0.1.1" {
		t.Errorf("scan: %d records, %v; want the packet", len(recs), err)
	}
	if err := m.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
}

func TestFromMapsOfTheWrongKind(t *testing.T) {
	ring, control, alloc := kernelMaps(t)
	if m, err := backpack.FromMaps(alloc, control, alloc); err == nil || m != nil {
		t.Errorf("a map that cannot be mapped was taken for the ring: %v", err)
	}
	if m, err := backpack.FromMaps(ring, alloc, alloc); err == nil || m != nil {
		t.Errorf("a map that cannot be mapped was taken for the control page: %v", err)
	}
	if m, err := backpack.FromMaps(control, control, alloc); err == nil || m != nil {
		t.Errorf("the control page was taken for the ring: %v", err)
	}
}

// The mapping is read-only: a reader with a mistake must crash, not change a slot.
func TestMapsAreReadOnly(t *testing.T) {
	ring, control, alloc := kernelMaps(t)
	m, err := backpack.FromMaps(ring, control, alloc)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	mem := backpack.Memory(m)
	if perms := protection(t, uintptr(unsafe.Pointer(&mem[0]))); perms[:3] != "r--" {
		t.Errorf("ring is mapped %s, want r--", perms)
	}
}

// protection returns the rights of the mapping that holds addr.
func protection(t *testing.T, addr uintptr) string {
	t.Helper()
	b, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		var from, to uintptr
		var perms string
		if _, err := fmt.Sscanf(line, "%x-%x %s", &from, &to, &perms); err == nil && from <= addr && addr < to {
			return perms
		}
	}
	t.Fatalf("no mapping at %#x", addr)
	return ""
}

func TestOpenPins(t *testing.T) {
	ring, control, alloc := kernelMaps(t)
	dir := t.TempDir()
	if err := unix.Mount("bpf", dir, "bpf", 0, ""); err != nil {
		t.Fatalf("mount a BPF file system: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	for name, m := range map[string]*ebpf.Map{bpfobj.TcMapRing: ring, bpfobj.TcMapControl: control} {
		if err := m.Pin(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := backpack.OpenPins(dir); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), bpfobj.TcMapAlloc) {
		t.Errorf("with one pin missing: %v", err)
	}
	if err := alloc.Pin(filepath.Join(dir, bpfobj.TcMapAlloc)); err != nil {
		t.Fatal(err)
	}
	m, err := backpack.OpenPins(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if _, err := m.Held(nil); err != nil || m.Cursor() != 0 || m.Ring().Slots() != 64 {
		t.Errorf("cursor %d, %d slots, %v", m.Cursor(), m.Ring().Slots(), err)
	}
}

func TestOpenWithoutDomain(t *testing.T) {
	need.AsRoot(t) // nobody else may look into the BPF file system
	_, err := backpack.Open(&domain.Domain{Name: "rdrtest-no-such-domain"})
	if !errors.Is(err, domain.ErrNotAttached) {
		t.Errorf("Open: %v, want ErrNotAttached", err)
	}
}
