// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/telemetry/metrics"
)

// sentMX are the reports of three switches of one packet (laofan13/P4-INT, int-mx/pcap, May 2022),
// and when each came: their metadata lie behind the MX header.
var sentMX = []struct {
	after   time.Duration
	payload string
}{
	{0, "1040000000000001140000300000000000000000ffffffffffff00000a0001010800455c00660001000040116227" +
		"0a0001010a000303fa391f9000525dff300e000020000000ff00000000000000000000010000000302b18c350000000000000000000000000000000002b18c35000000000000000300000000"},
	{60490 * time.Microsecond, "10400000000000021400003000000000000000" + "0000010a000305ffffffffffff0800455c0066000100003f116327" +
		"0a0001010a000303fa391f9000525dff300e000020000000ff00000000000000000000020000000302adcc220000000000000000000000000000000002adcc22000000000000000300000000"},
	{68368 * time.Microsecond, "10400000000000031400003000000000000000" + "0000010a00030700010a0003050800455c0066000100003e116427" +
		"0a0001010a000303fa391f9000525dff300e000020000000ff00000000000000000000030000000402a7e6c70000000000000000000000000000000002a7e6c7000000000000000400000000"},
}

// collecting is a collector of a test's own and what it has raised.
func collecting(t *testing.T, join time.Duration, all bool) (c *Collector, records *[]record.Record, events *[]string) {
	t.Helper()
	records, events = new([]record.Record), new([]string)
	tr := &Translator{Ports: []uint16{32766}, Join: join}
	c = New(tr, metrics.New(metrics.DefaultConfig()), &memory{info: Info{Ports: []uint16{32766}, All: all}}, func(r *record.Record) { *records = append(*records, *r) })
	c.Changed = func(e *metrics.Event) {
		switch e.Metric {
		case metrics.FlowPath:
			*events = append(*events, fmt.Sprint(e.Metric, " ", e.Path))
		case metrics.FlowLatency:
			*events = append(*events, fmt.Sprint(e.Metric, " ", e.Value))
		}
	}
	t.Cleanup(func() { _, _ = c.Close() })
	return c, records, events
}

// TestJoinedMX: what three switches say of a packet behind its MX header is one record of three nodes,
// and the path of the flow; these do not depend on what is kept. These switches have lost when the packet came: what they
// call a hop latency is their clock at its departure, which is no part of any latency, and counted.
func TestJoinedMX(t *testing.T) {
	for _, all := range []bool{false, true} {
		c, records, events := collecting(t, 200*time.Millisecond, all)
		for _, of := range sentMX {
			if err := c.Add(Packet{noon.Add(of.after), reportPacket(t, unhex(t, of.payload))}); err != nil {
				t.Fatal(err)
			}
		}
		if len(*events) > 0 {
			t.Errorf("before the window has ended: %v", *events)
		}
		c.Until(noon.Add(time.Second))
		if want := []string{"flow_path [1 2 3]"}; !slices.Equal(*events, want) {
			t.Errorf("all %v: events %v, want %v", all, *events, want)
		}
		if len(*records) != 1 || nodesOf(&(*records)[0]) != "int-1 int-2 int-3" || (*records)[0].LatencyNs != nil || (*records)[0].Hops[2].NodeNs != nil {
			t.Errorf("all %v: %+v", all, *records)
		}
		if info := c.Info(); info.Counts.NoArrival != 3 {
			t.Errorf("all %v: %d hops without a time of arrival", all, info.Counts.NoArrival)
		}
	}
}

// TestJoinedWays: postcards in reports of their own (INT-XD) tell path and latency once they are together;
// one alone, and those of a packet that was dropped, tell none.
func TestJoinedWays(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		name  string
		cards []sentCard
		want  []string
	}{
		{"in any order", []sentCard{{3, 1, 61, 0, false}, {1, 1, 63, 1 * ms, false}, {2, 1, 62, 9 * ms, false}}, []string{"flow_path [1 2 3]", "flow_latency 300"}},
		{"the same again", []sentCard{{1, 1, 63, 0, false}, {2, 1, 62, 0, false}, {1, 2, 63, 0, false}, {2, 2, 62, 0, false}}, []string{"flow_path [1 2]", "flow_latency 200"}},
		{"another way", []sentCard{{1, 1, 63, 0, false}, {2, 1, 62, 0, false}, {1, 2, 63, 0, false}, {3, 2, 62, 0, false}}, []string{"flow_path [1 2]", "flow_latency 200", "flow_path [1 3]"}},
		{"alone", []sentCard{{1, 1, 63, 0, false}, {2, 1, 62, 20 * ms, false}}, nil},
		{"dropped", []sentCard{{1, 1, 63, 0, false}, {2, 1, 62, 0, true}}, nil},
	} {
		collector, _, events := collecting(t, 10*ms, false)
		for _, one := range c.cards {
			if err := collector.Add(one.packet(t)); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := collector.Close(); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(*events, c.want) {
			t.Errorf("%s: %v, want %v", c.name, *events, c.want)
		}
	}
}
