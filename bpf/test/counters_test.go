// SPDX-License-Identifier: Apache-2.0

package test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/vnetradar/radar/pkg/bpfobj"
)

// TestNotMeasured: what a source leaves alone passes without a changed byte and is
// counted under its reason.
func TestNotMeasured(t *testing.T) {
	want := map[string]tally{
		"odd-arp":                 {cOther: 1},
		"odd-llc":                 {cOther: 1},
		"odd-six-solicitation":    {cSeen: 1, cNeighbour: 1},
		"odd-six-advertisement":   {cSeen: 1, cNeighbour: 1},
		"odd-six-router":          {cSeen: 1, cNeighbour: 1},
		"odd-six-redirect":        {cSeen: 1, cNeighbour: 1},
		"odd-six-redirect-bare":   {cSeen: 1, cNeighbour: 1},
		"odd-six-mld":             {cSeen: 1, cNeighbour: 1},
		"odd-six-multicast":       {cSeen: 1, cMulticast: 1},
		"odd-six-multicast-far":   {cSeen: 1, cMulticast: 1},
		"odd-six-multicast-frame": {cSeen: 1, cMulticast: 1},
		"odd-six-long":            {cSeen: 1, cExtensions: 1},
		"odd-six-deep":            {cSeen: 1, cExtensions: 1},
		"odd-six-jumbogram":       {cSeen: 1, cExtensions: 1},
		"bad-six-version":         {cSeen: 1, cMalformed: 1},
		"bad-six-length":          {cSeen: 1, cMalformed: 1},
		"bad-six-chain":           {cSeen: 1, cMalformed: 1},
		"bad-six-fragment":        {cSeen: 1, cMalformed: 1},
		"odd-vlan-3":              {cSeen: 1, cVLANDepth: 1},
		"odd-multicast":           {cSeen: 1, cMulticast: 1},
		"odd-multicast-dns":       {cSeen: 1, cMulticast: 1},
		"odd-igmp":                {cSeen: 1, cMulticast: 1},
		"odd-reserved":            {cSeen: 1, cMulticast: 1},
		"odd-bridge-frame":        {cSeen: 1, cMulticast: 1},
		"odd-bridge-frame-group":  {cSeen: 1, cMulticast: 1},
		"bad-version":             {cSeen: 1, cMalformed: 1},
		"bad-header-length":       {cSeen: 1, cMalformed: 1},
		"bad-length-short":        {cSeen: 1, cMalformed: 1},
		"bad-length-long":         {cSeen: 1, cMalformed: 1},
	}
	d := newDomain(t, config{})
	for _, name := range named(false, "odd-", "bad-") {
		if name == "bad-checksum" {
			continue // TestBadChecksum
		}
		t.Run(name, func(t *testing.T) {
			d, orig := d.in(t), packet(t, name)
			f := d.egress(h1Out, frame{data: orig, mark: 5})
			same(t, "egress", f.data, orig)
			if f.mark != 5 {
				t.Errorf("mark 5 became %#x", f.mark)
			}
			d.counted(want[name])
			same(t, "ingress", d.ingress(r1Edge, frame{data: orig}).data, orig)
			d.counted(want[name])
			// Where nothing is sourced it is nobody's.
			passed := tally{cPassed: 1}
			if want[name][cOther] != 0 {
				passed = tally{cOther: 1}
			}
			d.wantUntouched(orig, passed)
		})
	}
}

// TestBadChecksum: a wrong IP checksum is as wrong behind radar as before it.
func TestBadChecksum(t *testing.T) {
	d := newDomain(t, config{})
	orig := packet(t, "bad-checksum")
	w := d.send(frame{data: orig})
	if bytes.Equal(w.data, orig) {
		t.Fatal("not marked")
	}
	same(t, "at h2", d.deliver(w, 3).data, lowered(t, orig, 3))
}

// TestChecksums: every value that the header checksum can have comes back, and is
// right in between.
func TestChecksums(t *testing.T) {
	d := newDomain(t, config{})
	seen := make(map[uint16]bool)
	for id := range 1 << 16 {
		orig := packet(t, "udp-64")
		setBits(t, orig, uint16(id), 64, 0)
		want := lowered(t, orig, id%8)
		check, end := binary.BigEndian.Uint16(orig[etherHeader+10:]), binary.NativeEndian.Uint16(want[etherHeader+10:])
		if id%11 != 0 && id > 64 && id < 1<<16-64 && end > 16 && end < 1<<16-16 {
			continue // enough; 0 is among them, see below, and sums that carry twice
		}
		seen[check] = true
		w := d.send(frame{data: orig})
		if !validChecksum(t, w.data) {
			t.Fatalf("id %#x: wrong checksum on the wire: %x", id, header(t, w.data))
		}
		if got := d.deliver(w, id%8).data; !bytes.Equal(got, want) {
			same(t, fmt.Sprintf("id %#x", id), got, want)
			return
		}
	}
	if !seen[0] {
		t.Error("no packet with checksum 0 among them")
	}
}

