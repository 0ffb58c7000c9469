// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/rlimit"

	"github.com/vnetradar/radar/pkg/bpfobj"
	"github.com/vnetradar/radar/pkg/fault"
)

// Prefixes: of the constants in bpf/backpack/config.h, and of our maps in the kernel.
const (
	constPrefix = "cfg_"
	constIP6    = "cfg_ip6"
	mapPrefix   = "rdr_"
)

// maxKernelName is how long the kernel's names of maps and programs can be.
const maxKernelName = 15

// dropHook is where the program that sees dropped packets stands.
const dropHook = "tp_btf/kfree_skb"

// lossHold is how long the slot of a packet lost inside a node is kept, where
// the timeout is not shorter.
const lossHold = 2 * time.Second

// object is one ELF with programs. Objects share maps by name.
type object struct {
	load func() (*ebpf.CollectionSpec, error)
	// wanted says whether the kernel can take it; what needs it must do without
	// otherwise. nil: always.
	wanted func(Features) bool
}

// objects in the order in which they are loaded. The first has every map.
var objects = []object{
	{load: bpfobj.LoadTc},
	{load: loadLosses, wanted: func(f Features) bool { return f.DropHook }},
	{load: bpfobj.LoadDeliver, wanted: func(f Features) bool { return f.LocalIn && f.BTF }},
}

func loadLosses() (*ebpf.CollectionSpec, error) { return loadTrace(bpfobj.TraceProgRadarKfreeSkb) }

// loaded is a domain's maps and programs. The caller closes it; what is pinned or
// attached stays.
type loaded struct {
	maps  map[string]*ebpf.Map
	progs map[string]*ebpf.Program
}

func (l *loaded) close() {
	for _, m := range l.maps {
		m.Close()
	}
	for _, p := range l.progs {
		p.Close()
	}
}

// blueprint is everything that is to be loaded, with sizes and constants set.
type blueprint struct {
	options Options
	layout  *Layout
	keys    HashKeys
	specs   []*ebpf.CollectionSpec // as objects that are wanted
	memory  Memory
}

// newBlueprint prepares the objects. It needs no right.
func newBlueprint(o Options, l *Layout, f Features) (*blueprint, error) {
	b := &blueprint{options: o, layout: l, keys: newHashKeys()}
	consts := constantsOf(o, l, f, findQuiet(), b.keys)
	used := make(map[string]bool)
	for _, obj := range objects {
		if obj.wanted != nil && !obj.wanted(f) {
			continue
		}
		spec, err := obj.load()
		if err != nil {
			return nil, fault.NotLoaded.Errorf("read BPF object: %w", err)
		}
		if err := setConstants(spec, consts, used); err != nil {
			return nil, err
		}
		if err := sizeMaps(spec, o, l); err != nil {
			return nil, err
		}
		b.specs = append(b.specs, spec)
	}
	if o.Watch != "" && len(o.WatchProgram) == 0 {
		return nil, fault.Usage.Errorf("‹watch› %q: the expression was not compiled", o.Watch)
	}
	if len(o.WatchProgram) > 0 {
		if err := SetWatch(b.specs[0], o.WatchProgram); err != nil {
			return nil, err
		}
	}
	if err := checkUsed(consts, used); err != nil {
		return nil, err
	}
	b.memory = estimate(b.specs[0].Maps, f.CPUs)
	return b, nil
}

// setIPv6 replaces how IPv6 is measured.
func (b *blueprint) setIPv6(mode string) error {
	b.options.IPv6 = mode
	for _, spec := range b.specs {
		if v := spec.Variables[constIP6]; v != nil {
			if err := v.Set(uint8(ip6Modes[mode])); err != nil {
				return fault.NotLoaded.Errorf("set constant %s: %w", constIP6, err)
			}
		}
	}
	return nil
}

// constantsOf returns the programs' constants.
func constantsOf(o Options, l *Layout, f Features, quiet quietFuncs, keys HashKeys) map[string]any {
	consts := l.constants()
	consts["cfg_timeout_ns"] = uint64(o.Timeout)
	consts["cfg_min_age_ns"] = uint64(o.MinAge)
	consts["cfg_loss_hold_ns"] = uint64(min(lossHold, o.Timeout))
	consts["cfg_has_reason"] = boolByte(f.DropReason)
	consts["cfg_has_coarse"] = boolByte(f.CoarseClock)
	consts["cfg_skb_redirected"], consts["cfg_skb_again"] = f.redirects.redirected, f.redirects.again
	consts["cfg_watch"] = boolByte(len(o.WatchProgram) > 0)
	consts[constIP6] = uint8(ip6Modes[o.IPv6])
	consts["cfg_hash"] = keys
	consts["cfg_ignore"], consts["cfg_joined"] = quiet.ignored, quiet.joined
	consts["cfg_ping"], consts["cfg_no_socket"] = quiet.ping, f.NoSocket
	consts["cfg_other_host"], consts["cfg_non_member"] = quiet.otherHost, quiet.nonMember
	return consts
}

