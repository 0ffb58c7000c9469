// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"

	"github.com/vnetradar/radar/pkg/bpfobj"
	"github.com/vnetradar/radar/pkg/datapath"
	"github.com/vnetradar/radar/pkg/filter"
)

// design is one set of programs for the four hooks.
type design struct {
	name  string
	progs [4]*ebpf.Program
	close func()
	// lost returns how many packets it has not followed so far; nil: it follows none.
	lost func() (uint64, error)
}

// attach puts the programs on the chain and returns what takes them off.
func (d *design) attach(c *chain) (detach func(), err error) {
	var links []link.Link
	detach = func() {
		for _, l := range links {
			l.Close()
		}
	}
	for i, h := range hooks {
		kind := ebpf.AttachTCXEgress
		if h.ingress {
			kind = ebpf.AttachTCXIngress
		}
		err := c.in(h.node, func() error {
			l, err := link.AttachTCX(link.TCXOptions{Interface: c.device[i], Program: d.progs[i], Attach: kind})
			if err == nil {
				links = append(links, l)
			}
			return err
		})
		if err != nil {
			detach()
			return nil, fmt.Errorf("attach %s to %s (TCX needs kernel 6.6): %w", d.name, h.name, err)
		}
	}
	return detach, nil
}

// newDesigns loads all of them. slots is the size of both the ring and the hash map.
func newDesigns(c *chain, slots uint32, objects []namedObject) (_ []*design, err error) {
	var all []*design
	defer func() {
		if err != nil {
			closeDesigns(all)
		}
	}()
	add := func(d *design, err error) error {
		if err == nil {
			all = append(all, d)
		}
		return err
	}
	if err := add(newPlain("nop", slots, "bench_nop", "bench_nop", "bench_nop", "bench_nop")); err != nil {
		return all, err
	}
	if err := add(newPlain("floor", slots, "bench_floor", "bench_floor", "bench_floor", "bench_floor")); err != nil {
		return all, err
	}
	for _, o := range append([]namedObject{{name: "radar", load: bpfobj.LoadTc}}, objects...) {
		if err := add(newRadar(c, o, slots)); err != nil {
			return all, err
		}
	}
	err = add(newPlain("hash", slots, "bench_hash_source", "bench_hash_transit_in", "bench_hash_transit_out", "bench_hash_sink"))
	return all, err
}

func closeDesigns(all []*design) {
	for _, d := range all {
		d.close()
	}
}

// newPlain loads one instance of a bench program for each hook.
func newPlain(name string, slots uint32, programs ...string) (*design, error) {
	d := &design{name: name}
	var colls []*ebpf.Collection
	d.close = func() {
		for _, c := range colls {
			c.Close()
		}
	}
	shared := make(map[string]*ebpf.Map)
	for i, p := range programs {
		spec, err := LoadBench()
		if err != nil {
			return nil, fmt.Errorf("read the bench's object: %w", err)
		}
		for other := range spec.Programs {
			if other != p {
				delete(spec.Programs, other)
			}
		}
		if err := spec.Variables[BenchVarPort].Set(uint32(i)); err != nil {
			return nil, fmt.Errorf("set port: %w", err)
		}
		spec.Maps[BenchMapBackpacks].MaxEntries = slots
		coll, err := ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{MapReplacements: shared})
		if err != nil {
			d.close()
			return nil, loadError(name, err)
		}
		colls = append(colls, coll)
		d.progs[i] = coll.Programs[p]
		for _, m := range []string{BenchMapBackpacks, BenchMapNextFuid, BenchMapMissed} {
			shared[m] = coll.Maps[m]
		}
	}
	if name == "hash" {
		d.lost = func() (uint64, error) { return sumPerCPU(shared[BenchMapMissed], 0) }
	}
	return d, nil
}

func loadError(name string, err error) error {
	var verifier *ebpf.VerifierError
	if errors.As(err, &verifier) {
		return fmt.Errorf("load %s: %w\n%+v", name, err, verifier)
	}
	return fmt.Errorf("load %s (run as root): %w", name, err)
}

func sumPerCPU(m *ebpf.Map, key uint32) (sum uint64, err error) {
	var values []uint64
	if err := m.Lookup(key, &values); err != nil {
		return 0, fmt.Errorf("read counter: %w", err)
	}
	for _, v := range values {
		sum += v
	}
	return sum, nil
}

// namedObject is an object with the radar programs.
type namedObject struct {
	name string
	load func() (*ebpf.CollectionSpec, error)
}

// watching is radar's object with an expression in it.
func watching(e *filter.Expr) (*ebpf.CollectionSpec, error) {
	spec, err := bpfobj.LoadTc()
	if err != nil {
		return nil, err
	}
	if err := spec.Variables[bpfobj.TcVarCfgWatch].Set(uint8(1)); err != nil {
		return nil, err
	}
	return spec, datapath.SetWatch(spec, e.Instructions())
}