// TestLease: without a lease sources stop, restoring goes on; a new lease starts them.
func TestLease(t *testing.T) {
	d := newDomain(t, config{})
	orig := packet(t, "tcp-data")
	w := d.send(frame{data: orig})
	d.lease(false)
	same(t, "unmarked", d.send(frame{data: orig}).data, orig)
	same(t, "unmarked", d.ingress(r1Edge, frame{data: orig}).data, orig)
	d.counted(tally{cSeen: 3, cMarked: 1, cLease: 2})
	_, w2 := d.transit(w, 2)
	same(t, "at h2", d.deliver(w2, 2).data, lowered(t, orig, 5))
	d.counted(nil)
	d.lease(true)
	d.wantMarked(d.send(frame{data: orig}).data, orig)
	d.counted(tally{cSeen: 1, cMarked: 1})
	// A lease that ends a moment ago, and one that ends in a while.
	for _, c := range []struct {
		ends uint64
		want tally
	}{{now(t) - 1, tally{cSeen: 1, cLease: 1}}, {now(t) + 1e12, tally{cSeen: 1, cMarked: 1}}} {
		d.put(bpfobj.TcMapControl, uint32(0), bpfobj.TcRdrControl{LeaseNs: c.ends, Cursor: d.cursor()})
		d.send(frame{data: orig})
		d.counted(c.want)
	}
}

// reached says which test proves a counter: it demands it in an exact tally.
var reached = map[bpfobj.TcRdrCounter]string{
	cSeen: "TestSource", cMarked: "TestSource",
	cIPv6: "TestIPv6Off", cNeighbour: "TestNotMeasured", cExtensions: "TestNotMeasured", cMulticast: "TestNotMeasured", cMalformed: "TestNotMeasured",
	cVLANDepth: "TestNotMeasured", cOther: "TestNotMeasured", cPassed: "TestNotSourcedAgain",
	cNoSlot: "TestInFlightNeverReused", cSegs: "TestTrainTooLong", cKeyInFlight: "TestKeyInFlight",
	cKeysFull: "TestKeysFull", cLease: "TestLease", cWatch: "TestWatch", cForeign: "TestForeign", cStale: "TestNotLate", cLate: "TestExpired",
	cForeignMark: "TestForeignMark", cMarkBusy: "TestForeignMark", cEventFull: "TestEventsFull",
	cUnderflow: "TestDuplicate", cQuote: "TestQuote", cKeyLost: "TestKeyLost",
	cWithdrawn: "TestWithdrawnLoss", cSkipped: "TestSkip", cNotHere: "TestSpelled", cTTLSet: "TestTTLSet",
	cLoss: "TestLossHeld", cLocalDrop: "TestLossOfSegment",
}

// unreachable are the counters that no test here moves, with the reason.
var unreachable = map[bpfobj.TcRdrCounter]string{
	cWrite:         "a header that was parsed can be written: the verifier wants the check",
	cRestoreFailed: "as above, and when the kernel has no memory to make a header its own",
	cLossIgnored:   "kfree_skb: needs real drops (end-to-end tests)",

	bpfobj.TcRdrCounterRDR_C_UNSENT:      "kfree_skb: needs real drops (pkg/cli/ask, TestUnsent)",
	bpfobj.TcRdrCounterRDR_C_UNSENT_FULL: "kfree_skb: needs real drops (pkg/cli/ask, TestUnsent)",

	cChanged:     "needs a packet socket (pkg/vnet/datapath, TestSwitch)",
	cNodeChanged: "qdisc_create: needs real interfaces (pkg/vnet/datapath, lab/test/kernels)",

	bpfobj.TcRdrCounterRDR_C_QUEUE_UNSEEN: "qdisc_dequeue: needs real queues (lab/test/transparency)",
}

// TestEveryCounter: each counter is moved by some test, or it is said why not. The
// counters that really moved are compared with that when all tests have run.
func TestEveryCounter(t *testing.T) {
	names, err := counterNames()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range slices.Sorted(maps.Keys(names)) {
		switch {
		case reached[c] == "" && unreachable[c] == "":
			t.Errorf("%s: no test moves it", names[c])
		case reached[c] != "" && unreachable[c] != "":
			t.Errorf("%s is said to be reached and not to be", names[c])
		}
	}
}

// TestCountedOnce: a packet whose own bits look like ours is foreign once, and not where it
// is found by its key.
func TestCountedOnce(t *testing.T) {
	d := newDomain(t, config{})
	w := header(t, d.send(frame{data: packet(t, "udp-64")}).data)
	for _, no := range []uint32{h1Out, r1In} {
		p := portTable[no]
		p.Ifindex, p.NetnsInum = ifindex(int(no)), netns(p.Node)
		p.Flags |= uint16(bpfobj.TcRdrPortFlagRDR_PF_TRUE)
		d.put(bpfobj.TcMapPorts, no, p)
	}
	orig := packet(t, "tcp-data")
	setBits(t, orig, w.id(), w.ttl(), 0)
	d.counted(tally{cSeen: 1, cMarked: 1})
	in := d.send(frame{data: orig})
	d.counted(tally{cSeen: 1, cMarked: 1, cForeign: 1})
	d.ingress(r1In, d.link(in, 0))
	d.counted(nil)
}

// TestLossOfTrainWithdrawn: as many losses are withdrawn as were counted.
func TestLossOfTrainWithdrawn(t *testing.T) {
	d, tr := newDomain(t, config{}), loadTrain(t, "train-tcp")
	w := d.send(tr.whole)
	s, n := d.slot(d.guid(w.data)), uint64(tr.whole.segs)
	s.State |= uint8(stLost)
	d.write(s)
	d.deliver(w, 0)
	d.counted(tally{cSeen: n, cMarked: n, cWithdrawn: n})
}
