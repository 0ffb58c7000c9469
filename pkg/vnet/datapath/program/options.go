// SPDX-License-Identifier: Apache-2.0

package program

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/bpf"

	"github.com/vnetradar/radar/pkg/bpfobj"
	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/hook"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// Options are what a user chooses for a domain; they hold for its life.
type Options struct {
	Slots    uint32        // packets in flight or remembered: a power of two, 2^12..2^24
	GUIDBits string        // header bits that carry the index: "auto", "12".."22", "paper"
	Carry    string        // inside a node: CarryAuto, CarryMark, "mark=0xMASK" or CarryHeader
	Timeout  time.Duration // a packet not seen for this long has expired
	MinAge   time.Duration // a finished packet is kept at least this long
	Lease    time.Duration // sources stop when no agent renewed for this long; 0: never
	MaxHops  int           // nodes on a packet's path that must fit, with its end; 0: of the longest path, at least DefaultHops
	Keys     uint32        // packets at once that are measured by key, their bits unchanged
	Hook     string        // "auto", "tcx" or "clsact"
	IPv6     string        // "auto", "label", "key" or "off"
	// Watch is the filter expression of the packets that are measured, "": all.
	// WatchProgram is what pkg/filter makes of it; a domain that exists has its own.
	Watch        string
	WatchProgram []bpf.RawInstruction
}

// Hooks by which programs are attached.
const (
	HookAuto   = "auto"
	HookTCX    = hook.ByTCX
	HookClsact = hook.ByClsact
)

// How IPv6 packets are measured: their index in hop limit and flow label, or found by
// key with no bit changed, or not at all. Auto is the label unless something in the
// domain hashes on it.
const (
	IPv6Auto  = "auto"
	IPv6Label = "label"
	IPv6Key   = "key"
	IPv6Off   = "off"
)

var ip6Modes = map[string]bpfobj.TcRdrIp6{
	IPv6Auto:  bpfobj.TcRdrIp6RDR_IP6LABEL, // until it is known what hashes
	IPv6Label: bpfobj.TcRdrIp6RDR_IP6LABEL,
	IPv6Key:   bpfobj.TcRdrIp6RDR_IP6KEY,
	IPv6Off:   bpfobj.TcRdrIp6RDR_IP6OFF,
}

// Where the GUID is kept inside a node: --carry.
const (
	CarryAuto   = "auto"   // the mark, in bits that no rule uses; the header in nodes that leave none
	CarryMark   = "mark"   // the mark's upper bits, or "mark=MASK"
	CarryHeader = "header" // the header, in all nodes
)

// DefaultHops is how many nodes of a path a record has room for at least, where the user says
// nothing.
const DefaultHops = 10

// Limits of the options.
const (
	minSlots = domain.MinSlots
	maxSlots = domain.MaxSlots
	minKeys  = domain.MinKeys
	maxKeys  = domain.MaxKeys
)

// MostDefaultSlots are as many as a domain has where the user says nothing and the machine has the memory.
const MostDefaultSlots = 1 << 20

// slotsFor are those of a ring that takes a tenth of a machine's memory at most; bytes 0: not known.
func slotsFor(bytes uint64) uint32 {
	l := Layout{Slots: MostDefaultSlots}
	l.setCells(2*DefaultHops - 2 + lossCells)
	for bytes > 0 && l.Slots > minSlots && uint64(l.Slots)*uint64(l.SlotBytes) > bytes/10 {
		l.Slots /= 2
	}
	return l.Slots
}

// DefaultOptions returns what holds where the user says nothing.
func DefaultOptions() Options {
	return Options{
		Slots: slotsFor(meminfo("MemTotal")), GUIDBits: "auto", Carry: CarryAuto,
		Timeout: 10 * time.Second, MinAge: 10 * time.Millisecond, Lease: 30 * time.Second,
		Keys: 1 << 16, Hook: HookAuto, IPv6: IPv6Auto,
	}
}

// check refuses (fault.Usage) what lies outside the limits.
func (o Options) check() error {
	switch {
	case o.Slots < minSlots || o.Slots > maxSlots:
		return fault.Usage.Errorf("‹slots› %d: use a power of two from %d to %d", o.Slots, minSlots, maxSlots)
	case bits.OnesCount32(o.Slots) != 1:
		return fault.Usage.Errorf("‹slots› %d is no power of two: the next one is %d", o.Slots, uint32(1)<<bits.Len32(o.Slots))
	case o.Timeout < domain.MinTimeout || o.Timeout > domain.MaxTimeout:
		return fault.Usage.Errorf("‹timeout› %v: use 100ms to 15m", o.Timeout)
	case o.MinAge < 0 || o.MinAge > o.Timeout:
		return fault.Usage.Errorf("minimum age %v: use 0 to the timeout, %v", o.MinAge, o.Timeout)
	case o.Lease < 0 || (o.Lease > 0 && o.Lease < time.Second):
		return fault.Usage.Errorf("‹lease› %v: use at least 1s, or 0 for a lease that never ends", o.Lease)
	case o.Keys < minKeys || o.Keys > maxKeys:
		return fault.Usage.Errorf("keys %d: use %d to %d", o.Keys, minKeys, maxKeys)
	case o.Hook != HookAuto && o.Hook != HookTCX && o.Hook != HookClsact:
		return fault.Usage.Errorf("‹hook› %q: use auto, tcx or clsact", o.Hook)
	}
	if _, ok := ip6Modes[o.IPv6]; !ok {
		return fault.Usage.Errorf("‹ipv6› %q: use auto, label, key or off", o.IPv6)
	}
	return nil
}

