// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"

	"github.com/vnetradar/radar/cmd/bench/network"
	"github.com/vnetradar/radar/pkg/bpfobj"
	"github.com/vnetradar/radar/pkg/filter"
	"github.com/vnetradar/radar/pkg/loader"
	"github.com/vnetradar/radar/pkg/vnet/datapath/program"
	"github.com/vnetradar/radar/pkg/vnet/datapath/tables"
)

// design is one set of programs for the four hooks. Where each port needs a program of its
// own, the hook has one for every lane; else one for all.
type design struct {
	name  string
	progs [4][]*ebpf.Program
	lanes int // it is attached to; 0: all of the chain
	close func()
	// lost returns how many packets it has not followed so far; nil: it follows none.
	lost func() (uint64, error)
	// refused returns how many packets the source has not taken so far; nil: it takes all.
	refused func() (uint64, error)
}

// attach puts the programs on the chain and returns what takes them off.
func (d *design) attach(c *chain) (detach func(), err error) {
	var links []link.Link
	detach = func() {
		for _, l := range links {
			l.Close()
		}
	}
	lanes := d.lanes
	if lanes == 0 {
		lanes = len(c.lanes)
	}
	for node := range c.Nodes {
		err := c.In(node, func() error {
			for l := range lanes {
				for i, h := range hooks {
					if c.lanes[l].first+h.node != node {
						continue
					}
					attached, err := attachTCX(c.device(l, i), d.progs[i][l%len(d.progs[i])], h.ingress)
					if err != nil {
						return fmt.Errorf("attach %s to %s: %w", d.name, h.name, err)
					}
					links = append(links, attached)
				}
			}
			return nil
		})
		if err != nil {
			detach()
			return nil, err
		}
	}
	return detach, nil
}

// attachTCX attaches a program to an interface of the namespace that the thread is in.
func attachTCX(device int, prog *ebpf.Program, ingress bool) (link.Link, error) {
	kind := ebpf.AttachTCXEgress
	if ingress {
		kind = ebpf.AttachTCXIngress
	}
	l, err := link.AttachTCX(link.TCXOptions{Interface: device, Program: prog, Attach: kind})
	if err != nil {
		return nil, fmt.Errorf("%w (TCX needs kernel 6.6)", err)
	}
	return l, nil
}

// maker loads a design for a chain.
type maker func(c *chain, slots uint32) (*design, error)

// makeAll loads designs; whoever calls closes them.
func makeAll(c *chain, slots uint32, makers []maker) (all []*design, err error) {
	for _, m := range makers {
		d, err := m(c, slots)
		if err != nil {
			closeDesigns(all)
			return nil, err
		}
		all = append(all, d)
	}
	return all, nil
}

func closeDesigns(all []*design) {
	for _, d := range all {
		d.close()
	}
}

func nopDesign(*chain, uint32) (*design, error) {
	return newPlain("nop", 1, "bench_nop", "bench_nop", "bench_nop", "bench_nop")
}

func floorDesign(*chain, uint32) (*design, error) {
	return newPlain("floor", 1, "bench_floor", "bench_floor", "bench_floor", "bench_floor")
}

func floor6Design(*chain, uint32) (*design, error) {
	return newPlain("floor", 1, "bench_floor6", "bench_floor6", "bench_floor6", "bench_floor6")
}

func directDesign(*chain, uint32) (*design, error) {
	return newPlain("direct", 1, "bench_write_direct", "bench_write_direct", "bench_write_direct", "bench_write_direct")
}

func helperDesign(*chain, uint32) (*design, error) {
	return newPlain("helper", 1, "bench_write_helper", "bench_write_helper", "bench_write_helper", "bench_write_helper")
}

func hashDesign(_ *chain, slots uint32) (*design, error) {
	return newPlain("hash", slots, "bench_hash_source", "bench_hash_transit_in", "bench_hash_transit_out", "bench_hash_sink")
}

// radarDesign is radar from an object.
func radarDesign(o namedObject) maker {
	return func(c *chain, slots uint32) (*design, error) { return newRadar(c, o, slots) }
}

// radarWith is radar as it is built in, with options other than the defaults.
func radarWith(name string, set func(*program.Options)) maker {
	return radarDesign(builtIn().with(name, set))
}

// with is the object under another name, with options other than the defaults.
func (n namedObject) with(name string, set func(*program.Options)) namedObject {
	n.name, n.set = name, set
	return n
}

// radarDesigns are one for each object.
func radarDesigns(objects []namedObject) (all []maker) {
	for _, o := range objects {
		all = append(all, radarDesign(o))
	}
	return all
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
		d.progs[i] = []*ebpf.Program{coll.Programs[p]}
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
	file string // that it is in; "": this command
	// set changes options from the defaults, nil: nothing. lanes are those that the
	// domain knows, 0: all.
	set   func(*program.Options)
	lanes int
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
	return spec, loader.SetWatch(spec, e.Instructions())
}

