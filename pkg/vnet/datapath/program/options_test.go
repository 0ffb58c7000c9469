// SPDX-License-Identifier: Apache-2.0

package program

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// with returns the default options with a change.
func with(change func(*Options)) Options {
	o := DefaultOptions()
	change(&o)
	return o
}

func TestDefaultOptions(t *testing.T) {
	l, err := DefaultOptions().layoutFor(2)
	if err != nil {
		t.Fatal(err)
	}
	if l.Slots != 1<<20 || l.SlotBytes != 256 || l.Cells != 21 || l.Block != 1024 || l.MaxSegs != 128 {
		t.Errorf("layout %+v", l)
	}
	if l.Bands != 16 || l.DSCPBits != 0 || l.TTLWidth != 8 {
		t.Errorf("layout %+v", l)
	}
	if l.MarkMask != 0xfffff800 || l.MarkShift != 11 {
		t.Errorf("mark %#x >> %d", l.MarkMask, l.MarkShift)
	}
	if len(l.Warnings) != 0 {
		t.Errorf("warnings %q", l.Warnings)
	}
}

func TestOptionsRefused(t *testing.T) {
	for _, c := range []struct {
		want   string // in the text of the error
		change func(*Options)
	}{
		{"4096", func(o *Options) { o.Slots = 0 }},
		{"4096", func(o *Options) { o.Slots = 2048 }},
		{"16777216", func(o *Options) { o.Slots = 1 << 25 }},
		{"the next one is 8192", func(o *Options) { o.Slots = 5000 }},
		{"the next one is 16777216", func(o *Options) { o.Slots = 1<<23 + 1 }},
		{"‹guid-bits› paper", func(o *Options) { o.Slots = 1 << 23 }},
		{"‹guid-bits›", func(o *Options) { o.GUIDBits = "" }},
		{"‹guid-bits›", func(o *Options) { o.GUIDBits = "11" }},
		{"‹guid-bits›", func(o *Options) { o.GUIDBits = "23" }},
		{"need 20", func(o *Options) { o.GUIDBits = "19" }},
		{"‹carry›", func(o *Options) { o.Carry = "" }},
		{"‹carry›", func(o *Options) { o.Carry = "tape" }},
		{"‹carry›", func(o *Options) { o.Carry = "header=1" }},
		{"32-bit mask", func(o *Options) { o.Carry = "mark=" }},
		{"32-bit mask", func(o *Options) { o.Carry = "mark=0x1ffffffff" }},
		{"side by side", func(o *Options) { o.Carry = "mark=0" }},
		{"side by side", func(o *Options) { o.Carry = "mark=0xff00ff00" }},
		{"need 21 bits", func(o *Options) { o.Carry = "mark=0xfffff000" }}, // 20
		{"‹timeout›", func(o *Options) { o.Timeout = time.Millisecond }},
		{"‹timeout›", func(o *Options) { o.Timeout = time.Hour }},
		{"minimum age", func(o *Options) { o.MinAge = o.Timeout + 1 }},
		{"minimum age", func(o *Options) { o.MinAge = -1 }},
		{"‹lease›", func(o *Options) { o.Lease = time.Millisecond }},
		{"‹lease›", func(o *Options) { o.Lease = -time.Second }},
		{"‹max-hops›", func(o *Options) { o.MaxHops = 1 }},
		{"2 to 26", func(o *Options) { o.MaxHops = 27 }},
		{"keys", func(o *Options) { o.Keys = 1 }},
		{"‹hook›", func(o *Options) { o.Hook = "xdp" }},
	} {
		o := with(c.change)
		_, err := o.Layout()
		if !errors.Is(err, fault.Usage) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v; want a usage error with %q", o, err, c.want)
		}
	}
}

