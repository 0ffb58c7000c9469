// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket/layers"

	"github.com/vnetradar/radar/pkg/record"
)

func text(t *testing.T, r *Report) string {
	t.Helper()
	var b bytes.Buffer
	if err := r.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestAgreement: captures and records that agree give a clean report, for a
// domain of routers only and for one with the hosts in it.
func TestAgreement(t *testing.T) {
	for _, domain := range [][]string{{"r1", "r2"}, {"h1", "r1", "r2", "h2"}} {
		t.Run(strings.Join(domain, ","), func(t *testing.T) {
			r := newWorld(t, domain...).report(t)
			if domain[0] == "h1" { // every wire is inside
				dropRow(r, "bytes outside the domain")
			}
			if !r.OK() {
				t.Error("a world without mistakes is not found right:\n" + text(t, r))
			}
		})
	}
}

func dropRow(r *Report, check string) {
	r.Rows = slices.DeleteFunc(r.Rows, func(row *Row) bool { return row.Check == check })
}

// mistake spoils one thing; exactly the named rows must find it, in a domain of
// routers, or of all nodes.
type mistake struct {
	name  string
	all   bool
	spoil func(w *world)
	rows  []string
}

// find returns the n-th record that f picks.
func (w *world) find(n int, f func(*record.Record) bool) *record.Record {
	for i := range w.records {
		if f(&w.records[i]) {
			if n == 0 {
				return &w.records[i]
			}
			n--
		}
	}
	panic("no such record in the test's world")
}

func udp(r *record.Record) bool  { return r.Proto == "udp" && r.Loss == nil && r.FragOff == nil }
func tcp(r *record.Record) bool  { return r.Proto == "tcp" }
func lost(r *record.Record) bool { return r.State == record.Lost }

// arrived is the n-th capture of something that entered h2.
func (w *world) arrived(n int) []byte {
	for _, s := range w.wire["h2"] {
		if !s.out {
			if n == 0 {
				return s.ip
			}
			n--
		}
	}
	panic("no such capture in the test's world")
}

const stampRow, spanRow = "stamps between their captures", "times between stamps, as captures allow"

const captureRow, outsideRow, socketRow, insideRow = "captures hold together", "bytes outside the domain", "bytes at sockets", "headers inside nodes"

var mistakes = []mistake{
	// What radar would do wrong to packets.
	{"ttl too low at the receiver", false, func(w *world) { b := w.arrived(4); setTTL(b, b[8]-1) }, []string{outsideRow}},
	{"ip id not restored", false, func(w *world) { setID(w.arrived(4), 1) }, []string{outsideRow}},
	{"dscp not restored", false, func(w *world) { b := w.arrived(4); b[1] ^= 4; fixSum(b) }, []string{outsideRow}},
	{"ecn lost", false, func(w *world) { b := w.arrived(4); b[1] ^= 1; fixSum(b) }, []string{outsideRow}},
	{"checksum wrong", false, func(w *world) { b := w.arrived(4); b[10] ^= 1 }, []string{captureRow, outsideRow}},
	{"payload changed far behind", false, func(w *world) { b := w.arrived(20); b[len(b)-1] ^= 1 }, []string{outsideRow}},
	{"id of one segment wrong", false, func(w *world) { setID(w.segment(3), 99) }, []string{outsideRow}},
	{"ttl of one segment wrong", false, func(w *world) { setTTL(w.segment(3), 61) }, []string{outsideRow}},
	{"tcp checksum of one segment wrong", false, func(w *world) { w.segment(3)[36] ^= 1 }, []string{outsideRow}},
	{"ttl wrong at the socket", true, func(w *world) { b := w.sockets["h2"][3].ip; setTTL(b, b[8]+1) }, []string{socketRow}},
	{"byte wrong at the socket", true, func(w *world) { b := w.sockets["h2"][20].ip; b[len(b)-1]++ }, []string{socketRow}},
	{"socket misses one", true, func(w *world) { w.sockets["h2"] = slices.Delete(w.sockets["h2"], 3, 4) }, []string{socketRow}},
	{"id not restored inside a node", true, func(w *world) { setID(w.hooks["r2"][7].ip, 3) }, []string{insideRow}},
	{"fragment wrong at the socket", true, func(w *world) { w.bigSocket()[1500] ^= 1 }, []string{socketRow}},
	{"quote wrong", false, func(w *world) { w.misquote() }, []string{"packets quoted in ICMP errors"}},

	// What captures would miss.
	{"a capture misses a packet at its end", false, func(w *world) { w.wire["h2"] = slices.Delete(w.wire["h2"], 0, 1) },
		[]string{captureRow, "vanished packets explained"}},
	{"a capture misses a packet between nodes", false, func(w *world) { w.wire["r2"] = slices.Delete(w.wire["r2"], 0, 1) },
		[]string{captureRow, "vanished packets explained", insideRow, "one record for every packet", "path", "how it ended", "place of the loss"}},

	// What radar would do wrong in records.
	{"record missing", false, func(w *world) { w.records = slices.Delete(w.records, 3, 4) }, []string{"one record for every packet"}},
	{"record twice", false, func(w *world) { w.records = append(w.records, w.records[0]) }, []string{"one record for every packet"}},
	{"record of one segment missing", true, func(w *world) { w.records = slices.DeleteFunc(w.records, w.oneSegment()) }, []string{"one record for every packet"}},
	{"record of a packet that never was", false, func(w *world) { r := *w.find(0, udp); r.IPID ^= 1; w.records = append(w.records, r) },
		[]string{"one record for every packet"}},
	{"ip id wrong in a record", false, func(w *world) { w.find(0, udp).IPID ^= 1 }, []string{"one record for every packet"}},
	{"ttl wrong in a record", false, func(w *world) { w.find(0, udp).TTL-- }, []string{"header as the source saw it"}},
	{"dscp wrong in a record", false, func(w *world) { w.find(0, udp).DSCP ^= 1 }, []string{"header as the source saw it"}},
	{"length wrong in a record", false, func(w *world) { w.find(0, udp).Len++ }, []string{"header as the source saw it"}},
	{"sequence number wrong in a record", true, func(w *world) { *w.find(1, tcp).TCPSeq++ }, []string{tcpRow}},
	{"TCP flags wrong in a record", true, func(w *world) { *w.find(1, tcp).TCPFlags ^= 1 }, []string{tcpRow}},
	{"no TCP payload in a record", true, func(w *world) { w.find(1, tcp).TCPPayload = nil }, []string{tcpRow}},
	{"hops swapped", false, func(w *world) { h := w.find(0, udp).Hops; h[0], h[1] = h[1], h[0] }, []string{"path"}},
	{"port wrong", false, func(w *world) { w.find(0, udp).Hops[1].Port = "e7" }, []string{"path"}},
	{"hop missing", false, func(w *world) { r := w.find(0, udp); r.Hops = r.Hops[:1] }, []string{"path"}},
	{"state wrong", false, func(w *world) { w.find(0, udp).State = record.Delivered }, []string{"how it ended"}},
	{"loss not noticed", false, func(w *world) { r := w.find(0, lost); r.State, r.Loss = record.InFlight, nil },
		[]string{"how it ended", "place of the loss"}},
	{"loss in the wrong node", false, func(w *world) { w.find(0, lost).Loss.Node = "r2" }, []string{"place of the loss"}},
	{"loss at the wrong port", false, func(w *world) { w.find(1, lost).Loss.Port = "e0" }, []string{"place of the loss"}},
	{"loss for the wrong reason", false, func(w *world) { w.find(1, lost).Loss.Reason = "NO_SOCKET" }, []string{"place of the loss"}},
	{"loss that is none", false, func(w *world) { w.find(0, udp).Loss = &record.Loss{Node: "r1"} }, []string{"place of the loss"}},
	{"summary of losses one short", false, func(w *world) { w.summary[1].Skbs-- }, []string{"tbf r2: kernel against radar"}},
	{"summary of losses has one elsewhere", false, func(w *world) {
		w.summary = append(w.summary, Losses{"r2", "e0", record.AtIngress, "CPU_BACKLOG", 1, 1})
	},
		[]string{"radar's losses elsewhere"}},
	{"summary of losses has another reason", false, func(w *world) { w.summary[0].Reason = "IP_INHDR" },
		[]string{"nft r1: kernel against radar", "radar's losses elsewhere"}},
	{"kernel counted one more", false, func(w *world) { w.drops[0].Kernel++ }, []string{"nft r1: kernel against captures", "nft r1: kernel against radar"}},

	// Clocks.
	{"node times 5 us too long", true, func(w *world) { w.hopTimes(func(h *record.Hop) *int64 { return h.NodeNs }, 5000, 1) },
		[]string{"time inside nodes", "time through queues", spanRow}},
	{"link times 3 us too short", true, func(w *world) { w.hopTimes(func(h *record.Hop) *int64 { return h.LinkNs }, -3000, 1) },
		[]string{"time on links", spanRow}},
	{"times in queues 5 us too long", true, func(w *world) { w.hopTimes(func(h *record.Hop) *int64 { return h.QueueNs }, 5000, 1) },
		[]string{"time through queues", spanRow}},
	{"2 % of the link times 30 us too long", false, func(w *world) { w.hopTimes(func(h *record.Hop) *int64 { return h.LinkNs }, 30000, 45) },
		[]string{"time on links", spanRow}},
	{"clock off by 2 ms", false, func(w *world) { w.find(0, udp).TNs += 2e6 }, []string{"time of the first stamp", stampRow}},
	{"stamps 100 us late", false, func(w *world) { w.shift(100_000) }, []string{stampRow}},
	{"stamps 100 us early", false, func(w *world) { w.shift(-100_000) }, []string{stampRow}},
	{"stamps 100 us late, in all nodes", true, func(w *world) { w.shift(100_000) }, []string{stampRow}},
	{"stamps 100 us early, in all nodes", true, func(w *world) { w.shift(-100_000) }, []string{stampRow}},
	{"one stamp before its packet came", true, func(w *world) { *w.find(0, udp).Hops[3].AtNs -= linkTime + 2*resolution }, []string{spanRow}},
	{"one total time", true, func(w *world) { *w.find(0, udp).LatencyNs += 2000 }, []string{spanRow}},
	{"time of a loss", false, func(w *world) { *w.find(0, lost).Loss.AtNs -= 2000 }, []string{spanRow}},
}

// shift moves the clock of all records.
func (w *world) shift(by int64) {
	for i := range w.records {
		w.records[i].TNs += by
	}
}

// segment is a piece of a TCP train as h2 received it.
func (w *world) segment(k int) []byte {
	for _, s := range w.wire["h2"] {
		if !s.out && s.ip[9] == 6 && len(s.ip) > 1400 {
			if k == 0 {
				return s.ip
			}
			k--
		}
	}
	panic("no segment in the test's world")
}

func (w *world) bigSocket() []byte {
	for _, s := range w.sockets["h2"] {
		if len(s.ip) > 1500 && s.ip[9] == 17 {
			return s.ip
		}
	}
	panic("no datagram in the test's world")
}

// misquote changes the packet inside the ICMP error wherever it was seen.
func (w *world) misquote() {
	for _, seen := range []map[string][]shot{w.wire, w.hooks, w.sockets} {
		for _, shots := range seen {
			for _, s := range shots {
				if s.ip[9] == 1 && s.ip[20] == 3 {
					setID(s.ip[28:], 4243)
				}
			}
		}
	}
}

func (w *world) oneSegment() func(record.Record) bool {
	done := false
	return func(r record.Record) bool {
		if done || r.Proto != "tcp" || r.Len < 1400 {
			return false
		}
		done = true
		return true
	}
}

// hopTimes adds to one of the times of every n-th hop.
func (w *world) hopTimes(field func(*record.Hop) *int64, by int64, every int) {
	n := 0
	for i := range w.records {
		for k := range w.records[i].Hops {
			if p := field(&w.records[i].Hops[k]); p != nil {
				if n++; n%every == 0 {
					*p += by
				}
			}
		}
	}
}

// TestMistakesAreFound spoils one thing at a time. The test fails if a check overlooks
// it, or if another check finds it.
func TestMistakesAreFound(t *testing.T) {
	for _, m := range mistakes {
		t.Run(m.name, func(t *testing.T) {
			domain := []string{"r1", "r2"}
			if m.all {
				domain = []string{"h1", "r1", "r2", "h2"}
			}
			w := newWorld(t, domain...)
			m.spoil(w)
			r := w.report(t)
			var wrong []string
			for _, row := range r.Rows {
				if row.Wrong > 0 {
					wrong = append(wrong, row.Check)
				}
			}
			slices.Sort(wrong)
			slices.Sort(m.rows)
			if !slices.Equal(wrong, m.rows) {
				t.Errorf("rows that found a mistake: %q, should be %q\n%s", wrong, m.rows, text(t, r))
			}
		})
	}
}

// TestUnseen: a loss that radar missed is excluded only if the kernel says that it
// ran no program, and then the counts must still add up.
func TestUnseen(t *testing.T) {
	for _, excuse := range []bool{true, false} {
		w := newWorld(t, "r1", "r2")
		r := w.find(1, lost)
		if r.Loss.At != record.AtQueue {
			t.Fatal("the second loss of the test's world should be tbf's")
		}
		dropped := r.TNs + nodeTime + linkTime // in r2
		inferred := record.Loss{Node: r.Loss.Node, Port: r.Loss.Port, At: record.AtLink, Reason: record.NotSeen}
		r.State, r.Loss = record.Expired, &inferred
		w.summary[1].Packets--
		w.summary[1].Skbs--
		w.summary = append(w.summary, Losses{Node: inferred.Node, Port: inferred.Port, At: inferred.At, Reason: inferred.Reason, Packets: 1, Skbs: 1})
		w.blind = func(from, to int64, reasons []string) bool {
			return excuse && from <= dropped && dropped <= to && slices.Contains(reasons, "QDISC_DROP")
		}
		if report := w.report(t); report.OK() != excuse {
			t.Errorf("excused %v, report ok %v\n%s", excuse, report.OK(), text(t, report))
		}
	}
}

// TestAlign: if packets that look alike have too few records, captures show which ones are
// missing, even if a CPU stood still before some stamps.
func TestAlign(t *testing.T) {
	var es []expectation
	for i := range int64(5) {
		at := start + i*1e6
		es = append(es, expectation{enters: at, first: bracket{at, at + 5e8}})
	}
	es[1].first = bracket{es[1].enters, es[1].enters + 2000}
	claims := func(ns ...int64) (list []claim) {
		for _, at := range ns {
			list = append(list, claim{r: &record.Record{TNs: start + at}})
		}
		return list
	}
	for _, c := range []struct {
		records                []int64
		pairs, missing, extras int
	}{
		{[]int64{0, 1e6, 2e6, 3e6, 4e6}, 5, 0, 0},
		{[]int64{0, 2e6, 3e6, 4e6}, 4, 1, 0},
		{[]int64{2e8, 2e8 + 1, 2e8 + 2, 2e8 + 3}, 4, 1, 0}, // the second one's is missing
		{[]int64{-1e6, 0, 1e6, 2e6, 3e6, 4e6}, 5, 0, 1},
		{[]int64{9e8, 9e8 + 1}, 0, 5, 2},
	} {
		pairs, missing, extra := align(slices.Clone(es), claims(c.records...))
		if len(pairs) != c.pairs || len(missing) != c.missing || len(extra) != c.extras {
			t.Errorf("%v: %d pairs, %d missing, %d extra", c.records, len(pairs), len(missing), len(extra))
		}
	}
}

// TestObserverTime: the second of two captures of a node is 1 us late for 3 of 4
// packets. The tap's time does not count as radar's error.
func TestObserverTime(t *testing.T) {
	w := newWorld(t, "r1", "r2")
	second := slices.Clone(w.wire["r1"])
	for i := range second {
		if i%4 != 0 {
			second[i].at += 1000
		}
	}
	d, n, err := ObserverTime(topology(), "r1",
		pcap(t, layers.LinkTypeLinuxSLL2, w.wire["r1"], cooked), pcap(t, layers.LinkTypeLinuxSLL2, second, cooked))
	if err != nil || n < 100 || d < 700 || d > 800 {
		t.Errorf("ObserverTime = %v from %d packets, %v; want 750ns", d, n, err)
	}
	w.hopTimes(func(h *record.Hop) *int64 { return h.NodeNs }, -2500, 1)
	for observer, want := range map[time.Duration]bool{0: false, 750: true} {
		w.observer = observer
		r := w.report(t)
		i := slices.IndexFunc(r.Rows, func(row *Row) bool { return row.Check == "time inside nodes" })
		if r.Rows[i].OK() != want {
			t.Errorf("observer takes %v: time in nodes ok %v, want %v\n%s", observer, r.Rows[i].OK(), want, text(t, r))
		}
	}
}

// TestBusyMachine: where the machine may be busy, late stamps are shown and are no error. A
// stamp that the captures do not allow is always an error.
func TestBusyMachine(t *testing.T) {
	late := func(*record.Record) bool { return true }
	for _, busy := range []bool{true, false} {
		w := newWorld(t, "r1", "r2")
		w.busy = busy
		// The CPU stands still for 3 ms whenever a packet from h1 is between a capture and radar.
		for node, port := range map[string]int{"h1": 11, "r1": 21} {
			for i, s := range w.wire[node] {
				if s.port == port && s.out == (node == "h1") {
					w.wire[node][i].at -= 3e6
				}
			}
		}
		r := w.report(t)
		if r.OK() != busy {
			t.Errorf("busy %v: report ok %v\n%s", busy, r.OK(), text(t, r))
		}
		if shown := strings.Contains(text(t, r), "not judged") && strings.Contains(text(t, r), "beyond the bounds"); shown != busy {
			t.Errorf("busy %v: shown as not judged: %v", busy, shown)
		}
		w.find(0, late).TNs -= 4e6
		if r := w.report(t); r.OK() {
			t.Errorf("busy %v: a stamp before its packet came is found right\n%s", busy, text(t, r))
		}
	}
	row := &Row{Check: "empty", Timed: true, Unjudged: true}
	if row.OK() {
		t.Error("a row that is not judged and compared nothing is ok")
	}
}

// TestNotMeasuredDrops: if radar counted a packet as not measured, its drop is missing in the
// summary. No other drop may be.
func TestNotMeasuredDrops(t *testing.T) {
	for _, short := range []int64{0, 1} {
		w := newWorld(t, "r1", "r2")
		one := w.find(0, lost)
		i := slices.IndexFunc(w.summary, func(l Losses) bool { return l.Node == one.Loss.Node && l.Port == one.Loss.Port })
		w.summary[i].Packets -= 1 + short
		w.summary[i].Skbs -= 1 + short
		w.records = slices.DeleteFunc(w.records, func(r record.Record) bool { return r.ID == one.ID })
		w.notMeasured = 1
		if r := w.report(t); r.OK() != (short == 0) {
			t.Errorf("%d more missing: report ok %v\n%s", short, r.OK(), text(t, r))
		}
	}
}

// TestNothingCompared: an empty row is no success.
func TestNothingCompared(t *testing.T) {
	row := &Row{Check: "empty"}
	if row.OK() {
		t.Error("a row that compared nothing is ok")
	}
	if r := (&Report{Title: "none"}); r.OK() {
		t.Error("a report without rows is ok")
	}
}
