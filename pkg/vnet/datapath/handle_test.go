// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"errors"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"

	"github.com/vnetradar/radar/pkg/bpfobj"
	"github.com/vnetradar/radar/pkg/host/clock"
	"github.com/vnetradar/radar/pkg/loader"
	"github.com/vnetradar/radar/pkg/system"
	"github.com/vnetradar/radar/pkg/vnet/datapath/program"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

func TestOpenNotAttached(t *testing.T) {
	l := newLab(t, program.HookTCX)
	if _, err := Open(l.domain); !errors.Is(err, domain.ErrNotAttached) {
		t.Errorf("Open: %v", err)
	}
	l.wantNoFiles()
}

func TestLease(t *testing.T) {
	l := newLab(t, program.HookTCX, "a")
	l.opts.Lease = 3 * time.Second
	l.attach("a")
	h := l.open()
	if every := h.RenewEvery(); every != time.Second {
		t.Errorf("renew every %v", every)
	}
	h.controlPage().LeaseNs = clock.Monotonic() - uint64(time.Second) // it ran out
	if left, ends := h.Lease().Left(); left > -time.Second || !ends {
		t.Errorf("lease that ran out: %v, %v", left, ends)
	}
	cursor := controlCursor(t, h)
	renewed := time.Now()
	if err := h.Renew(); err != nil {
		t.Fatal(err)
	}
	if left, _ := h.Lease().Left(); left < 3*time.Second-time.Since(renewed) || left > 3*time.Second {
		t.Errorf("lease after renewal: %v", left)
	}
	if controlCursor(t, h) != cursor {
		t.Error("renewing the lease moved the cursor")
	}
	h.Lease().Stop()
	if err := h.Renew(); !errors.Is(err, system.ErrDetaching) {
		t.Errorf("Renew while detaching: %v", err)
	}
	if left, ends := h.Lease().Left(); left > 0 || !ends {
		t.Errorf("lease while detaching: %v, %v", left, ends)
	}
	if _, err := Attach(t.Context(), AttachRequest{Domain: l.domain, Nodes: l.specs("a")}); !errors.Is(err, system.ErrDetaching) {
		t.Errorf("Attach while detaching: %v", err)
	}
	if _, err := h.Refresh(t.Context()); !errors.Is(err, system.ErrDetaching) {
		t.Errorf("Refresh while detaching: %v", err)
	}
}

func controlCursor(t *testing.T, h *Handle) uint64 {
	t.Helper()
	var c bpfobj.TcRdrControl
	if err := h.maps[bpfobj.TcMapControl].Lookup(uint32(0), &c); err != nil {
		t.Fatal(err)
	}
	return c.Cursor
}

func TestLeaseThatNeverEnds(t *testing.T) {
	l := newLab(t, program.HookTCX, "a")
	l.opts.Lease = 0
	l.attach("a")
	h := l.open()
	if _, ends := h.Lease().Left(); ends {
		t.Error("a lease that never ends ends")
	}
	if h.RenewEvery() != 0 {
		t.Errorf("renew every %v", h.RenewEvery())
	}
	if h.controlPage().LeaseNs != math.MaxUint64 {
		t.Errorf("lease %d", h.controlPage().LeaseNs)
	}
}

// What CPUs hold, the cursor and its copy agree in the kernel; two domains begin at
// places of their own.
func TestStartRing(t *testing.T) {
	starts := make(map[uint64]bool)
	for range 3 {
		l := newLab(t, program.HookTCX, "a")
		l.attach("a")
		h := l.open()
		var cursor bpfobj.TcRdrCursor
		if err := h.maps[bpfobj.TcMapCursor].Lookup(uint32(0), &cursor); err != nil {
			t.Fatal(err)
		}
		if c := controlCursor(t, h); c != cursor.Next {
			t.Errorf("cursor %d, its copy %d", cursor.Next, c)
		}
		var held []bpfobj.TcRdrAlloc
		if err := h.maps[bpfobj.TcMapAlloc].Lookup(uint32(0), &held); err != nil {
			t.Fatal(err)
		}
		last := uint64(0)
		for _, h := range held {
			last = max(last, h.End)
		}
		if last != cursor.Next {
			t.Errorf("CPUs hold %+v, the cursor is %d", held, cursor.Next)
		}
		starts[held[0].Next] = true
	}
	if len(starts) == 1 {
		t.Errorf("three domains begin at %v", starts)
	}
}

// slotState is a slot as a test wants it; age 0 is now.
type slotState struct {
	pos   uint64
	age   time.Duration
	state bpfobj.TcRdrState
	seg   uint8
	segs  uint8
	cut   bpfobj.TcRdrCut
}

