// SPDX-License-Identifier: Apache-2.0

package kernels

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/vnetradar/radar/pkg/host/symbols"
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/vnet/backpack"
	"github.com/vnetradar/radar/pkg/vnet/datapath"
	"github.com/vnetradar/radar/pkg/vnet/datapath/program"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// sorted are the records of what measure sent, by kind.
type sorted struct {
	datagrams, echoes, replies, lost, stream, other []record.Record
}

// check compares the domain's records and counters with what was sent. TCP sent so many
// bytes of its stream again.
func check(t *testing.T, d *domain.Domain, features program.Features, again int) {
	t.Helper()
	maps, err := backpack.Open(d)
	if err != nil {
		t.Fatalf("open the ring: %v", err)
	}
	defer maps.Close()
	var recs []record.Record
	// What the last packets met may be written a moment later.
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		if recs, _, err = backpack.Scan(maps, backpack.NewDecoder(d, symbols.Load()), backpack.ScanOptions{}); err != nil {
			t.Fatalf("read the ring: %v", err)
		}
		inFlight := func(r record.Record) bool { return r.State == record.InFlight }
		if !slices.ContainsFunc(recs, inFlight) || time.Now().After(end) {
			break
		}
	}
	s := sortRecords(recs)
	t.Logf("records: %d datagrams, %d echoes, %d replies, %d lost, %d of the stream, %d other",
		len(s.datagrams), len(s.echoes), len(s.replies), len(s.lost), len(s.stream), len(s.other))
	checkKind(t, "datagram", s.datagrams, datagrams, "h1", "r1", "h2")
	checkKind(t, "echo", s.echoes, echoes, "h1", "r1", "h2")
	checkKind(t, "reply", s.replies, echoes, "h2", "r1", "h1")
	checkDatagrams(t, s.datagrams)
	checkStream(t, s.stream, again)
	checkQueue(t, recs)
	checkCounters(t, d.Name, checkLost(t, s.lost, features))
}

func sortRecords(recs []record.Record) *sorted {
	is := func(p *int, v int) bool { return p != nil && *p == v }
	s := &sorted{}
	for _, r := range recs {
		kind := &s.other
		switch {
		case is(r.Dport, udpPort) && r.Dst == addrH2.String():
			kind = &s.datagrams
		case is(r.Dport, udpPort) && r.Dst == addrNone.String():
			kind = &s.lost
		case is(r.ICMPID, echoID) && is(r.ICMPType, typeEcho):
			kind = &s.echoes
		case is(r.ICMPID, echoID) && is(r.ICMPType, typeReply):
			kind = &s.replies
		case is(r.Dport, tcpPort):
			kind = &s.stream
		}
		*kind = append(*kind, r)
	}
	return s
}

// checkKind demands count records of packets delivered along path.
func checkKind(t *testing.T, kind string, recs []record.Record, count int, path ...string) {
	t.Helper()
	if len(recs) != count {
		t.Errorf("%d records of kind %s, want %d", len(recs), kind, count)
	}
	for _, r := range recs {
		if err := delivered(&r, path); err != nil {
			t.Errorf("%s: %v: %+v", kind, err, r)
			return // one is enough to read
		}
	}
}

// delivered says what is wrong with the record of a packet that went along path.
func delivered(r *record.Record, path []string) error {
	if r.State != record.Delivered || r.Loss != nil || r.Truncated {
		return fmt.Errorf("state %s, loss %v, truncated %v", r.State, r.Loss, r.Truncated)
	}
	var nodes []string
	for _, h := range r.Hops {
		nodes = append(nodes, h.Node)
	}
	if !slices.Equal(nodes, path) {
		return fmt.Errorf("path %v, want %v", nodes, path)
	}
	if r.TTL != sentTTL {
		return fmt.Errorf("TTL %d, want %d", r.TTL, sentTTL)
	}
	last := r.Hops[len(r.Hops)-1].AtNs
	if r.LatencyNs == nil || last == nil || *r.LatencyNs <= 0 || *r.LatencyNs != *last {
		return fmt.Errorf("latency %v, last hop at %v", r.LatencyNs, last)
	}
	for _, h := range r.Hops[1:] {
		if h.LinkNs == nil || *h.LinkNs < 0 || h.NodeNs != nil && *h.NodeNs < 0 {
			return fmt.Errorf("times of hop %s are missing or negative", h.Node)
		}
	}
	return nil
}

// checkDatagrams compares the header fields in the records, in order of sending.
func checkDatagrams(t *testing.T, recs []record.Record) {
	t.Helper()
	for seq, r := range recs {
		sent := datagram(addrH2, seq, seq*7%1400)
		id := int(sent[4])<<8 | int(sent[5])
		if r.IPID != id || r.Len != len(sent) || r.DSCP != sentTOS>>2 || r.ECN != sentTOS&3 {
			t.Errorf("datagram %d was recorded as %+v", seq, r)
			return
		}
	}
}