// newRadar loads radar as its loader does with default options, but without pins:
// the programs once, a stub for each port.
func newRadar(c *chain, o namedObject, slots uint32) (*design, error) {
	spec, err := o.load()
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", o.name, err)
	}
	options := program.DefaultOptions()
	options.Slots = slots
	if o.set != nil {
		o.set(&options)
	}
	if err := configure(spec, options); err != nil {
		return nil, fmt.Errorf("configure %s: %w", o.name, err)
	}
	coll, err := ebpf.NewCollection(spec)
	if err != nil {
		return nil, loadError(o.name, err)
	}
	d := &design{name: o.name, lanes: o.lanes}
	d.close = func() {
		for _, progs := range d.progs {
			for _, p := range progs {
				p.Close()
			}
		}
		coll.Close()
	}
	lanes := c.lanes
	if o.lanes > 0 {
		lanes = lanes[:o.lanes]
	}
	if err := fill(coll, c, lanes, options.Slots); err != nil {
		d.close()
		return nil, fmt.Errorf("fill the maps of %s: %w", o.name, err)
	}
	for l := range lanes {
		for i, h := range hooks {
			which := bpfobj.TcRdrProgRDR_PROG_EGRESS
			if h.ingress {
				which = bpfobj.TcRdrProgRDR_PROG_INGRESS
			}
			p, err := stub(portNumber(l, i), which, coll.Maps[bpfobj.TcMapProgs])
			if err != nil {
				d.close()
				return nil, loadError(o.name, err)
			}
			d.progs[i] = append(d.progs[i], p)
		}
	}
	counters := coll.Maps[bpfobj.TcMapCounters]
	d.lost = func() (uint64, error) { return radarLost(counters) }
	d.refused = func() (uint64, error) {
		seen, err := sumPerCPU(counters, uint32(bpfobj.TcRdrCounterRDR_C_SEEN))
		if err != nil {
			return 0, err
		}
		marked, err := sumPerCPU(counters, uint32(bpfobj.TcRdrCounterRDR_C_MARKED))
		return seen - marked, err
	}
	return d, nil
}

// fine are counters that say that all is well, or of packets that are not the traffic's.
var fine = map[bpfobj.TcRdrCounter]bool{
	bpfobj.TcRdrCounterRDR_C_SEEN: true, bpfobj.TcRdrCounterRDR_C_MARKED: true,
	bpfobj.TcRdrCounterRDR_C_SLOTS_SKIPPED: true,
	bpfobj.TcRdrCounterRDR_C_OTHER_L3:      true,
	bpfobj.TcRdrCounterRDR_C_NM_NEIGHBOUR:  true, bpfobj.TcRdrCounterRDR_C_NM_MULTICAST: true,
}

// radarLost is what radar counted as not followed.
func radarLost(counters *ebpf.Map) (sum uint64, err error) {
	for c := range bpfobj.TcRdrCounterRDR_C_MAX {
		if fine[c] {
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

func configure(spec *ebpf.CollectionSpec, o program.Options) error {
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
		bpfobj.TcVarCfgIp6:       uint8(ip6Of(o)),
	} {
		if spec.Variables[name] == nil {
			return fmt.Errorf("the object has no constant %s", name)
		}
		if err := spec.Variables[name].Set(v); err != nil {
			return fmt.Errorf("set %s: %w", name, err)
		}
	}
	l.SizeMaps(spec)
	return nil
}

// ip6Of is how IPv6 is measured; auto is the label where nothing hashes on it.
func ip6Of(o program.Options) bpfobj.TcRdrIp6 {
	if o.IPv6 == program.IPv6Key {
		return bpfobj.TcRdrIp6RDR_IP6KEY
	}
	return bpfobj.TcRdrIp6RDR_IP6LABEL
}

// portNumber of a hook in a radar that is attached to the chain.
func portNumber(lane, hook int) int { return lane*len(hooks) + hook }

// fill describes the chain: groups of three nodes, no edge.
func fill(coll *ebpf.Collection, c *chain, lanes []lane, slots uint32) error {
	var errs []error
	put := func(name string, key, value any) {
		errs = append(errs, coll.Maps[name].Put(key, value))
	}
	flags := bpfobj.TcRdrPortFlagRDR_PF_INTERNAL | bpfobj.TcRdrPortFlagRDR_PF_SOURCE_OUT
	addrs := make(map[int][]netip.Addr)
	for l, lane := range lanes {
		for i, h := range hooks {
			node := lane.first + h.node
			entry := bpfobj.TcRdrPort{Node: uint16(node), Flags: uint16(flags), Ifindex: uint32(c.device(l, i)), NetnsInum: c.Inum(node)}
			put(bpfobj.TcMapPorts, uint32(portNumber(l, i)), entry)
			put(bpfobj.TcMapDevs, bpfobj.TcRdrDev{NetnsInum: entry.NetnsInum, Ifindex: entry.Ifindex}, uint32(portNumber(l, i)))
			addrs[node] = append(addrs[node], network.Addr4(l, i/2, 1+i%2), network.Addr6(l, i/2, 1+i%2))
			put(bpfobj.TcMapLocals6, bpfobj.TcRdrLocal6{Node: uint32(node), Addr: network.Addr6(l, i/2, 1+i%2).As16()}, uint8(1))
		}
	}
	var keys program.HashKeys
	if err := coll.Variables[bpfobj.TcVarCfgHash].Get(&keys); err != nil {
		return fmt.Errorf("read the keys of hashes: %w", err)
	}
	for node, list := range addrs {
		v4, v6 := tables.NodeEntries(list, keys)
		put(bpfobj.TcMapNodes, uint32(node), v4)
		put(bpfobj.TcMapNodes6, uint32(node), v6)
	}
	start := uint64(slots)
	put(bpfobj.TcMapCursor, uint32(0), bpfobj.TcRdrCursor{Next: start})
	put(bpfobj.TcMapControl, uint32(0), bpfobj.TcRdrControl{LeaseNs: ^uint64(0), Cursor: start})
	for which, name := range program.Jumps {
		if p := coll.Programs[name]; p != nil { // an older object has fewer
			put(bpfobj.TcMapProgs, uint32(which), p)
		}
	}
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
