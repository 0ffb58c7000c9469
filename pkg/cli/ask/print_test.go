// SPDX-License-Identifier: Apache-2.0

package ask

import (
	"testing"

	"github.com/vnetradar/radar/pkg/aggregate"
	"github.com/vnetradar/radar/pkg/answer"
	"github.com/vnetradar/radar/pkg/cli/clitest"
	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/record"
)

// rows are what commands print about packets.
var rows = map[string]func(*kit.Kit) error{
	"paths": func(k *kit.Kit) error {
		return printPaths(k, []aggregate.PathRow{
			{Path: "h1 > r1 > h2", Packets: 900, Bytes: 90000, Flows: 3, FlowsMore: true, Delivered: 890, Lost: 10,
				Latency: &aggregate.Quantiles{Count: 890, MinNs: 900, P50Ns: 12300, P90Ns: 20000, P99Ns: 45600, P999Ns: 50000, MaxNs: 60000},
				Hops:    []aggregate.PathHop{{Node: "h1", NodeID: 1, Port: "e0"}, {Node: "r1", NodeID: 2, InPort: "e0", Port: "e1"}, {Node: "h2", NodeID: 3, InPort: "e0"}}},
			{Path: "h1", Packets: 2, Bytes: 200, Flows: 1, Expired: 2, Truncated: true, Hops: []aggregate.PathHop{{Node: "h1", NodeID: 1, Port: "e0"}}},
		})
	},
	"paths-alike": func(k *kit.Kit) error {
		way := func(packets uint64, out, in string) aggregate.PathRow {
			return aggregate.PathRow{Path: "h1 > h2", Packets: packets, Bytes: 100 * packets, Flows: 1, Delivered: packets,
				Hops: []aggregate.PathHop{{Node: "h1", NodeID: 1, Port: out}, {Node: "h2", NodeID: 2, InPort: in}}}
		}
		back := aggregate.PathRow{Path: "h2 > h1", Packets: 1, Bytes: 100, Flows: 1, Delivered: 1,
			Hops: []aggregate.PathHop{{Node: "h2", NodeID: 2, Port: "e0"}, {Node: "h1", NodeID: 1, InPort: "e0"}}}
		return printPaths(k, []aggregate.PathRow{way(3, "e0", "e0"), way(2, "e1", "e1"), back})
	},
	"latency": func(k *kit.Kit) error {
		return printLatency(k, []aggregate.LatencyRow{{By: aggregate.ByLink, Name: "h1/e0 > r1/e0",
			Quantiles: aggregate.Quantiles{Count: 900, MinNs: 812, P50Ns: 12345, P90Ns: 100_000, P99Ns: 1_230_000, P999Ns: 45_600_000, MaxNs: 1_200_000_000}}}, false)
	},
	"latency-path": func(k *kit.Kit) error {
		q := aggregate.Quantiles{Count: 2, MinNs: 812, P50Ns: 812, P90Ns: 900, P99Ns: 900, P999Ns: 900, MaxNs: 900}
		way := func(port string) []aggregate.PathHop {
			return []aggregate.PathHop{{Node: "h1", NodeID: 1, Port: port}, {Node: "h2", NodeID: 2, InPort: port}}
		}
		return printLatency(k, []aggregate.LatencyRow{
			{By: aggregate.ByPath, Name: "h1 > h2", Quantiles: q, Hops: way("e0")},
			{By: aggregate.ByPath, Name: "h1 > h2", Quantiles: q, Hops: way("e1"), Truncated: true},
		}, false)
	},
	"latency-flow": func(k *kit.Kit) error { return printLatency(k, aggregate.LatencyOfFlows(clitest.SampleFlows()), true) },
	"flows":        func(k *kit.Kit) error { return printFlows(k, clitest.SampleFlows()) },
	"throughput": func(k *kit.Kit) error {
		return printThroughput(k, []aggregate.ThroughputRow{
			{By: aggregate.ByLink, Name: "all", Packets: 1000, Bytes: 1_500_000, ActiveS: 4, AverageBps: clitest.Ptr(uint64(3_000_000)),
				LastBps: clitest.Ptr(uint64(0)), PeakBps: clitest.Ptr(uint64(12_345_678_901)), PeakS: 1772446504},
			{By: aggregate.ByFlow, Name: "a > b", Packets: 1, Bytes: 100},
		}, 10)
	},
	"series": func(k *kit.Kit) error {
		return printSeries(k, answer.ThroughputSeconds([]aggregate.ThroughputRow{
			{By: aggregate.ByLink, Name: "all", Seconds: []aggregate.Second{{At: 1772446504, Packets: 10, Bytes: 1500}, {At: 1772446505, Packets: 1, Bytes: 100}}},
			{By: aggregate.ByLink, Name: "h1/e0 > r1/e0", Seconds: []aggregate.Second{{At: 1772446504, Packets: 10, Bytes: 1500}}},
		}))
	},
	"loss-flow": func(k *kit.Kit) error {
		return printFlowLosses(k, answer.LossFlowRows([]aggregate.LossFlowRow{{LossFlow: clitest.SampleLosses()[0].TopFlows[0], LossPlace: clitest.SampleLosses()[0].LossPlace}}, false), false)
	},
	"loss": func(k *kit.Kit) error {
		return k.PrintLosses(answer.LossRows(clitest.SampleLosses(), false), false, nil)
	},
	"loss-local": func(k *kit.Kit) error {
		rows := clitest.SampleLosses()[1:]
		rows = append(rows, aggregate.LossRow{Packets: 3, Skbs: 3, Bytes: 156, Flows: 1, LossPlace: aggregate.LossPlace{
			Node: "h2", NodeID: 3, At: record.AtNode, Reason: "QUEUE_PURGE", Function: "sk_stream_kill_queues"}})
		return k.PrintLosses(answer.LossRows(rows, true), true, nil)
	},
}

// Everything that is printed for a person, and its JSON and CSV, is as committed.
func TestPrint(t *testing.T) {
	for name, f := range rows {
		for _, format := range []kit.Format{kit.FormatTable, kit.FormatWide, kit.FormatJSON, kit.FormatCSV} {
			t.Run(name+"/"+string(format), func(t *testing.T) {
				clitest.Golden(t, name+"."+string(format), clitest.Printed(t, format, f))
			})
		}
	}
}