// The addresses of IPv6 packets need room, even where few hops do not.
func TestSlotSize(t *testing.T) {
	if l, err := with(func(o *Options) { o.MaxHops, o.IPv6 = 2, IPv6Off }).Layout(); err != nil || l.SlotBytes != 128 {
		t.Errorf("2 hops without IPv6: slot of %d bytes (%v), want 128", l.SlotBytes, err)
	}
	for hops, want := range map[int]uint32{2: 192, 3: 192, 6: 192, 7: 256, 10: 256, 11: 320, 26: 512} {
		o := with(func(o *Options) { o.MaxHops = hops })
		l, err := o.Layout()
		if err != nil || l.SlotBytes != want {
			t.Errorf("%d hops: slot of %d bytes (%v), want %d", hops, l.SlotBytes, err, want)
			continue
		}
		// Source and sink write one cell, every node between two, a loss three.
		if need := uint32(2*hops - 2 + 3); l.Cells < need {
			t.Errorf("%d hops: %d cells, want %d", hops, l.Cells, need)
		}
	}
}

func TestCarry(t *testing.T) {
	for _, c := range []struct {
		carry string
		slots uint32
		mask  uint32
		shift uint32
	}{
		{"auto", 1 << 20, 0xfffff800, 11},
		{"mark", 1 << 20, 0xfffff800, 11},
		{"mark", 1 << 12, 0xfff80000, 19},
		{"mark", 1 << 22, 0xfffffe00, 9},
		{"mark=0x1fffff", 1 << 20, 0x1fffff, 0},
		{"mark=0xffffff00", 1 << 20, 0xffffff00, 8},
		{"mark=0xffffffff", 1 << 22, 0xffffffff, 0},
		{"header", 1 << 20, 0, 0},
	} {
		o := with(func(o *Options) { o.Carry, o.Slots = c.carry, c.slots })
		l, err := o.Layout()
		if err != nil || l.MarkMask != c.mask || l.MarkShift != c.shift {
			t.Errorf("%s with %d slots: %#x >> %d, %v", c.carry, c.slots, l.MarkMask, l.MarkShift, err)
			continue
		}
		// The largest value that is stored is index + 1 = slots.
		if c.mask != 0 && c.mask>>c.shift < c.slots {
			t.Errorf("%s: %d does not fit into %#x", c.carry, c.slots, c.mask)
		}
	}
}

// All CPUs together hold at most a quarter of the ring, as far as a block can be.
func TestBlock(t *testing.T) {
	for _, c := range []struct {
		slots uint32
		cpus  int
		block uint32
		segs  uint32
	}{
		{1 << 20, 2, 1024, 128},
		{1 << 20, 256, 1024, 128},
		{1 << 20, 512, 512, 128},
		{1 << 12, 1, 1024, 128},
		{1 << 12, 2, 512, 128},
		{1 << 12, 16, 64, 64},
		{1 << 12, 64, 16, 16},
		{1 << 12, 1024, 16, 16},
	} {
		o := with(func(o *Options) { o.Slots = c.slots })
		l, err := o.layoutFor(c.cpus)
		if err != nil || l.Block != c.block || l.MaxSegs != c.segs {
			t.Errorf("%d slots, %d CPUs: block %d, segs %d, %v; want %d, %d", c.slots, c.cpus, l.Block, l.MaxSegs, err, c.block, c.segs)
		}
	}
}