func putSlot(t *testing.T, h *Handle, s slotState) {
	t.Helper()
	m := h.maps[bpfobj.TcMapRing]
	value := make([]byte, m.ValueSize())
	slot := bpfobj.TcRdrSlot{
		Pos: s.pos, T0Ns: clock.Monotonic() - uint64(s.age), State: uint8(s.state), Seg: s.seg, Segs: s.segs, Cut: uint8(s.cut),
	}
	copy(value, structBytes(&slot))
	if err := m.Put(uint32(s.pos%uint64(m.MaxEntries())), value); err != nil {
		t.Fatal(err)
	}
}

func TestInFlight(t *testing.T) {
	l := newLab(t, program.HookTCX, "a")
	l.opts.Timeout = time.Minute
	l.attach("a")
	h := l.open()
	const base = 2 * domain.MinSlots
	done := bpfobj.TcRdrStateRDR_ST_DONE
	want := 0
	for i, c := range []struct {
		what  string
		slots []slotState
		n     int
	}{
		{"alone", []slotState{{segs: 1}}, 1},
		{"delivered", []slotState{{segs: 1, state: done}}, 0},
		{"delivered, a flooded copy under way", []slotState{{segs: 1, state: done, cut: bpfobj.TcRdrCutRDR_COPIES}}, 1},
		{"lost", []slotState{{segs: 1, state: done | bpfobj.TcRdrStateRDR_ST_LOST}}, 0},
		{"expired", []slotState{{segs: 1, age: 2 * time.Minute}}, 0},
		{"whole train", []slotState{{segs: 3}, {seg: 1, segs: 3}, {seg: 2, segs: 3}}, 1},
		{"whole train, delivered", []slotState{{segs: 2, state: done}, {seg: 1, segs: 2}}, 0},
		{"cut train, one under way", []slotState{
			{segs: 3, cut: bpfobj.TcRdrCutRDR_CUT, state: done},
			{seg: 1, segs: 3, cut: bpfobj.TcRdrCutRDR_OWN, state: done},
			{seg: 2, segs: 3},
		}, 1},
		{"member without its head", []slotState{{seg: 5, segs: 9}}, 0},
	} {
		for j, s := range c.slots {
			s.pos = base + uint64(16*i+j)
			putSlot(t, h, s)
		}
		want += c.n
		if got, err := h.InFlight(); err != nil || got != want {
			t.Errorf("after %q: %d in flight, %v; want %d", c.what, got, err, want)
			want = got
		}
	}
	// Sourced after a moment: a drain that began then does not wait for it.
	if got, err := h.inFlight(clock.Monotonic() - uint64(30*time.Second)); err != nil || got != 0 {
		t.Errorf("older than 30 s: %d, %v", got, err)
	}
}

func TestSweepKeys(t *testing.T) {
	l := newLab(t, program.HookTCX, "a")
	l.opts.Timeout = time.Minute // for the machine to be busy
	l.attach("a")
	h := l.open()
	const base = 2 * domain.MinSlots
	want := make(map[uint32]bool)
	for i, c := range []struct {
		what   string
		slotAt uint64 // position that the slot has now
		age    time.Duration
		keep   bool
	}{
		{"under way", base, 0, true},
		{"older than the timeout", base + 1, 2 * l.opts.Timeout, false},
		{"overwritten", base + domain.MinSlots + 2, 0, false},
		{"not written yet", base - domain.MinSlots + 3, 2 * l.opts.Timeout, true},
		{"being written", 0, 0, true},
	} {
		pos := base + uint64(i)
		if c.slotAt != 0 {
			putSlot(t, h, slotState{pos: c.slotAt, age: c.age, segs: 1})
		}
		key := bpfobj.TcRdrKey{Saddr: 1, Daddr: 2, Id: uint32(i), Proto: 17}
		if err := h.maps[bpfobj.TcMapKeys].Put(&key, pos); err != nil {
			t.Fatal(err)
		}
		want[uint32(i)] = c.keep
	}
	removed, left, err := h.SweepKeys()
	if err != nil || removed != 2 || left != len(want)-2 {
		t.Errorf("removed %d, left %d, %v", removed, left, err)
	}
	for id, keep := range want {
		var pos uint64
		err := h.maps[bpfobj.TcMapKeys].Lookup(&bpfobj.TcRdrKey{Saddr: 1, Daddr: 2, Id: id, Proto: 17}, &pos)
		if (err == nil) != keep {
			t.Errorf("key %d: %v", id, err)
		}
	}
}

// A full table is swept as a whole.
func TestSweepKeysFull(t *testing.T) {
	l := newLab(t, program.HookTCX, "a")
	l.opts.Keys = 3 * keyBatch
	l.attach("a")
	h := l.open()
	putSlot(t, h, slotState{pos: 2 * domain.MinSlots, age: time.Hour, segs: 1})
	for i := range l.opts.Keys {
		if err := h.maps[bpfobj.TcMapKeys].Put(&bpfobj.TcRdrKey{Saddr: i}, uint64(2*domain.MinSlots)); err != nil {
			t.Fatal(err)
		}
	}
	if removed, left, err := h.SweepKeys(); err != nil || removed != int(l.opts.Keys) || left != 0 {
		t.Errorf("removed %d of %d, %v", removed, l.opts.Keys, err)
	}
}

