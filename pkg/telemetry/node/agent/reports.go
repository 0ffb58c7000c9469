// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"fmt"
	"time"
	"unsafe"

	"github.com/vnetradar/radar/pkg/bpfobj"
	"github.com/vnetradar/radar/pkg/intwire"
	"github.com/vnetradar/radar/pkg/telemetry/node"
)

const (
	mostBytes = 1400                  // of a datagram, so that none is fragmented
	mostAge   = 50 * time.Millisecond // of a report in a datagram that is not full
	hwID      = 0                     // of all reports: a node has no parts that count by themselves
)

// assembler makes telemetry reports of what programs tell. Reports of one node that follow each other go
// in one datagram (TR 2.0). It is for one goroutine.
type assembler struct {
	version string // node.Report20 or node.Report10
	wall    int64  // from CLOCK_MONOTONIC to Unix time
	emit    func(datagram []byte)

	groups map[uint32]*group // by the node's number in INT
	next   map[uint32]uint32 // sequence numbers, by the same
	single []byte
	count  uint64 // of reports
}

// group is a datagram that is not full.
type group struct {
	bytes []byte
	since time.Time
}

func newAssembler(version string, emit func([]byte)) *assembler {
	return &assembler{version: version, emit: emit, groups: make(map[uint32]*group), next: make(map[uint32]uint32)}
}

const headBytes = int(unsafe.Sizeof(bpfobj.IntReport{}))

// add takes what a program has told: struct int_report, and a quote.
func (a *assembler) add(sample []byte, now time.Time) error {
	var r bpfobj.IntReport
	if len(sample) < headBytes || len(sample) < headBytes+int((*bpfobj.IntReport)(unsafe.Pointer(&sample[0])).QuoteLen) {
		return fmt.Errorf("a report of %d bytes in the ring", len(sample))
	}
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&r)), headBytes), sample)
	quote := sample[headBytes : headBytes+int(r.QuoteLen)]
	if a.version == node.Report10 {
		return a.add10(&r, quote)
	}
	return a.add20(&r, quote, now)
}

// values are those that the program knows. Of ports of level 2 both must be known: a report has no value
// for "not available".
func (a *assembler) values(r *bpfobj.IntReport) (v intwire.Values) {
	const unknown = 0xffffffff
	has := func(bit uint16) bool { return r.Bits&bit != 0 }
	if has(0x4000) {
		v.Set(intwire.L1In, uint64(r.PortIn))
		v.Set(intwire.L1Out, uint64(r.PortOut))
	}
	if has(0x2000) {
		v.Set(intwire.HopLatency, uint64(r.Latency))
	}
	if has(0x1000) {
		v.Set(intwire.QueueID, uint64(r.Queue>>24))
		v.Set(intwire.QueueOcc, uint64(r.Queue&0xffffff))
	}
	if has(0x0800) {
		v.Set(intwire.IngressTS, r.IngressNs+uint64(a.wall))
	}
	if has(0x0400) {
		v.Set(intwire.EgressTS, r.EgressNs+uint64(a.wall))
	}
	if has(0x0200) && r.L2In != unknown && r.L2Out != unknown {
		v.Set(intwire.L2In, uint64(r.L2In))
		v.Set(intwire.L2Out, uint64(r.L2Out))
	}
	if has(0x0100) {
		v.Set(intwire.EgressTxUtil, uint64(r.Utilisation))
	}
	return v
}

func flag(r *bpfobj.IntReport, f bpfobj.IntReportFlag) bool { return r.Flags&uint8(f) != 0 }

// sequence is the number of the next datagram about a node.
func (a *assembler) sequence(id uint32) uint32 {
	n := a.next[id]
	a.next[id] = n + 1
	return n
}

func (a *assembler) add20(r *bpfobj.IntReport, quote []byte, now time.Time) error {
	s := intwire.Single{
		RepType: 1, InType: intwire.InnerIPv4, Domain: r.Domain, Values: a.values(r), Inner: quote,
		D: flag(r, bpfobj.INT_REPORT_DROPPED), Q: flag(r, bpfobj.INT_REPORT_QUEUE),
		F: flag(r, bpfobj.INT_REPORT_FLOW), I: flag(r, bpfobj.INT_REPORT_INTERMEDIATE),
	}
	switch {
	case len(quote) == 0:
		s.InType = 0
	case r.Ip == 6:
		s.InType = intwire.InnerIPv6
	}
	s.RepMdBits = intwire.Bitmap(intwire.TR20, s.Values.Has)
	var err error
	if a.single, err = intwire.AppendSingle(a.single[:0], &s); err != nil {
		return err
	}
	g := a.groups[r.Node]
	if g != nil && len(g.bytes)+len(a.single) > mostBytes {
		a.flush(r.Node)
		g = nil
	}
	if g == nil {
		g = &group{since: now}
		if g.bytes, err = intwire.AppendGroup(nil, &intwire.Group{HwID: hwID, Sequence: a.sequence(r.Node) & 0x3fffff, NodeID: r.Node}); err != nil {
			return err
		}
		a.groups[r.Node] = g
	}
	g.bytes = append(g.bytes, a.single...)
	a.count++
	if a.single[1] == 255 { // it reaches to the end of the datagram
		a.flush(r.Node)
	}
	return nil
}

func (a *assembler) add10(r *bpfobj.IntReport, quote []byte) error {
	v := a.values(r)
	at := r.IngressNs
	if at == 0 {
		at = r.EgressNs
	}
	if ts, ok := v.Get(intwire.EgressTS); ok {
		v.Set(intwire.EgressTS, ts&0xffffffff)
	}
	one := intwire.Report{
		Layout: intwire.Report10, NProto: intwire.InnerIPv4 - intwire.InnerEthernet, SwitchID: r.Node, HwID: hwID,
		Sequence: a.sequence(r.Node), IngressTS: uint32(at + uint64(a.wall)), Values: v, Inner: quote,
		RepMdBits: uint8(intwire.Bitmap(intwire.TR10, v.Has) >> 10),
		D:         flag(r, bpfobj.INT_REPORT_DROPPED), Q: flag(r, bpfobj.INT_REPORT_QUEUE),
		F: flag(r, bpfobj.INT_REPORT_FLOW),
	}
	if r.Ip == 6 {
		one.NProto = intwire.InnerIPv6 - intwire.InnerEthernet
	}
	var err error
	if a.single, err = intwire.AppendReport10(a.single[:0], &one); err != nil {
		return err
	}
	a.count++
	a.emit(a.single)
	return nil
}

// flush emits the datagram about a node that is not full.
func (a *assembler) flush(id uint32) {
	if g := a.groups[id]; g != nil {
		delete(a.groups, id)
		a.emit(g.bytes)
	}
}

// flushUntil emits datagrams whose first report came before that time.
func (a *assembler) flushUntil(then time.Time) {
	for id, g := range a.groups {
		if g.since.Before(then) {
			a.flush(id)
		}
	}
}

// waits reports whether there is a datagram that is not full.
func (a *assembler) waits() bool { return len(a.groups) > 0 }

// flushAll emits all datagrams.
func (a *assembler) flushAll() {
	for id := range a.groups {
		a.flush(id)
	}
}
