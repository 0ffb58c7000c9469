// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os/exec"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/ringbuf"

	"github.com/vnetradar/radar/cmd/bench/inband"
	"github.com/vnetradar/radar/cmd/bench/result"
	"github.com/vnetradar/radar/pkg/bpfobj"
)

// intNodes measures INT-MD by nodes in eBPF: h1 is the source, the router the transit, h2 the
// sink. In one table checksums are as local sockets leave them, in the other they are computed at
// the sender.
func intNodes(ctx context.Context, o *options) ([]result.Table, error) {
	var tables []result.Table
	for _, complete := range []bool{false, true} {
		name, open := "checksums left to the receiver, as between veths", udp(nil)
		if complete {
			name, open = "checksums computed by the sender's interface", checksummed
		}
		o.progress("  %s", name)
		t := hookTest{open: open, packets: max(o.packets/2, 1), designs: []maker{
			nopDesign, floorDesign, inbandDesign,
			intDesign("INT-MD", nil),
			intDesign("no reports", map[string]any{bpfobj.IntVarCfgReports: uint8(0)}),
			intDesign("node id alone", map[string]any{bpfobj.IntVarCfgWatchlist: intWatchlist(0x8000, 1)}),
			intDesign("INT-XD", map[string]any{bpfobj.IntVarCfgWatchlist: xdWatchlist()}),
		}}
		designs, samples, err := t.measure(ctx, o)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		table := perHook(designs, samples)
		table.Title = name
		table.Note("INT-MD has six values (32 bytes) of each node, PPTMon's shape one (4 bytes).")
		table.Note("%d rounds of %s", o.rounds, trains(samples))
		tables = append(tables, table)
	}
	return tables, nil
}