// checkUsed refuses constants that no object has: one was renamed.
func checkUsed(consts map[string]any, used map[string]bool) error {
	for _, name := range slices.Sorted(maps.Keys(consts)) {
		if !used[name] {
			return fault.NotLoaded.Errorf("no BPF object has the constant %s: rebuild radar", name)
		}
	}
	return nil
}

func boolByte(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}

// setConstants sets every constant of the object and notes it in used. One that
// is not in consts would silently keep its default: an error.
func setConstants(spec *ebpf.CollectionSpec, consts map[string]any, used map[string]bool) error {
	for name, v := range spec.Variables {
		if !strings.HasPrefix(name, constPrefix) {
			continue
		}
		value, ok := consts[name]
		if !ok {
			return fault.NotLoaded.Errorf("the BPF object has a constant %s that radar does not set: rebuild radar", name)
		}
		if err := v.Set(value); err != nil {
			return fault.NotLoaded.Errorf("set constant %s: %w", name, err)
		}
		used[name] = true
	}
	return nil
}

// sizeMaps sets the sizes that depend on options, and the kernel's names.
func sizeMaps(spec *ebpf.CollectionSpec, o Options, l *Layout) error {
	for name, m := range spec.Maps {
		if !strings.HasPrefix(name, ".") { // .rodata is looked up by its name
			m.Name = kernelName(mapPrefix + name)
		}
		switch name {
		case bpfobj.TcMapRing:
			m.MaxEntries, m.ValueSize = l.Slots, l.SlotBytes
		case bpfobj.TcMapKeys:
			m.MaxEntries = o.Keys
		}
	}
	if spec.Maps[bpfobj.TcMapRing] == nil {
		return fault.NotLoaded.Errorf("the BPF object has no ring: rebuild radar")
	}
	return nil
}

func kernelName(name string) string { return name[:min(len(name), maxKernelName)] }

// raiseMemlock lets this process load maps and programs: before Linux 5.11 they count as
// locked memory of their user, whose other domains may have used up a small limit.
func raiseMemlock() error {
	if err := rlimit.RemoveMemlock(); err != nil {
		return fault.Unsupported.Errorf("raise the limit of locked memory (this kernel counts maps against it; ulimit -l unlimited, or CAP_SYS_RESOURCE): %w", err)
	}
	return nil
}

// load loads maps and programs and fills the program array. On failure nothing
// stays.
func (b *blueprint) load() (_ *loaded, err error) {
	if err := raiseMemlock(); err != nil {
		return nil, err
	}
	l := &loaded{maps: make(map[string]*ebpf.Map), progs: make(map[string]*ebpf.Program)}
	defer func() {
		if err != nil {
			l.close()
		}
	}()
	for _, spec := range b.specs {
		if err := l.add(spec); err != nil {
			return nil, watchError(b.options, err)
		}
	}
	return l, l.init(b.layout, b.keys)
}

// add loads one object, which uses the maps that are there already.
func (l *loaded) add(spec *ebpf.CollectionSpec) error {
	shared := make(map[string]*ebpf.Map)
	for name := range spec.Maps {
		if m := l.maps[name]; m != nil && !strings.HasPrefix(name, ".") {
			shared[name] = m
		}
	}
	c, err := ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{MapReplacements: shared})
	if err != nil {
		return bpfError("load programs", err)
	}
	defer c.Close() // what is detached from it below stays
	for name := range c.Maps {
		if shared[name] == nil && !strings.HasPrefix(name, ".") {
			l.maps[name] = c.DetachMap(name)
		}
	}
	for name := range c.Programs {
		l.progs[name] = c.DetachProgram(name)
	}
	return nil
}

// init gives the maps their first contents.
func (l *loaded) init(layout *Layout, keys HashKeys) error {
	progs := l.maps[bpfobj.TcMapProgs]
	if progs == nil {
		return fault.NotLoaded.Errorf("the BPF object lacks a map: rebuild radar")
	}
	if err := l.startRing(layout, keys); err != nil {
		return err
	}
	for index, name := range map[bpfobj.TcRdrProg]string{
		bpfobj.TcRdrProgRDR_PROG_INGRESS: bpfobj.TcProgRadarIngress,
		bpfobj.TcRdrProgRDR_PROG_EGRESS:  bpfobj.TcProgRadarEgress,

		bpfobj.TcRdrProgRDR_PROG_INGRESS6: bpfobj.TcProgRadarIngress6,
		bpfobj.TcRdrProgRDR_PROG_EGRESS6:  bpfobj.TcProgRadarEgress6,
	} {
		p := l.progs[name]
		if p == nil {
			return fault.NotLoaded.Errorf("the BPF object lacks program %s: rebuild radar", name)
		}
		if err := progs.Put(uint32(index), p); err != nil {
			return bpfError("fill program array", err)
		}
	}
	return nil
}

var errNoPin = errors.New("not pinned")
