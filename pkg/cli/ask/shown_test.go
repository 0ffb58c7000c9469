// SPDX-License-Identifier: Apache-2.0

package ask

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/vnetradar/radar/pkg/aggregate"
	"github.com/vnetradar/radar/pkg/answer"
	"github.com/vnetradar/radar/pkg/answer/story"
	"github.com/vnetradar/radar/pkg/answer/wording"
	"github.com/vnetradar/radar/pkg/cli/clitest"
	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/vnet/backpack"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// bridgedAnswer is what the load of networkDomain gives, and a loss at its bridge.
func bridgedAnswer(k *kit.Kit, d *domain.Domain) *answer.Counts {
	k.ShowNames(d)
	agg := clitest.BridgedLoad()
	agg.Add(&packet.Packet{State: record.Lost, Lost: true, Segs: 3, LatencyNs: packet.NoTime,
		Loss: packet.Drop{Node: 3, Port: 2, At: record.AtNode, Reason: "NETFILTER_DROP", AtNs: 5},
		Hops: []packet.Hop{{Node: 1, In: packet.NoPort, Out: 0, InNs: -1, OutNs: 0, DequeueNs: packet.NoTime}}})
	return answer.NewCounts(agg, k.NamesOf(backpack.NewDecoder(d, nil)))
}

// Tables have Docker's name of a bridge, and "(not attached)" for who is behind another member
// of it. JSON has the names of interfaces, and of the node in whose namespace the bridge is; what
// was lost there was lost by that node.
func TestShownNames(t *testing.T) {
	d := clitest.NetworkDomain()
	text := func(format kit.Format, show func(k *kit.Kit, c *answer.Counts) error) string {
		return string(clitest.Printed(t, format, func(k *kit.Kit) error { return show(k, bridgedAnswer(k, d)) }))
	}
	paths := func(k *kit.Kit, c *answer.Counts) error { return printPaths(k, c.Paths().List) }
	by := func(by aggregate.By) func(k *kit.Kit, c *answer.Counts) error {
		return func(k *kit.Kit, c *answer.Counts) error { return printLatency(k, c.Latency(by).List, false) }
	}
	passed := func(by aggregate.By) func(k *kit.Kit, c *answer.Counts) error {
		return func(k *kit.Kit, c *answer.Counts) error { return printThroughput(k, c.Throughput(by, 10).List, 10) }
	}
	losses := func(k *kit.Kit, c *answer.Counts) error { return k.PrintLosses(c.Losses(false).List, false, nil) }
	for name, c := range map[string]struct {
		format kit.Format
		show   func(k *kit.Kit, c *answer.Counts) error
		wants  []string
	}{
		"paths":      {kit.FormatTable, paths, []string{"c1 > (not attached)\n", "(not attached) > c1\n", "c1 > host\n", "host > c2\n"}},
		"paths wide": {kit.FormatWide, paths, []string{"c1:eth0 > (not attached):veth77\n", "c1:eth0 > shop:host\n", "host:shop > eth0:c2\n"}},
		"links":      {kit.FormatTable, by(aggregate.ByLink), []string{"host/shop > c2/eth0\n", "c1/eth0 > host/shop\n"}},
		"traffic":    {kit.FormatTable, passed(aggregate.ByLink), []string{"c1/eth0 > (not attached)/veth77\n"}},
		"ports":      {kit.FormatTable, passed(aggregate.ByPort), []string{"host/shop in\n", "host/shop out\n", "(not attached)/veth77 out\n"}},
		"losses":     {kit.FormatTable, losses, []string{"host  shop  node     NETFILTER_DROP"}},
	} {
		got := text(c.format, c.show)
		for _, want := range c.wants {
			if !strings.Contains(got, want) {
				t.Errorf("%s: no %q in\n%s", name, want, got)
			}
		}
		if strings.Contains(got, clitest.NetworkBridge) || strings.Contains(got, "host/veth77") {
			t.Errorf("%s: the interface's own name in\n%s", name, got)
		}
		raw := text(kit.FormatJSON, c.show)
		if !strings.Contains(raw, clitest.NetworkBridge) || strings.Contains(raw, "shop") || strings.Contains(raw, wording.NotAttached) {
			t.Errorf("%s: JSON has other names:\n%s", name, raw)
		}
	}
}

// A story and the line of a packet name the same.
func TestShownRecords(t *testing.T) {
	d := clitest.NetworkDomain()
	left := record.Record{V: 1, ID: "1-1", Source: record.EBPF, State: record.Left, Proto: "udp", Src: "10.0.0.1", Dst: "10.0.0.2",
		Hops: []record.Hop{{Node: "c1", NodeID: 1, Port: "eth0", Role: record.Source}, {Node: "host", NodeID: 3, Port: "veth77", Role: record.Sink}}}
	lost := left
	lost.State, lost.Hops = record.Lost, []record.Hop{{Node: "host", NodeID: 3, Port: clitest.NetworkBridge, Role: record.Source}}
	lost.Loss = &record.Loss{Node: "host", Port: clitest.NetworkBridge, At: record.AtQueue, Reason: "QDISC_DROP"}
	expired := lost
	expired.State, expired.Loss, expired.Hops = record.Expired, nil, []record.Hop{{Node: "c1", NodeID: 1, Port: "eth0", Role: record.Source}}
	reported := left // by a switch, which may call its ports as it likes
	reported.Source = record.INT
	for _, c := range []struct {
		r           record.Record
		line, story string
	}{
		{left, "c1 > (not attached)", "(not attached)  leaves the domain by veth77"},
		{lost, "host/shop queue QDISC_DROP", "LOST in the queue of shop"},
		{expired, "c1", "between c1/eth0 and bridge host/shop"},
		{reported, "c1 > host", "host  leaves the domain by veth77"},
	} {
		line := string(clitest.Printed(t, kit.FormatTable, func(k *kit.Kit) error {
			k.ShowNames(d)
			p := packetPrinter(k, packetQuery{})
			return errors.Join(p.Add(&c.r), p.Flush())
		}))
		tell := &wording.Teller{Sentences: wording.Sentences{Location: time.UTC, Face: kit.Face}, Shown: wording.NewNames(d)}
		told, _ := tell.Tell(story.New(&c.r, 0, d, time.Time{})).Lines(nil, nil, nil)
		story := strings.Join(told, "\n")
		if !strings.Contains(line, c.line) || !strings.Contains(story, c.story) {
			t.Errorf("want %q in\n%s\nand %q in\n%s", c.line, line, c.story, story)
		}
		if c.r.Hops[len(c.r.Hops)-1].Node == wording.NotAttached {
			t.Error("the record itself has changed")
		}
	}
}
