// SPDX-License-Identifier: Apache-2.0

package transparency

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/vnetradar/radar/pkg/record"
)

// What a record says of one place.
type claim struct {
	place
	tuple string
	at    time.Time // zero: not in the record
	hop   int       // of the record
}

// protoNumber of a record, "58" for what it has no number for.
func protoNumber(rec *record.Record) string {
	if n, ok := record.ParseProto(rec.Proto); ok {
		return strconv.Itoa(int(n))
	}
	return "58"
}

// tuple of a record in the form of decoded.tuple; addresses and ports as given.
func recordTuple(rec *record.Record, src, dst string, sport, dport int) string {
	proto := protoNumber(rec)
	switch {
	case rec.FragOff != nil && *rec.FragOff > 0:
		return fmt.Sprintf("%s %s > %s at %d", proto, src, dst, *rec.FragOff)
	case rec.ICMPID != nil && rec.ICMPSeq != nil && rec.ICMPType != nil:
		return fmt.Sprintf("%s %s > %s type %d id %d seq %d", proto, src, dst, *rec.ICMPType, *rec.ICMPID, *rec.ICMPSeq)
	case rec.ICMPType != nil:
		return fmt.Sprintf("%s %s > %s type %d", proto, src, dst, *rec.ICMPType)
	}
	return fmt.Sprintf("%s %s:%d > %s:%d", proto, src, sport, dst, dport)
}

func deref(p *int) int {
	if p == nil {
		return 0
	}
	return *p
}

func tupleOf(rec *record.Record) string {
	return recordTuple(rec, rec.Src, rec.Dst, deref(rec.Sport), deref(rec.Dport))
}

// header is what nodes on a path change in a packet.
type header struct {
	src, dst     string
	sport, dport int
}

func (h header) tuple(rec *record.Record) string {
	return recordTuple(rec, h.src, h.dst, h.sport, h.dport)
}

// claims lists what a record says, in its order.
func claims(rec *record.Record) []claim {
	sent := header{rec.Src, rec.Dst, deref(rec.Sport), deref(rec.Dport)}
	after := make([]header, len(rec.Hops)) // each hop; copies took different paths
	var list []claim
	for i, h := range rec.Hops {
		now := sent
		if prev := rec.PrevOf(i); prev >= 0 {
			now = after[prev]
		}
		before := now.tuple(rec)
		if h.Src != "" {
			now.src = h.Src
		}
		if h.Dst != "" {
			now.dst = h.Dst
		}
		if h.Sport != nil {
			now.sport = *h.Sport
		}
		if h.Dport != nil {
			now.dport = *h.Dport
		}
		after[i] = now
		var at, entered time.Time
		if h.AtNs != nil {
			at = time.Unix(0, rec.TNs+*h.AtNs)
			entered = at
		}
		if h.NodeNs != nil && h.Port != "" {
			entered = at.Add(-time.Duration(*h.NodeNs))
		}
		if h.InPort != "" && !h.Copy { // a copy came in as the first one did
			list = append(list, claim{place{h.Node, h.InPort, in}, before, entered, i})
		}
		if h.Port != "" {
			list = append(list, claim{place{h.Node, h.Port, out}, now.tuple(rec), at, i})
		}
	}
	return list
}

// TestClaimsOfCopies: what was changed on one copy's path is not claimed of another copy.
func TestClaimsOfCopies(t *testing.T) {
	first, number := 0, 4000
	rec := &record.Record{
		Proto: "udp", Src: "10.0.0.1", Dst: "10.0.0.9", Sport: &number, Dport: &number,
		Hops: []record.Hop{
			{Node: "h", Port: "e0"},
			{Node: "r1", InPort: "e0", Port: "e1", Src: "10.0.1.1"},
			{Node: "r2", InPort: "e0", Port: "e1", Prev: &first, Dst: "10.0.2.2"},
			{Node: "h2", InPort: "e0"},
		},
	}
	const udp = "17 10.0.0.1:4000 > 10.0.0.9:4000"
	var got []string
	for _, c := range claims(rec) {
		got = append(got, c.tuple)
	}
	want := []string{udp, udp, "17 10.0.1.1:4000 > 10.0.0.9:4000", udp, "17 10.0.0.1:4000 > 10.0.2.2:4000", "17 10.0.0.1:4000 > 10.0.2.2:4000"}
	if !slices.Equal(got, want) {
		t.Errorf("claims %q\nwant %q", got, want)
	}
}
