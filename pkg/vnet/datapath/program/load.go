// SPDX-License-Identifier: Apache-2.0

package program

import (
	"strings"
	"time"

	"github.com/cilium/ebpf"

	"github.com/vnetradar/radar/pkg/bpfobj"
	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/loader"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

const constIP6 = "cfg_ip6"

// DropHook is where the program that sees dropped packets stands.
const DropHook = "tp_btf/kfree_skb"

// QueueHook is where the program stands that sees packets leave queues. It runs for
// every queue of the machine, so it is there only while a port needs it.
const QueueHook = "tp_btf/qdisc_dequeue"

// LocalHook is where the program stands that sees what a node delivers to itself.
const LocalHook = "netfilter/LOCAL_IN"

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

// objects in the order in which they are loaded. The first has every map. What a domain may need later is in
// later.go.
var objects = []object{
	{load: bpfobj.LoadTc},
	{load: loadLosses, wanted: func(f Features) bool { return f.DropHook }},
}

// Loaded is a domain's maps and programs. The caller closes it; what is pinned or
// attached stays.
type Loaded struct {
	Maps  map[string]*ebpf.Map     // by their names in bpf/backpack
	Progs map[string]*ebpf.Program // the same
}

// Close closes maps and programs.
func (l *Loaded) Close() {
	for _, m := range l.Maps {
		m.Close()
	}
	for _, p := range l.Progs {
		p.Close()
	}
}

// Blueprint is everything that is to be loaded, with sizes and constants set.
type Blueprint struct {
	Options Options
	Layout  *Layout
	Specs   []*ebpf.CollectionSpec // as objects that are wanted
	Memory  Memory                 // what the maps will take
	keys    HashKeys

	ipv6Held bool // see HoldIPv6
}

// New prepares the objects. It needs no right.
func New(o Options, l *Layout, f Features) (*Blueprint, error) {
	b := &Blueprint{Options: o, Layout: l, keys: newHashKeys()}
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
		if err := loader.SetConstants(spec, consts, used); err != nil {
			return nil, err
		}
		if err := sizeMaps(spec, o, l); err != nil {
			return nil, err
		}
		b.Specs = append(b.Specs, spec)
	}
	if o.Watch != "" && len(o.WatchProgram) == 0 {
		return nil, fault.Usage.Errorf("‹watch› %q: the expression was not compiled", o.Watch)
	}
	if len(o.WatchProgram) > 0 {
		if err := loader.SetWatch(b.Specs[0], o.WatchProgram); err != nil {
			return nil, err
		}
	}
	if err := loader.CheckUsed(consts, used); err != nil {
		return nil, err
	}
	if o.IPv6 == IPv6Off {
		b.dropIPv6()
	}
	b.Memory = estimate(b.Specs[0].Maps, f.CPUs)
	return b, nil
}

// SetIPv6 replaces how IPv6 is measured.
func (b *Blueprint) SetIPv6(mode string) error {
	b.Options.IPv6 = mode
	for _, spec := range b.Specs {
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
	consts["cfg_iterators"] = boolByte(f.Iterators)
	consts["cfg_skb_redirected"], consts["cfg_skb_again"] = f.redirects.redirected, f.redirects.again
	consts["cfg_watch"] = boolByte(len(o.WatchProgram) > 0)
	consts[constIP6] = uint8(ip6Modes[o.IPv6])
	consts["cfg_hash"] = keys
	consts["cfg_ignore"], consts["cfg_joined"] = quiet.ignored, quiet.joined
	consts["cfg_ping"], consts["cfg_no_socket"] = quiet.ping, f.NoSocket
	consts["cfg_other_host"], consts["cfg_non_member"] = quiet.otherHost, quiet.nonMember
	return consts
}

func boolByte(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}

// sizeMaps sets the sizes that depend on options, and the kernel's names.
func sizeMaps(spec *ebpf.CollectionSpec, o Options, l *Layout) error {
	for name, m := range spec.Maps {
		if !strings.HasPrefix(name, ".") { // .rodata is looked up by its name
			m.Name = domain.Kind.KernelName(name)
		}
		if name == bpfobj.TcMapKeys {
			m.MaxEntries = o.Keys
		}
	}
	l.SizeMaps(spec)
	if spec.Maps[bpfobj.TcMapRing] == nil {
		return fault.NotLoaded.Errorf("the BPF object has no ring: rebuild radar")
	}
	return nil
}

// Load loads maps and programs and fills the program array. On failure nothing
// stays.
func (b *Blueprint) Load() (_ *Loaded, err error) {
	l := &Loaded{Maps: make(map[string]*ebpf.Map), Progs: make(map[string]*ebpf.Program)}
	defer func() {
		if err != nil {
			l.Close()
		}
	}()
	for _, spec := range b.Specs {
		if err := l.add(spec); err != nil {
			return nil, loader.WatchError(len(b.Options.WatchProgram), err)
		}
	}
	return l, l.init(b)
}

// add loads one object, which uses the maps that are there already.
func (l *Loaded) add(spec *ebpf.CollectionSpec) error {
	c, err := loader.Load(spec, l.Maps)
	if err != nil {
		return loader.Error("load programs", err)
	}
	defer c.Close() // what is detached from it below stays
	for name := range c.Maps {
		if l.Maps[name] == nil && !loader.Own(name) {
			l.Maps[name] = c.DetachMap(name)
		}
	}
	for name := range c.Programs {
		l.Progs[name] = c.DetachProgram(name)
	}
	return nil
}

// Jumps are the programs that stubs, and programs, jump to: their places in the program array.
var Jumps = map[bpfobj.TcRdrProg]string{
	bpfobj.TcRdrProgRDR_PROG_INGRESS:  bpfobj.TcProgRadarIngress,
	bpfobj.TcRdrProgRDR_PROG_EGRESS:   bpfobj.TcProgRadarEgress,
	bpfobj.TcRdrProgRDR_PROG_INGRESS6: bpfobj.TcProgRadarIngress6,
	bpfobj.TcRdrProgRDR_PROG_EGRESS6:  bpfobj.TcProgRadarEgress6,
	bpfobj.TcRdrProgRDR_PROG_INGRESS4: bpfobj.TcProgRadarIngress4,
	bpfobj.TcRdrProgRDR_PROG_EGRESS4:  bpfobj.TcProgRadarEgress4,
}

// init gives the maps their first contents.
func (l *Loaded) init(b *Blueprint) error {
	progs := l.Maps[bpfobj.TcMapProgs]
	if progs == nil {
		return fault.NotLoaded.Errorf("the BPF object lacks a map: rebuild radar")
	}
	if err := l.startRing(b); err != nil {
		return err
	}
	for index, name := range Jumps {
		p := l.Progs[name]
		if p == nil && isIPv6(name) {
			continue // not needed, or not yet
		}
		if p == nil {
			return fault.NotLoaded.Errorf("the BPF object lacks program %s: rebuild radar", name)
		}
		if err := progs.Put(uint32(index), p); err != nil {
			return loader.Error("fill program array", err)
		}
	}
	return nil
}

// PinMaps pins all maps under their names in the domain's directory of pins, which must be there.
func (l *Loaded) PinMaps(domainName string) error {
	for name, m := range l.Maps {
		if err := m.Pin(domain.Kind.Pin(domainName, name)); err != nil {
			return loader.Error("pin map "+name, err)
		}
	}
	return nil
}