// checkStream demands that every segment of the stream was delivered, and that
// they are enough for its bytes, and for those that TCP sent again.
func checkStream(t *testing.T, recs []record.Record, again int) {
	t.Helper()
	var payload, segs int
	for _, r := range recs {
		if err := delivered(&r, []string{"h1", "r1", "h2"}); err != nil {
			t.Errorf("stream: %v: %+v", err, r)
			return
		}
		payload += r.Len - r.Segs*(ipBytes+tcpBytes)
		segs += r.Segs
	}
	t.Logf("stream: %d packets in %d records", segs, len(recs))
	// Options of the SYN and of acknowledgements come on top.
	if payload < streamBytes || payload > streamBytes+again+streamBytes/10 {
		t.Errorf("records of the stream stand for %d bytes, want %d and %d again", payload, streamBytes, again)
	}
}

// maxUnseen is how many waits and drops in a hundred may be missing: none in an emulated machine, with
// Debian's kernel. Elsewhere most must be there: the kernels of some virtual machines call no
// tracing program while a thread of process 1 is current, as it is for as long as it likes.
func maxUnseen() int {
	if os.Getenv(ownMachine) != "" {
		return 0
	}
	return 50
}

// shown leaves the losses that the kernel told of. The others ended by timeout: in r1, where
// all are lost, and not too many of them.
func shown(t *testing.T, lost []record.Record) []record.Record {
	t.Helper()
	told := slices.DeleteFunc(slices.Clone(lost), func(r record.Record) bool {
		return r.State == record.Expired && r.Loss != nil && r.Loss.Inferred() && r.Loss.Node == "r1"
	})
	if n := len(lost) - len(told); n > 0 {
		t.Logf("%d of %d drops were not shown to programs", n, len(lost))
		if n*100 > len(lost)*maxUnseen() {
			t.Errorf("%d of %d drops were not seen", n, len(lost))
		}
	}
	return told
}

// checkQueue demands the time in the queue of every packet that went through the only
// one, r1's toward h2 (a TBF passes nothing by), and of no other.
func checkQueue(t *testing.T, recs []record.Record) {
	t.Helper()
	seen, unseen := 0, 0
	for _, r := range recs {
		for _, h := range r.Hops {
			switch queued := h.Node == "r1" && h.Port == "e1"; {
			case queued && h.QueueNs == nil:
				unseen++
			case queued:
				seen++
			case h.QueueNs != nil:
				t.Errorf("time in the queue of %s/%s, which is none: %+v", h.Node, h.Port, r)
				return
			}
		}
	}
	t.Logf("%d waits in the queue, %d more were not seen", seen, unseen)
	if seen == 0 || unseen*100 > (seen+unseen)*maxUnseen() {
		t.Errorf("%d of %d waits in the queue were not seen", unseen, seen+unseen)
	}
}

// checkLost demands that r1 is named as the place of every loss, with what the
// kernel tells about it. It returns of how many the kernel told.
func checkLost(t *testing.T, recs []record.Record, features program.Features) int {
	t.Helper()
	if len(recs) != lost {
		t.Errorf("%d records of lost datagrams, want %d", len(recs), lost)
	}
	told := shown(t, recs)
	for i, r := range told {
		if r.State != record.Lost || r.Loss == nil {
			t.Errorf("lost datagram: state %s, loss %v", r.State, r.Loss)
			break
		}
		if r.Loss.Node != "r1" || r.Loss.Port != "e0" || r.Loss.At != record.AtNode || r.Loss.Function == "" {
			t.Errorf("lost datagram: %+v, want it lost in r1, which it entered by e0", *r.Loss)
			break
		}
		if (r.Loss.Reason != "") != features.DropReason {
			t.Errorf("lost datagram: reason %q, but the kernel gives reasons: %v", r.Loss.Reason, features.DropReason)
			break
		}
		if i == 0 {
			t.Logf("lost datagram: %+v", *r.Loss)
		}
	}
	return len(told)
}

// checkCounters demands that every packet was measured and recognised, and an event for each
// loss that the kernel reported.
func checkCounters(t *testing.T, name string, told int) {
	t.Helper()
	h, err := datapath.Open(name)
	if err != nil {
		t.Fatalf("open the domain: %v", err)
	}
	defer h.Close()
	counters, err := h.Counters()
	if err != nil {
		t.Fatalf("read counters: %v", err)
	}
	values := make(map[string]uint64)
	for _, c := range counters {
		values[c.Name] = c.Value
		if c.Group == datapath.GroupNotMeasured && c.Value != 0 {
			t.Errorf("counter %s is %d, want 0", c.Name, c.Value)
		}
	}
	for _, c := range []string{"stale", "foreign", "foreign_mark", "mark_busy", "event_full", "ttl_underflow", "restore_failed", "key_lost"} {
		if values[c] != 0 {
			t.Errorf("counter %s is %d, want 0", c, values[c])
		}
	}
	if values["seen"] != values["marked"] || values["seen"] < datagrams+2*echoes+lost {
		t.Errorf("seen %d, marked %d packets; at least %d were sent", values["seen"], values["marked"], datagrams+2*echoes+lost)
	}
	if values["loss_event"] != uint64(told) {
		t.Errorf("counter loss_event is %d, want %d", values["loss_event"], told)
	}
}
