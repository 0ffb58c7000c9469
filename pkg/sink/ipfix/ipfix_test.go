// SPDX-License-Identifier: Apache-2.0

package ipfix

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/pkg/record"
)

func ptr[T any](v T) *T { return &v }

// start is when packets are sent: 2026-01-01.
const start = int64(1767225600_000000000)

// sent is a packet h1 > r1 > h2 that left so long after start and takes delay to h2.
func sent(after, delay time.Duration) *record.Record {
	return &record.Record{
		ID: fmt.Sprint(after), State: record.Delivered, TNs: start + int64(after), IPVersion: 4, Src: "10.0.1.1", Dst: "10.0.2.2", Proto: "udp",
		Sport: ptr(40000), Dport: ptr(53), Len: 100, Segs: 1, DSCP: 46, ECN: 1,
		Hops: []record.Hop{
			{Node: "h1", NodeID: 1, Port: "eth0", AtNs: ptr(int64(0))},
			{Node: "r1", NodeID: 2, InPort: "eth0", Port: "eth1", AtNs: ptr(int64(delay)), NodeNs: ptr(int64(delay) / 2)},
			{Node: "h2", NodeID: 3, InPort: "eth0", AtNs: ptr(int64(delay))},
		},
	}
}

// ended are the flow records of packets, as the cache hands them on.
func ended(o Options, packets ...*record.Record) (list []string, e *Exporter) {
	o.Active, o.Idle = time.Minute, 15*time.Second
	o.MostFlows, o.MostBytes, o.Now = max(o.MostFlows, 1), 1400, time.Now
	e = New(o, nil, func([]byte, int) {})
	e.cache.expired = func(f *flow) {
		list = append(list, fmt.Sprintf("%s %d packets %d dropped, %v to %v, %d to %d ns, sum %d, reason %d",
			e.numbers.of[f.key.in].Node, f.packets, f.dropped, time.Duration(f.first-start), time.Duration(f.last-start), f.delay.least, f.delay.most, f.delay.sum, f.reason))
	}
	for _, r := range packets {
		e.Add(r)
	}
	e.cache.endAll()
	return list, e
}

