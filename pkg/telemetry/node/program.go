// SPDX-License-Identifier: Apache-2.0

package node

import (
	"slices"

	"github.com/cilium/ebpf"
	"golang.org/x/net/bpf"

	"github.com/vnetradar/radar/pkg/bpfobj"
	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/hook"
	"github.com/vnetradar/radar/pkg/host/kernel"
	"github.com/vnetradar/radar/pkg/loader"
	"github.com/vnetradar/radar/pkg/system"
)

// kernelHas is what the running kernel has for the programs.
type kernelHas struct {
	times  bool // 5.18: skb->tstamp carries a time through the node
	queues bool // 6.2: programs can read the kernel's skb
}

func probe() kernelHas {
	release := kernel.Release()
	hasBTF, _, _ := kernel.DropReasons()
	return kernelHas{times: !kernel.Older(release, 5, 18), queues: hasBTF && !kernel.Older(release, 6, 2)}
}

// lacks says what reports and INT will not have on this kernel.
func (k kernelHas) lacks() (notes []string) {
	if !k.times {
		notes = append(notes, "this kernel ("+kernel.Release()+") carries no time of ingress through a node: hop latencies and times of ingress are \"not available\" (Linux 5.18)")
	}
	if !k.queues {
		notes = append(notes, "programs cannot read queues on this kernel ("+kernel.Release()+"): their occupancy is \"not available\" (Linux 6.2, with BTF)")
	}
	return notes
}

func number(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}

// watchlist returns the entries that a node compares packets with. Nodes that are no source need them only
// where every node reports by itself.
func (d *Domain) watchlist(n *Node) (list [MaxEntries]bpfobj.IntEntry, expressions [][]bpf.RawInstruction) {
	entries := d.Watchlist(n)
	own := slices.ContainsFunc(entries, func(e Entry) bool { return e.Mode == XD })
	if !own && !n.Source && !n.Has(Source) {
		return list, nil
	}
	for i := range entries {
		e := &entries[i]
		list[i] = bpfobj.IntEntry{
			Instructions: e.Instructions, Domain: e.Domain, Mode: uint8(e.Mode),
			Remaining: e.Hops, Words: uint8(e.words()), Sample: e.Sample,
		}
		expressions = append(expressions, e.Program)
	}
	return list, expressions
}

// loadPrograms loads those of a node, with the maps that are there.
func (d *Domain) loadPrograms(n *Node, has kernelHas, maps map[string]*ebpf.Map) (progs system.Pair, err error) {
	spec, err := bpfobj.LoadInt()
	if err != nil {
		return progs, fault.NotLoaded.Errorf("read BPF object: %w", err)
	}
	list, expressions := d.watchlist(n)
	o := &d.Options
	consts := map[string]any{
		bpfobj.IntVarCfgNode: n.ID, bpfobj.IntVarCfgIndex: n.Index, bpfobj.IntVarCfgPortMask: n.Mask,
		bpfobj.IntVarCfgDscp: o.Mark.DSCP, bpfobj.IntVarCfgDscpMask: o.Mark.Mask, bpfobj.IntVarCfgPort: o.Mark.Port,
		bpfobj.IntVarCfgReportPort: o.Address.Port(), bpfobj.IntVarCfgQuote: uint16(o.Quote),
		bpfobj.IntVarCfgHostSource: number(n.Source), bpfobj.IntVarCfgReports: uint8(1),
		bpfobj.IntVarCfgTimes: number(has.times), bpfobj.IntVarCfgQueues: number(has.queues),
		bpfobj.IntVarCfgEntries: uint32(len(expressions)), bpfobj.IntVarCfgWatchlist: list,
	}
	if err := loader.SetAll(spec, consts); err != nil {
		return progs, err
	}
	size := 0
	for _, e := range expressions {
		size += len(e)
	}
	if err := loader.SetWatch(spec, expressions...); err != nil {
		return progs, err
	}
	spec.Maps[bpfobj.IntMapPorts].MaxEntries = n.Mask + 1
	c, err := loader.Load(spec, maps)
	if err != nil {
		return progs, loader.WatchError(size, loader.Error("load programs of node "+n.Name, err))
	}
	defer c.Close() // what is detached from it below stays
	return system.Pair{hook.Ingress: c.DetachProgram(bpfobj.IntProgRadarIntIngress), hook.Egress: c.DetachProgram(bpfobj.IntProgRadarIntEgress)}, nil
}