// parseCarry returns the bits of skb->mark that carry the index, 0 for "header".
// They hold index + 1, so one bit more than the index. Of "auto" it returns those that
// are taken where no rule uses any.
func parseCarry(carry string, slots uint32) (uint32, error) {
	need := bits.Len32(slots) // slots is a power of two: log2(slots) + 1
	kind, arg, hasArg := strings.Cut(carry, "=")
	switch {
	case carry == CarryHeader:
		return 0, nil
	case kind != CarryMark && carry != CarryAuto:
		return 0, fault.Usage.Errorf("‹carry› %q: use auto, mark, mark=MASK or header", carry)
	case !hasArg:
		return ^uint32(0) << (32 - need), nil
	}
	m, err := strconv.ParseUint(arg, 0, 32)
	if err != nil {
		return 0, fault.Usage.Errorf("‹carry› %q: %q is no 32-bit mask such as 0x%08x", carry, arg, ^uint32(0)<<(32-need))
	}
	mask := uint32(m)
	shifted := mask >> bits.TrailingZeros32(mask)
	if mask == 0 || shifted&(shifted+1) != 0 {
		return 0, fault.Usage.Errorf("‹carry› %q: the bits of the mask must stand side by side", carry)
	}
	if bits.OnesCount32(mask) < need {
		return 0, fault.Usage.Errorf("‹carry› %q: %d slots need %d bits of the mark, the mask has %d: use fewer slots or more bits", carry, slots, need, bits.OnesCount32(mask))
	}
	return mask, nil
}

// Stored returns the options as the domain's description keeps them; hook is HookTCX or HookClsact.
func (o Options) Stored(l *Layout, hook string) domain.Options {
	carry, _, _ := strings.Cut(o.Carry, "=")
	return domain.Options{
		Slots: o.Slots, SlotBytes: l.SlotBytes, GUIDBits: o.GUIDBits,
		Carry: carry, MarkMask: l.MarkMask,
		Timeout: o.Timeout, MinAge: o.MinAge, Lease: o.Lease,
		Keys: o.Keys, Hook: hook, IPv6: o.IPv6, Watch: o.Watch, WatchProgram: o.WatchProgram,
	}
}

// optionsOf returns options that make programs like a domain's: what --carry auto chose is asked
// for.
func optionsOf(d domain.Options) Options {
	o := Options{
		Slots: d.Slots, GUIDBits: d.GUIDBits, Carry: d.Carry, MaxHops: HopsIn(d.SlotBytes),
		Timeout: d.Timeout, MinAge: d.MinAge, Lease: d.Lease, Keys: d.Keys, Hook: d.Hook,
		IPv6: d.IPv6, Watch: d.Watch, WatchProgram: d.WatchProgram,
	}
	if d.MarkMask != 0 {
		o.Carry = fmt.Sprintf("mark=%#x", d.MarkMask)
	}
	return o
}

// Differs names the options that are not as the domain has them, "" if none.
func (o Options) Differs(l *Layout, have domain.Options) string {
	want := o.Stored(l, have.Hook)
	if o.Hook != HookAuto {
		want.Hook = o.Hook
	}
	if o.IPv6 == IPv6Auto {
		want.IPv6 = have.IPv6
	}
	var names []string
	add := func(name string, differ bool) {
		if differ {
			names = append(names, name)
		}
	}
	add("‹slots›", want.Slots != have.Slots)
	add("‹max-hops›", o.MaxHops != 0 && want.SlotBytes != have.SlotBytes)
	add("‹guid-bits›", want.GUIDBits != have.GUIDBits)
	add("‹carry›", want.Carry != have.Carry || want.Carry != CarryAuto && want.MarkMask != have.MarkMask)
	add("‹timeout›", want.Timeout != have.Timeout)
	add("minimum age", want.MinAge != have.MinAge)
	add("‹lease›", want.Lease != have.Lease)
	add("‹keys›", want.Keys != have.Keys)
	add("‹hook›", want.Hook != have.Hook)
	add("‹ipv6›", want.IPv6 != have.IPv6)
	add("‹watch›", want.Watch != have.Watch)
	return strings.Join(names, ", ")
}
