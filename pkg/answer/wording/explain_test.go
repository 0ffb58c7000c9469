// SPDX-License-Identifier: Apache-2.0

package wording

import (
	"testing"

	"github.com/vnetradar/radar/pkg/aggregate"
	"github.com/vnetradar/radar/pkg/answer/explain"
	"github.com/vnetradar/radar/pkg/record"
)

// The sentence on top does not blame who only found out, nor a rate of which the flow got a small part.
func TestExplained(t *testing.T) {
	queue := func(got uint64) *explain.Answer {
		return &explain.Answer{Cause: explain.ByQueue, Place: "r/wan", Packets: 200, Queue: &explain.QueueRow{Name: "r/wan", Way: "data", Waited: 200,
			ConfiguredBps: 4_000_000, RateBps: got, Times: aggregate.Quantiles{P50Ns: 1.89e9, P99Ns: 2e9, MaxNs: 2e9}}}
	}
	csum := &explain.LossRow{Way: "data", Node: "b", At: record.AtNode, Reason: "TCP_CSUM", Function: "tcp_v4_rcv", AfterDelivery: true, Packets: 10, Ratio: 0.1}
	unknown := &explain.LossRow{Way: "data", Node: "b", At: record.AtNode, Reason: "SCTP_CSUM", AfterDelivery: true, Packets: 10, Ratio: 0.1}
	for _, c := range []struct {
		answer *explain.Answer
		want   string
	}{
		{queue(3_900_000), "slow because r/wan's 4.00Mbit/s queue held packets 1.89s (p50)"},
		{queue(76_000), "slow because r/wan's 4.00Mbit/s queue held packets 1.89s (p50); the flow got 76.0kbit/s of the 4.00Mbit/s: others wait in the same queue, or its class has no more"},
		{&explain.Answer{Cause: explain.ByLoss, Place: "b", Packets: 100, Dropped: 10, Loss: csum},
			"slow because b dropped 10 % of its packets after delivery [TCP_CSUM, tcp_v4_rcv()]: its TCP checksum was wrong (sent so, or changed on the way)"},
		{&explain.Answer{Cause: explain.ByLoss, Place: "b", Packets: 100, Dropped: 10, Loss: unknown}, "slow because b dropped 10 % of its packets after delivery [SCTP_CSUM]"},
		{&explain.Answer{Cause: explain.Nothing, Proto: "udp", ThroughputBps: 3900, AckPackets: 1, Receiver: "b", Dropped: 5},
			"nothing held it: it carried 3.90kbit/s, and neither queues nor windows made it wait. b dropped 5 packets after delivery"},
		{&explain.Answer{Cause: explain.Nothing, Proto: "udp", ThroughputBps: 3900},
			"nothing held it: it carried 3.90kbit/s, and neither queues, losses nor windows made it wait. Between these addresses and ports nothing came back"},
	} {
		if got := Explained(c.answer); got != c.want {
			t.Errorf("%s\nwant %s", got, c.want)
		}
	}
}