func TestMemoryLimits(t *testing.T) {
	m := Memory{Ring: 1 << 32}
	if err := m.check(0); !errors.Is(err, fault.Usage) {
		t.Errorf("a ring of 4 GiB: %v", err)
	}
	m.Ring = 1<<32 - pageBytes
	if err := m.check(0); err != nil {
		t.Errorf("a ring just below: %v", err)
	}
	m = Memory{Ring: 600, Keys: 100, Other: 60}
	if err := m.check(1000); !errors.Is(err, fault.Usage) {
		t.Errorf("more than three quarters: %v", err)
	}
	if err := m.check(1100); err != nil {
		t.Errorf("less than three quarters: %v", err)
	}
	if available := memAvailable(); available < 1<<20 || available > 1<<50 {
		t.Errorf("MemAvailable is %d", available)
	}
	m = Memory{Ring: 256 << 20, Keys: 5 << 20, Other: 512}
	if got, want := m.String(), "261.0 MiB (ring 256.0 MiB, keys 5.0 MiB, other 0.5 KiB)"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestDiffers(t *testing.T) {
	o := DefaultOptions()
	o.MaxHops = 20 // else it is chosen to fit, and a domain's own will do
	l, err := o.Layout()
	if err != nil {
		t.Fatal(err)
	}
	have := o.Stored(l, HookTCX)
	if names := o.Differs(l, have); names != "" {
		t.Errorf("the same options differ in %s", names)
	}
	for want, change := range map[string]func(*domain.Options){
		"‹slots›":     func(d *domain.Options) { d.Slots++ },
		"‹max-hops›":  func(d *domain.Options) { d.SlotBytes++ },
		"‹guid-bits›": func(d *domain.Options) { d.GUIDBits = "20" },
		"‹carry›":     func(d *domain.Options) { d.Carry = CarryMark },
		"‹timeout›":   func(d *domain.Options) { d.Timeout++ },
		"minimum age": func(d *domain.Options) { d.MinAge++ },
		"‹lease›":     func(d *domain.Options) { d.Lease++ },
		"‹keys›":      func(d *domain.Options) { d.Keys++ },
		"‹watch›":     func(d *domain.Options) { d.Watch = "udp" },
	} {
		other := have
		change(&other)
		if got := o.Differs(l, other); got != want {
			t.Errorf("differs in %q, want %q", got, want)
		}
	}
	o.Hook = HookClsact
	if got := o.Differs(l, have); got != "‹hook›" {
		t.Errorf("differs in %q, want the hook", got)
	}
}

// Programs that are loaded later are like the first ones.
func TestOptionsOf(t *testing.T) {
	for _, change := range []func(*Options){
		func(*Options) {},
		func(o *Options) { o.Carry = "header" },
		func(o *Options) { o.IPv6 = IPv6Key },
		func(o *Options) { o.Carry, o.Slots = "mark=0x3ffff0", 1<<16 },
		func(o *Options) { o.GUIDBits, o.MaxHops = "22", 26 },
		func(o *Options) { o.GUIDBits, o.MaxHops, o.Lease = "paper", 2, 0 },
	} {
		o := DefaultOptions()
		o.Hook = HookTCX
		change(&o)
		want, err := o.Layout()
		if err != nil {
			t.Fatal(err)
		}
		back := optionsOf(o.Stored(want, o.Hook))
		got, err := back.Layout()
		if err != nil {
			t.Fatal(err)
		}
		diff := cmp.Diff(constantsOf(o, want, Features{}, quietFuncs{}, HashKeys{7}), constantsOf(back, got, Features{}, quietFuncs{}, HashKeys{7}))
		if diff != "" {
			t.Errorf("constants of %+v (-want +got):\n%s", o, diff)
		}
		if _, err := QueueSpec(o.Stored(want, o.Hook), HashKeys{7}); err != nil {
			t.Errorf("queue hook of %+v: %v", o, err)
		}
	}
}

// TestSlotsFor: a ring takes a tenth of the machine's memory at most, also on a small machine.
func TestSlotsFor(t *testing.T) {
	const gib = 1 << 30
	for bytes, want := range map[uint64]uint32{
		0: 1 << 20, 64 * gib: 1 << 20, 4 * gib: 1 << 20, 2560 << 20: 1 << 20, 2560<<20 - 10: 1 << 19, gib: 1 << 18, 1 << 20: minSlots, 1: minSlots,
	} {
		if got := slotsFor(bytes); got != want {
			t.Errorf("%d MiB: %d slots, want %d", bytes>>20, got, want)
		}
	}
}