// A key that another packet has got meanwhile stays.
func TestRemoveKeySparesNewPacket(t *testing.T) {
	l := newLab(t, program.HookTCX, "a")
	l.attach("a")
	m := l.open().maps[bpfobj.TcMapKeys]
	key := bpfobj.TcRdrKey{Saddr: 1}
	if err := m.Put(&key, uint64(8)); err != nil {
		t.Fatal(err)
	}
	var pos uint64
	if removeKey(m, &key, 7) || m.Lookup(&key, &pos) != nil || pos != 8 {
		t.Errorf("the key of position 8 is at %d", pos)
	}
	if !removeKey(m, &key, 8) || !errors.Is(m.Lookup(&key, &pos), ebpf.ErrKeyNotExist) {
		t.Error("the key is still there")
	}
}

// Every counter of the programs has a name that follows from the enum, and an
// explanation.
func TestCounterTexts(t *testing.T) {
	spec, err := bpfobj.LoadTc()
	if err != nil {
		t.Fatal(err)
	}
	var enum *btf.Enum
	if err := spec.Types.TypeByName("rdr_counter", &enum); err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, v := range enum.Values {
		if v.Name == "RDR_C_MAX" {
			continue
		}
		seen++
		c := counterText[v.Value]
		name := strings.ToLower(strings.TrimPrefix(v.Name, "RDR_C_"))
		notMeasured := strings.HasPrefix(name, "nm_")
		name = strings.Replace(name, "nm_", "not_measured_", 1)
		if c.Name != name {
			t.Errorf("%s has the name %q, want %q", v.Name, c.Name, name)
		}
		if c.Help == "" || strings.Contains(c.Help, "\n") {
			t.Errorf("%s needs one line of explanation", v.Name)
		}
		if (c.Group == GroupNotMeasured) != notMeasured || c.Group == "" {
			t.Errorf("%s is in group %q", v.Name, c.Group)
		}
	}
	if seen != len(counterText) {
		t.Errorf("%d counters in the enum, %d texts", seen, len(counterText))
	}
}

func TestCounters(t *testing.T) {
	l := newLab(t, program.HookTCX, "a")
	l.attach("a")
	h := l.open()
	cpus := make([]uint64, ebpf.MustPossibleCPU())
	for i := range cpus {
		cpus[i] = uint64(i + 1)
	}
	sum := uint64(len(cpus) * (len(cpus) + 1) / 2)
	if err := h.maps[bpfobj.TcMapCounters].Put(uint32(bpfobj.TcRdrCounterRDR_C_RESTORE_FAILED), cpus); err != nil {
		t.Fatal(err)
	}
	counters, err := h.Counters()
	if err != nil {
		t.Fatal(err)
	}
	if c := counters[bpfobj.TcRdrCounterRDR_C_RESTORE_FAILED]; c.Name != "restore_failed" || c.Value != sum {
		t.Errorf("counter %+v, want %d", c, sum)
	}
}

// What the kernel accounts must not be far from what was announced.
func TestMemoryOfDomain(t *testing.T) {
	l := newLab(t, program.HookTCX, "a")
	l.opts.Slots = 1 << 16
	announced := l.attach("a").Memory
	got := l.open().Memory()
	if got.Ring < announced.Ring || got.Ring > announced.Ring+8*uint64(os.Getpagesize()) {
		t.Errorf("ring: %d bytes announced, the kernel has %d", announced.Ring, got.Ring)
	}
	if a, g := float64(announced.Total()), float64(got.Total()); a < 0.95*g || a > 1.1*g {
		t.Errorf("announced %v, the kernel has %v", announced, got)
	}
}

// structBytes is a slot as it lies in memory.
func structBytes(s *bpfobj.TcRdrSlot) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(s)), unsafe.Sizeof(*s))
}

// A domain that has lost the pin of any map of its programs is half attached, and says so.
func TestHandleMaps(t *testing.T) {
	names := make(map[string]bool)
	for _, load := range []func() (*ebpf.CollectionSpec, error){bpfobj.LoadTc, bpfobj.LoadTrace} {
		spec, err := load()
		if err != nil {
			t.Fatal(err)
		}
		for name := range spec.Maps {
			if !loader.Own(name) {
				names[name] = true
			}
		}
	}
	if want := slices.Sorted(maps.Keys(names)); !slices.Equal(slices.Sorted(slices.Values(handleMaps)), want) {
		t.Errorf("a handle opens %v, the programs have %v", handleMaps, want)
	}
}