// Packets' own times end flows: after the idle timeout, after the active one, and where there is no room.
func TestFlowsEnd(t *testing.T) {
	other := sent(3*time.Second, 1000)
	other.Dport = ptr(54)
	third := sent(5*time.Second, 1000)
	third.Dport = ptr(55)
	train := sent(0, 1000)
	train.Segs = 3
	lost := sent(4*time.Second, 1000)
	lost.State, lost.Loss = record.Lost, &record.Loss{Node: "h2", At: record.AtNode, Reason: "NETFILTER_DROP"}
	var long []*record.Record
	for at := time.Duration(0); at <= 70*time.Second; at += 10 * time.Second {
		long = append(long, sent(at, 2000))
	}
	for name, c := range map[string]struct {
		most    int
		packets []*record.Record
		want    []string
	}{
		"idle": {10, []*record.Record{sent(0, 1000), sent(14*time.Second, 3000), sent(31*time.Second, 1000)}, []string{
			"h2 2 packets 0 dropped, 1µs to 14.000003s, 1000 to 3000 ns, sum 4000, reason 1",
			"h2 1 packets 0 dropped, 31.000001s to 31.000001s, 1000 to 1000 ns, sum 1000, reason 4"}},
		"active": {10, long, []string{
			"h2 6 packets 0 dropped, 2µs to 50.000002s, 2000 to 2000 ns, sum 12000, reason 2",
			"h2 2 packets 0 dropped, 1m0.000002s to 1m10.000002s, 2000 to 2000 ns, sum 4000, reason 4"}},
		"no room": {2, []*record.Record{sent(0, 1000), other, sent(4*time.Second, 1000), third}, []string{
			"h2 1 packets 0 dropped, 3.000001s to 3.000001s, 1000 to 1000 ns, sum 1000, reason 5",
			"h2 2 packets 0 dropped, 1µs to 4.000001s, 1000 to 1000 ns, sum 2000, reason 4",
			"h2 1 packets 0 dropped, 5.000001s to 5.000001s, 1000 to 1000 ns, sum 1000, reason 4"}},
		"train": {10, []*record.Record{train}, []string{"h2 3 packets 0 dropped, 1µs to 1µs, 1000 to 1000 ns, sum 3000, reason 4"}},
		// A lost packet has no delay (RFC 9951, 4.4.2.1).
		"loss": {10, []*record.Record{sent(0, 1000), lost}, []string{
			"h2 2 packets 1 dropped, 1µs to 4.000001s, 1000 to 1000 ns, sum 1000, reason 4"}},
	} {
		got, _ := ended(Options{MostFlows: c.most}, c.packets...)
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	got, _ := ended(Options{MostFlows: 10, Postcards: true}, sent(0, 1000), lost)
	want := []string{
		" 2 packets 0 dropped, 0s to 4s, 0 to 0 ns, sum 0, reason 4",
		"r1 2 packets 0 dropped, 500ns to 4.0000005s, 500 to 500 ns, sum 1000, reason 4",
		"h2 2 packets 1 dropped, 1µs to 4.000001s, 1000 to 1000 ns, sum 1000, reason 4",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("postcards: %s", diff)
	}
}

// What is lost is dropped at the hop of its loss, wherever that is among hops without an order; where no hop is it, no
// record has it. Ways through nodes whose interfaces have no numbers are different ones.
func TestPlaces(t *testing.T) {
	reported := func(loss string, nodes ...string) *record.Record {
		r := sent(0, 1000)
		r.Source, r.Hops = record.INT, nil
		for _, node := range nodes {
			r.Hops = append(r.Hops, record.Hop{Node: node, InPort: "1", Prev: ptr(-1)})
		}
		r.Unordered, r.State, r.Loss = true, record.Lost, &record.Loss{Node: loss, At: record.AtNode, Reason: "ACL"}
		return r
	}
	way := func(mid string) *record.Record {
		r := sent(0, 1000)
		r.Source, r.Hops = record.INT, []record.Hop{{Node: "s1"}, {Node: mid}, {Node: "s4"}}
		return r
	}
	const rest = " dropped, 0s to 0s, 0 to 0 ns, sum 0, reason 4"
	for name, c := range map[string]struct {
		postcards bool
		packets   []*record.Record
		want      []string
	}{
		"passport":           {false, []*record.Record{reported("s1", "s1", "s2", "s3")}, []string{"s1 1 packets 1" + rest}},
		"postcards":          {true, []*record.Record{reported("s1", "s1", "s2", "s3")}, []string{"s1 1 packets 1" + rest, "s2 1 packets 0" + rest, "s3 1 packets 0" + rest}},
		"elsewhere":          {false, []*record.Record{reported("s9", "s1", "s2")}, []string{"s2 1 packets 0" + rest}},
		"other ways":         {false, []*record.Record{way("s2"), way("s3"), way("s2")}, []string{" 2 packets 0" + rest, " 1 packets 0" + rest}},
		"postcards, no port": {true, []*record.Record{way("s2"), way("s3")}, []string{" 2 packets 0" + rest, " 1 packets 0" + rest, " 1 packets 0" + rest, " 1 packets 0" + rest, " 1 packets 0" + rest}},
	} {
		got, _ := ended(Options{MostFlows: 10, Postcards: c.postcards}, c.packets...)
		slices.Sort(got)
		slices.Sort(c.want)
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// Live, packets that were lost come later than younger ones of other flows: their flow waits for them.
func TestSettles(t *testing.T) {
	for settle, want := range map[time.Duration]int{0: 10, 3 * time.Second: 1} {
		e := New(Options{MostFlows: 100, Active: time.Minute, Idle: time.Second, Settle: settle, MostBytes: 1400, Now: time.Now}, nil, func([]byte, int) {})
		var late, packets int
		e.cache.expired = func(f *flow) {
			if f.key.dport == 99 {
				late++
				packets += int(f.packets)
			}
		}
		for i := range 10 {
			now := 3*time.Second + time.Duration(i)*100*time.Millisecond
			e.Add(sent(now, 1000))
			r := sent(now-2*time.Second, 1000)
			r.Dport = ptr(99)
			e.Add(r)
		}
		e.Advance(start + int64(4*time.Second))
		if settle > 0 && late > 0 {
			t.Errorf("%d records before all packets have settled", late)
		}
		e.Advance(start + int64(time.Minute))
		if late != want || packets != 10 {
			t.Errorf("settle %v: %d records with %d packets, want %d", settle, late, packets, want)
		}
	}
}

// No message is longer than it may be, whatever it ends with.
func TestMostBytes(t *testing.T) {
	for _, most := range []int{1402, 1422, 1471, 1472} {
		messages := 0
		e := New(Options{Active: time.Minute, Idle: time.Second, MostFlows: 10_000, MostBytes: most, Now: time.Now}, nil, func(b []byte, _ int) {
			messages++
			checkMessage(t, b, most)
		})
		for i := range 5000 {
			r := sent(0, 1000)
			r.Sport = ptr(i)
			if i%3 == 0 {
				r.Proto, r.Sport, r.Dport, r.ICMPType, r.ICMPCode, r.ICMPID = "icmp", nil, nil, ptr(8), ptr(0), ptr(i)
			}
			if i%7 == 0 {
				r.Hops[1].Port = fmt.Sprint("e", i)
			}
			if i%2 == 0 {
				for n := range r.Hops {
					r.Hops[n].Node += fmt.Sprint(strings.Repeat("x", i%37), i%500)
				}
			}
			e.Add(r)
		}
		e.Flush()
		if messages < 100 {
			t.Errorf("%d messages", messages)
		}
	}
}

// checkMessage demands the form of a message.
func checkMessage(t *testing.T, b []byte, most int) {
	t.Helper()
	if len(b) > most || len(b) < headerSize || int(binary.BigEndian.Uint16(b[2:])) != len(b) {
		t.Fatalf("a message of %d bytes, at most %d", len(b), most)
	}
	for sets := b[headerSize:]; len(sets) > 0; {
		n := int(binary.BigEndian.Uint16(sets[2:]))
		if n <= setHeader || n > len(sets) || n%4 != 0 {
			t.Fatalf("a set of %d bytes in %d", n, len(sets))
		}
		sets = sets[n:]
	}
}

// Recordings of others cost bounded memory, and no message is larger than it may be.
func TestHostile(t *testing.T) {
	long := strings.Repeat("\xff\u00fc", 500)
	var nodes []string
	for i := range 7 {
		nodes = append(nodes, fmt.Sprint(i, long))
	}
	huge := sent(0, 1000)
	huge.Hops = nil
	for i := range 100_000 {
		huge.Hops = append(huge.Hops, record.Hop{Node: nodes[i%7], NodeID: -i, InPort: fmt.Sprint("a", i), Port: long, AtNs: ptr(int64(i) << 40), Prev: ptr(i * 7919 % 100_003)})
	}
	odd := sent(time.Second, 1000)
	odd.Src, odd.Sport, odd.TNs, odd.Len, odd.Segs = "fe80::1%x", ptr(-1), -1<<63, -5, -1
	odd.Dst = "::ffff:1.2.3.4"
	mixed := sent(time.Second, 1000)
	mixed.Dst = "2001:db8::1"
	for _, postcards := range []bool{false, true} {
		messages := 0
		e := New(Options{Postcards: postcards, Active: time.Minute, Idle: time.Second, MostFlows: 100, MostBytes: LeastBytes, Now: time.Now}, []Port{{Number: 1, Node: long, Name: long}},
			func(b []byte, _ int) {
				messages++
				checkMessage(t, b, LeastBytes)
			})
		for _, r := range []*record.Record{huge, odd, mixed, {}, huge} {
			e.Add(r)
			if len(e.cache.flows) > 100 || len(e.numbers.of) > mostOwn+1 {
				t.Fatalf("%d flows, %d numbers", len(e.cache.flows), len(e.numbers.of))
			}
		}
		e.Flush()
		if messages == 0 || e.NoHeader != 2 {
			t.Errorf("%d messages, %+v", messages, e.Counts)
		}
	}
}

// tshark reads every field of a file as it was written: both versions of IP, NAT, TCP, ICMP, delays and none.
func TestTshark(t *testing.T) {
	need.Programs(t, "tshark")
	v6 := sent(0, 0)
	v6.IPVersion, v6.Src, v6.Dst, v6.Proto, v6.FlowLabel = 6, "2001:db8::1", "2001:db8::2", "tcp", ptr(0x12345)
	v6.TCPFlags = ptr(0x12)
	v6.Hops[1].AtNs, v6.Hops[2].AtNs, v6.Hops[1].NodeNs = ptr(int64(2_600)), ptr(int64(7_500)), nil
	nat := sent(time.Second, 1500)
	nat.Hops[1].Src, nat.Hops[1].Sport = "192.0.2.9", ptr(1024)
	echo := sent(2*time.Second, 0)
	echo.Proto, echo.Sport, echo.Dport, echo.ICMPType, echo.ICMPCode, echo.ICMPID = "icmp", nil, nil, ptr(8), ptr(3), ptr(77)
	echo.Hops = echo.Hops[:1]
	echo.State, echo.Loss = record.Lost, &record.Loss{Node: "h1", Port: "eth0", At: record.AtQueue, Reason: "QDISC_DROP"}
	file := filepath.Join(t.TempDir(), "f.ipfix")
	var out bytes.Buffer
	e := New(Options{Domain: 7, Name: "lab", Active: time.Minute, Idle: 15 * time.Second, MostFlows: 10, MostBytes: 1400, Now: time.Now},
		[]Port{{Number: 3, NodeNumber: 1, Node: "h1", Name: "eth0"}}, func(b []byte, _ int) {
			checkMessage(t, b, 1400)
			out.Write(b)
		})
	for _, r := range []*record.Record{v6, v6, nat, echo} {
		e.Add(r)
	}
	e.Flush()
	if err := os.WriteFile(file, out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	text, err := exec.Command("tshark", "-r", file, "-V", "-Y", "cflow").Output()
	if err != nil {
		t.Fatal(err)
	}
	if bad := strings.Count(string(text), "Malformed") + strings.Count(string(text), "No template found"); bad > 0 {
		t.Errorf("tshark cannot read it: %s", text)
	}
	for _, want := range []string{
		"Observation Domain Id: 7", "Observation Domain Name: lab", "IfDescr: h1/eth0",
		"SrcAddr: 2001:db8::1", "DstAddr: 2001:db8::2", "ipv6FlowLabel: 74565", "TCP Flags: 0x0012", "Octets: 200", "Packets: 2",
		"Post NAT Source IPv4 Address: 192.0.2.9", "Post NAPT Source Transport Port: 1024", "IP ToS: 0xb9",
		"ICMP Type: 0x0803", "Dropped Packets: 1", "Flow End Reason: Forced end (4)", "OutputInt: 3",
		"StartTime: Jan  1, 2026 00:00:00.000007500 UTC", "StartTime: Jan  1, 2026 00:00:00.000000000 UTC",
		// Half a microsecond and more is one (RFC 9951: whole microseconds): 7.5 us of two packets, and 1.5 us.
		"Type 530: Value (hex bytes): 00 00 00 08", "Type 531: Value (hex bytes): 00 00 00 08", "Type 532: Value (hex bytes): 00 00 00 08",
		"Type 533: Value (hex bytes): 00 00 00 00 00 00 00 0f", "Type 533: Value (hex bytes): 00 00 00 00 00 00 00 02",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %q", want)
		}
	}
	if t.Failed() {
		t.Logf("%s", text)
	}
	if n := strings.Count(string(text), "Type 530: Value"); n != 2 {
		t.Errorf("%d records have a delay, want 2: what was lost at its source has none", n)
	}
}

// A new session has templates, and counts from 0.
func TestNewSession(t *testing.T) {
	var all [][]byte
	e := New(Options{Active: time.Minute, Idle: time.Second, MostFlows: 1, MostBytes: 1400, Now: time.Now}, nil, func(b []byte, _ int) { all = append(all, bytes.Clone(b)) })
	for i := range 3 {
		e.Add(sent(time.Duration(i)*10*time.Second, 1000))
		e.Advance(start + int64(time.Duration(i)*10*time.Second) + 5e9)
		if i == 1 {
			e.NewSession()
		}
	}
	if len(all) != 3 {
		t.Fatalf("%d messages", len(all))
	}
	var got []string
	for _, b := range all {
		got = append(got, fmt.Sprint(binary.BigEndian.Uint32(b[8:]), binary.BigEndian.Uint16(b[headerSize:])))
	}
	// The first has a domain, three interfaces and a flow.
	if diff := cmp.Diff([]string{"0 3", "5 266", "0 3"}, got); diff != "" {
		t.Error(diff)
	}
}