// checksummed are datagrams whose checksum the sender's interface computes.
func checksummed(c *chain) (traffic, error) {
	err := c.In(h1, func() error {
		out, err := exec.Command("ethtool", "-K", c.Ports[c.lanes[0].ports[0]].Name, "tx", "off").CombinedOutput()
		if err != nil {
			return fmt.Errorf("switch checksum offload off: %w: %s", err, out)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return udp(nil)(c)
}

func intWatchlist(instructions uint16, words uint8) (list [16]bpfobj.IntEntry) {
	list[0] = bpfobj.IntEntry{Instructions: instructions, Mode: uint8(bpfobj.INT_MODE_MD), Remaining: 8, Words: words}
	return list
}

func xdWatchlist() [16]bpfobj.IntEntry {
	list := intWatchlist(0xfc00, 8)
	list[0].Mode = uint8(bpfobj.INT_MODE_XD)
	return list
}

// intNode is what the programs of a hook are told.
type intNode struct {
	flags uint32
	host  bool // its own packets get INT
}

// intDesign is INT by three nodes. set changes constants.
func intDesign(name string, set map[string]any) maker {
	return func(c *chain, _ uint32) (*design, error) {
		inside := uint32(bpfobj.INT_PORT_INSIDE)
		nodes := []intNode{
			{inside, true}, {inside, false},
			{inside | uint32(bpfobj.INT_PORT_HOST), false},
		}
		d := &design{name: name}
		var closers []func()
		d.close = func() {
			for _, f := range closers {
				f()
			}
		}
		shared := make(map[string]*ebpf.Map)
		var colls []*ebpf.Collection
		for i, n := range nodes {
			coll, err := n.load(uint32(i+1), set, shared)
			if err != nil {
				d.close()
				return nil, loadError(name, err)
			}
			closers = append(closers, coll.Close)
			colls = append(colls, coll)
			shared[bpfobj.IntMapControl], shared[bpfobj.IntMapReports] = coll.Maps[bpfobj.IntMapControl], coll.Maps[bpfobj.IntMapReports]
		}
		if err := shared[bpfobj.IntMapControl].Put(uint32(0), bpfobj.IntControl{LeaseNs: ^uint64(0)}); err != nil {
			d.close()
			return nil, err
		}
		for i, h := range hooks {
			prog := bpfobj.IntProgRadarIntEgress
			if h.ingress {
				prog = bpfobj.IntProgRadarIntIngress
			}
			device := uint32(c.device(0, i))
			coll := colls[h.node]
			d.progs[i] = []*ebpf.Program{coll.Programs[prog]}
			port := bpfobj.IntPort{Ifindex: device, Flags: nodes[h.node].flags, Mtu: 1500, L2: ^uint32(0), Utilisation: ^uint32(0), Id: uint16(device)}
			if err := coll.Maps[bpfobj.IntMapPorts].Put(device&255, port); err != nil {
				d.close()
				return nil, err
			}
		}
		stop, err := drain(shared[bpfobj.IntMapReports])
		if err != nil {
			d.close()
			return nil, err
		}
		closers = append(closers, stop)
		d.refused = func() (uint64, error) { return intSkipped(colls) }
		return d, nil
	}
}

func (n intNode) load(id uint32, set map[string]any, shared map[string]*ebpf.Map) (*ebpf.Collection, error) {
	spec, err := bpfobj.LoadInt()
	if err != nil {
		return nil, err
	}
	vars := map[string]any{
		bpfobj.IntVarCfgNode: id, bpfobj.IntVarCfgEntries: uint32(1), bpfobj.IntVarCfgWatchlist: intWatchlist(0xfc00, 8),
	}
	if n.host {
		vars[bpfobj.IntVarCfgHostSource] = uint8(1)
	}
	for k, v := range set {
		vars[k] = v
	}
	for k, v := range vars {
		if err := spec.Variables[k].Set(v); err != nil {
			return nil, fmt.Errorf("set %s: %w", k, err)
		}
	}
	return ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{MapReplacements: shared})
}

// intSkipped is how many packets of TCP and UDP got nothing from a node.
func intSkipped(colls []*ebpf.Collection) (sum uint64, err error) {
	for _, c := range colls {
		var each []bpfobj.IntCounters
		if err := c.Maps[bpfobj.IntMapCounters].Lookup(uint32(0), &each); err != nil {
			return 0, err
		}
		for _, one := range each {
			for why, n := range one.Skipped {
				switch bpfobj.IntSkip(why) {
				case bpfobj.INT_SKIP_NOT_IP, bpfobj.INT_SKIP_NOT_TCP_UDP, bpfobj.INT_SKIP_EXTENSION:
				default:
					sum += n
				}
			}
			sum += one.Done[bpfobj.INT_DONE_REPORT_LOST]
		}
	}
	return sum, nil
}

// drain reads a ring buffer until the returned function is called.
func drain(m *ebpf.Map) (stop func(), err error) {
	r, err := ringbuf.NewReader(m)
	if err != nil {
		return nil, err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		var rec ringbuf.Record
		for {
			r.SetDeadline(time.Now().Add(5 * time.Millisecond))
			if err := r.ReadInto(&rec); errors.Is(err, ringbuf.ErrClosed) {
				return
			}
		}
	}()
	return func() { r.Close(); <-done }, nil
}

// inbandDesign is in-band telemetry as PPTMon does it.
func inbandDesign(*chain, uint32) (*design, error) {
	spec, err := inband.LoadInband()
	if err != nil {
		return nil, err
	}
	to := sink(0).As4()
	if err := spec.Variables[inband.InbandVarDestination].Set(binary.NativeEndian.Uint32(to[:])); err != nil {
		return nil, err
	}
	coll, err := ebpf.NewCollection(spec)
	if err != nil {
		return nil, loadError("PPTMon's shape", err)
	}
	stop, err := drain(coll.Maps[inband.InbandMapReports])
	if err != nil {
		coll.Close()
		return nil, err
	}
	d := &design{name: "PPTMon's shape", close: func() { stop(); coll.Close() }}
	for i, p := range []string{
		inband.InbandProgInbandEgress, inband.InbandProgInbandIngress, inband.InbandProgInbandEgress, inband.InbandProgInbandSink,
	} {
		d.progs[i] = []*ebpf.Program{coll.Programs[p]}
	}
	return d, nil
}