// newRadar loads radar as its loader does with default options, but without pins:
// the programs once, a stub for each port.
func newRadar(c *chain, o namedObject, slots uint32) (*design, error) {
	spec, err := o.load()
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", o.name, err)
	}
	if err := configure(spec, slots); err != nil {
		return nil, fmt.Errorf("configure %s: %w", o.name, err)
	}
	coll, err := ebpf.NewCollection(spec)
	if err != nil {
		return nil, loadError(o.name, err)
	}
	d := &design{name: o.name}
	d.close = func() {
		for _, p := range d.progs {
			if p != nil {
				p.Close()
			}
		}
		coll.Close()
	}
	if err := fill(coll, slots); err != nil {
		d.close()
		return nil, fmt.Errorf("fill the maps of %s: %w", o.name, err)
	}
	for i, h := range hooks {
		which := bpfobj.TcRdrProgRDR_PROG_EGRESS
		if h.ingress {
			which = bpfobj.TcRdrProgRDR_PROG_INGRESS
		}
		if d.progs[i], err = stub(i, which, coll.Maps[bpfobj.TcMapProgs]); err != nil {
			d.close()
			return nil, loadError(o.name, err)
		}
	}
	d.lost = func() (uint64, error) { return radarLost(coll.Maps[bpfobj.TcMapCounters]) }
	return d, nil
}

// radarLost is what radar counted as not followed: all but what says that all is well.
func radarLost(counters *ebpf.Map) (sum uint64, err error) {
	for c := range bpfobj.TcRdrCounterRDR_C_MAX {
		if c == bpfobj.TcRdrCounterRDR_C_SEEN || c == bpfobj.TcRdrCounterRDR_C_MARKED {
			continue
		}
		n, err := sumPerCPU(counters, uint32(c))
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

func configure(spec *ebpf.CollectionSpec, slots uint32) error {
	o := datapath.DefaultOptions()
	o.Slots = slots
	l, err := o.Layout()
	if err != nil {
		return err
	}
	for name, v := range map[string]any{
		bpfobj.TcVarCfgSlots: l.Slots, bpfobj.TcVarCfgCells: l.Cells,
		bpfobj.TcVarCfgBlock: l.Block, bpfobj.TcVarCfgMaxSegs: l.MaxSegs,
		bpfobj.TcVarCfgDscpBits: l.DSCPBits, bpfobj.TcVarCfgTtlWidth: l.TTLWidth,
		bpfobj.TcVarCfgTtlBand: l.TTLBand, bpfobj.TcVarCfgBandTop: l.BandTop,
		bpfobj.TcVarCfgMarkMask: l.MarkMask, bpfobj.TcVarCfgMarkShift: l.MarkShift,
		bpfobj.TcVarCfgTimeoutNs: uint64(o.Timeout), bpfobj.TcVarCfgMinAgeNs: uint64(o.MinAge),
		bpfobj.TcVarCfgHasCoarse: uint8(1), // where benchmarks are run: 5.11
	} {
		if spec.Variables[name] == nil {
			return fmt.Errorf("the object has no constant %s", name)
		}
		if err := spec.Variables[name].Set(v); err != nil {
			return fmt.Errorf("set %s: %w", name, err)
		}
	}
	spec.Maps[bpfobj.TcMapRing].MaxEntries = l.Slots
	spec.Maps[bpfobj.TcMapRing].ValueSize = l.SlotBytes
	return nil
}

// fill describes the chain: three nodes, ports numbered as hooks, no edge.
func fill(coll *ebpf.Collection, slots uint32) error {
	var errs []error
	put := func(name string, key, value any) {
		errs = append(errs, coll.Maps[name].Put(key, value))
	}
	flags := bpfobj.TcRdrPortFlagRDR_PF_INTERNAL | bpfobj.TcRdrPortFlagRDR_PF_SOURCE_OUT
	for i, h := range hooks {
		put(bpfobj.TcMapPorts, uint32(i), bpfobj.TcRdrPort{Node: uint16(h.node), Flags: uint16(flags)})
	}
	for node, ip := range map[int][4]byte{h1: [4]byte(h1Addr.To4()), h2: [4]byte(h2Addr.To4())} {
		put(bpfobj.TcMapNodes, uint32(node), datapath.NodeEntry([]uint32{binary.NativeEndian.Uint32(ip[:])}))
	}
	put(bpfobj.TcMapNodes, uint32(r1), datapath.NodeEntry([]uint32{1, 2})) // no packet ends there
	start := uint64(slots)
	put(bpfobj.TcMapCursor, uint32(0), bpfobj.TcRdrCursor{Next: start})
	put(bpfobj.TcMapControl, uint32(0), bpfobj.TcRdrControl{LeaseNs: ^uint64(0), Cursor: start})
	put(bpfobj.TcMapProgs, uint32(bpfobj.TcRdrProgRDR_PROG_INGRESS), coll.Programs[bpfobj.TcProgRadarIngress])
	put(bpfobj.TcMapProgs, uint32(bpfobj.TcRdrProgRDR_PROG_EGRESS), coll.Programs[bpfobj.TcProgRadarEgress])
	return errors.Join(errs...)
}

// stub is what a port's hook really runs, see docs/design/0001-data-path.md.
func stub(port int, which bpfobj.TcRdrProg, progs *ebpf.Map) (*ebpf.Program, error) {
	const cb0 = 48 // offset in struct __sk_buff
	return ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "bench_stub", Type: ebpf.SchedCLS, License: "Dual BSD/GPL",
		Instructions: asm.Instructions{
			asm.Mov.Imm(asm.R4, int32(port)),
			asm.StoreMem(asm.R1, cb0, asm.R4, asm.Word),
			asm.LoadMapPtr(asm.R2, progs.FD()),
			asm.Mov.Imm(asm.R3, int32(which)),
			asm.FnTailCall.Call(),
			asm.Mov.Imm(asm.R0, -1),
			asm.Return(),
		},
	})
}

// settle waits until nothing that ran before can run any more.
func settle() { time.Sleep(20 * time.Millisecond) }
