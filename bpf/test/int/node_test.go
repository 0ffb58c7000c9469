// SPDX-License-Identifier: Apache-2.0

// Package int tests the programs of bpf/int in real namespaces: what they do to packets is read
// by this test alone, from captures on every link.
package int

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/features"
	"github.com/cilium/ebpf/ringbuf"
	"github.com/cilium/ebpf/rlimit"

	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/bpfobj"
	"github.com/vnetradar/radar/pkg/hook"
)

const (
	edge   = uint32(bpfobj.INT_PORT_SOURCE | bpfobj.INT_PORT_SINK)
	inside = uint32(bpfobj.INT_PORT_INSIDE)
)

// settings of a node. Those of the source are everybody's: only its own ports make it one.
type settings struct {
	entry  bpfobj.IntEntry
	vars   map[string]any
	mtu    uint32
	noKfun bool // as on kernels before 6.2
}

// node is a namespace with the programs.
type node struct {
	testing.TB
	objs bpfobj.IntObjects
}

// shared are the maps of all nodes of a test.
type shared struct {
	control, reports *ebpf.Map
	reader           *ringbuf.Reader
}

func newShared(t testing.TB) *shared {
	t.Helper()
	if err := rlimit.RemoveMemlock(); err != nil {
		t.Fatal(err)
	}
	spec, err := bpfobj.LoadInt()
	if err != nil {
		t.Fatal(err)
	}
	s := &shared{}
	if s.control, err = ebpf.NewMap(spec.Maps["control"]); err != nil {
		t.Fatal(err)
	}
	if s.reports, err = ebpf.NewMap(spec.Maps["reports"]); err != nil {
		t.Fatal(err)
	}
	if s.reader, err = ringbuf.NewReader(s.reports); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.reader.Close(); s.control.Close(); s.reports.Close() })
	s.lease(^uint64(0))
	return s
}

func (s *shared) lease(until uint64) {
	if err := s.control.Put(uint32(0), bpfobj.IntControl{LeaseNs: until}); err != nil {
		panic(err)
	}
}

// attach makes a node of a namespace. ports: what is behind each interface.
func (s *shared) attach(t testing.TB, n *nstest.Net, name string, id uint32, ports map[string]uint32, set settings) *node {
	t.Helper()
	spec, err := bpfobj.LoadInt()
	if err != nil {
		t.Fatal(err)
	}
	vars := known(t)
	maps.Copy(vars, map[string]any{"cfg_node": id, "cfg_index": id, "cfg_entries": uint32(1)})
	if set.noKfun {
		vars["cfg_queues"] = uint8(0)
	}
	for k, v := range set.vars {
		vars[k] = v
	}
	var list [16]bpfobj.IntEntry
	list[0] = set.entry
	vars["cfg_watchlist"] = list
	for k, v := range vars {
		if err := spec.Variables[k].Set(v); err != nil {
			t.Fatal(k, err)
		}
	}
	nd := &node{TB: t}
	err = spec.LoadAndAssign(&nd.objs, &ebpf.CollectionOptions{MapReplacements: map[string]*ebpf.Map{"control": s.control, "reports": s.reports}})
	var verifier *ebpf.VerifierError
	if errors.As(err, &verifier) {
		t.Fatalf("%+v", verifier)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nd.objs.Close() })
	for port, flags := range ports {
		index := uint32(n.Index(name, port))
		mtu := set.mtu
		if mtu == 0 {
			mtu = 1500
		}
		p := bpfobj.IntPort{Ifindex: index, Flags: flags, Mtu: mtu, L2: ^uint32(0), Utilisation: ^uint32(0), Id: uint16(index)}
		if err := nd.objs.Ports.Put(index&255, p); err != nil {
			t.Fatal(err)
		}
		inNetns(t, n.Path(name), func() error {
			return errors.Join(put(t, n.Path(name), int(index), hook.Ingress, nd.objs.RadarIntIngress),
				put(t, n.Path(name), int(index), hook.Egress, nd.objs.RadarIntEgress))
		})
	}
	return nd
}

// put attaches a program in the thread's namespace until the test ends.
func put(t testing.TB, path string, index int, dir hook.Direction, prog *ebpf.Program) error {
	l, err := hook.Attach(prog, hook.TCX{Ifindex: index, Direction: dir})
	if err == nil {
		t.Cleanup(func() { l.Close() })
		return nil
	}
	if !errors.Is(err, hook.ErrUnsupported) && !errors.Is(err, ebpf.ErrNotSupported) {
		return err
	}
	if _, err := hook.EnsureClsact(index); err != nil {
		return err
	}
	f := hook.Filter{Ifindex: index, Direction: dir, Name: "radar_int"}
	t.Cleanup(func() { inNetns(t, path, f.Remove) })
	return f.Add(prog)
}

// known says what this kernel has: without it the programs do with less.
func known(t testing.TB) map[string]any {
	t.Helper()
	vars := map[string]any{"cfg_times": uint8(1), "cfg_queues": uint8(1)}
	if err := features.HaveProgramHelper(ebpf.SchedCLS, asm.FnSkbSetTstamp); err != nil {
		vars["cfg_times"] = uint8(0)
	}
	spec, err := btf.LoadKernelSpec()
	if err != nil {
		t.Fatal(err)
	}
	var f *btf.Func
	if err := spec.TypeByName("bpf_cast_to_kern_ctx", &f); err != nil {
		vars["cfg_queues"] = uint8(0)
	}
	return vars
}

// counts are the node's counters that are not 0, such as "skip 13" or "done 0".
func (nd *node) counts() map[string]uint64 {
	nd.Helper()
	var each []bpfobj.IntCounters
	if err := nd.objs.Counters.Lookup(uint32(0), &each); err != nil {
		nd.Fatal(err)
	}
	sum := make(map[string]uint64)
	for _, c := range each {
		for i, v := range c.Skipped {
			if v > 0 {
				sum[fmt.Sprint("skip ", i)] += v
			}
		}
		for i, v := range c.Done {
			if v > 0 {
				sum[fmt.Sprint("done ", i)] += v
			}
		}
	}
	return sum
}

// stack is INT as this test reads it from a payload.
type stack struct {
	shim, first  uint32
	instructions uint16
	hops         [][]byte // newest first
	rest         []byte   // what follows INT
}

// readStack reads INT-MD 2.1 or 1.0, and the header of INT-MX.
func readStack(t testing.TB, b []byte) (s stack) {
	t.Helper()
	if len(b) < 12 {
		t.Fatalf("no INT in % x", b)
	}
	s.shim, s.first = binary.BigEndian.Uint32(b), binary.BigEndian.Uint32(b[4:])
	s.instructions = binary.BigEndian.Uint16(b[8:])
	header, words := 16, int(s.shim>>16&0xff)-3
	if s.first>>28 == 1 {
		header, words = 12, int(s.shim>>8&0xff)-3
	}
	if words < 0 || header+words*4 > len(b) {
		t.Fatalf("INT of %d words in % x", words, b)
	}
	each := int(s.first>>8&0x1f) * 4
	for at := header; at < header+words*4; at += each {
		s.hops = append(s.hops, b[at:at+each])
	}
	s.rest = b[header+words*4:]
	return s
}

func sameBytes(t testing.TB, what string, got, want []byte) {
	t.Helper()
	if !bytes.Equal(got, want) {
		t.Errorf("%s:\n got % x\nwant % x", what, got, want)
	}
}
