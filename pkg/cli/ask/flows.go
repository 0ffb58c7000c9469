// SPDX-License-Identifier: Apache-2.0

package ask

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/vnetradar/radar/pkg/aggregate"
	"github.com/vnetradar/radar/pkg/answer"
	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/words"
)

const flowsLong = `Show flows: who talks to whom, how much, how fast, how evenly, and what was lost.

A flow is one direction of addresses, protocol and ports as its source saw them; of
ICMP, type and identifier. Later fragments do not show their ports: those between
two addresses are a flow of their own. Of NAT, -o wide shows the other side.

  RATE      bits/s of all its packets over DURATION: from the first time stamp of
            the first packet to the last time stamp of the last. One packet has none
  P50 P99   of the time from first to last stamp
  JITTER    as RFC 3550, 6.4.1 defines it, over one-way latencies in order of arrival
  LOST      share of packets lost or expired: on their way
  DROPPED   packets that were dropped after delivery, in the receiving node: a full
            socket, nobody listens, its rules. They count as delivered. What TCP
            itself frees is not in it (-o wide: ALLDROPPED has both). It is what
            radar loss --after-delivery shows
  REORD     share of packets that arrived behind one sent later (RFC 4737, 3.3)
  NODES     the first and the last node of the path that most of its packets took`

var flowSortNames = []string{
	string(answer.ByPackets), string(answer.ByBytes), string(answer.ByRate), string(answer.ByLatency), string(answer.ByJitter),
	string(answer.ByLoss), string(answer.ByDropped), string(answer.ByReordered), string(answer.ByDuration),
}

// NewFlowsCmd returns "radar flows".
func NewFlowsCmd(k *kit.Kit) *cobra.Command {
	sort := kit.NewChoice(string(answer.ByPackets), "order", flowSortNames...)
	top := kit.Count(20)
	cmd := newQuestionCmd(k, &cobra.Command{
		Use:   "flows " + kit.EndsUse,
		Short: "Show flows with rate, latency, jitter, loss and reordering",
		Long:  flowsLong,
		Example: `  radar flows --sort loss
  radar flows h1
  radar flows --sort rate --top 5 -f
  radar flows --dst 10.0.2.0/24 'tcp and port 80'
  radar flows --top 0 -o csv > flows.csv`,
	}, &question{byFlow: func() bool { return true }}, func(c *answer.Counts) error {
		flows := c.Flows(answer.FlowOrder(sort.Value), int(top))
		k.Note(flows.Notes)
		return printFlows(k, flows.List)
	})
	sort.Add(cmd, "sort", "order, greatest first")
	cmd.Flags().Var(&top, "top", "show the first N; 0: all")
	return cmd
}

func printFlows(k *kit.Kit, rows []aggregate.FlowRow) error {
	if k.Output.Raw() {
		return kit.PrintRows(k, rows)
	}
	columns := []kit.Column{
		{Title: "PACKETS", Right: true}, {Title: "BYTES", Right: true}, {Title: "RATE", Right: true},
		{Title: "DURATION", Right: true}, {Title: "P50", Right: true}, {Title: "P99", Right: true},
		{Title: "JITTER", Right: true}, {Title: "LOST", Right: true}, {Title: "DROPPED", Right: true}, {Title: "REORD", Right: true},
		{Title: "PATHS", Right: true}, {Title: "NODES"}, {Title: "FLOW"},
	}
	if k.Output == kit.FormatWide {
		columns = slices.Insert(columns, 10, kit.Column{Title: "DELIVERED", Right: true}, kit.Column{Title: "LEFT", Right: true},
			kit.Column{Title: "ALLDROPPED", Right: true}, kit.Column{Title: "FIRST"})
		columns = append(columns[:len(columns)-1], kit.Column{Title: "FLOW"}, kit.Column{Title: "NAT"}, kit.Column{Title: "PATH"})
	}
	t := kit.NewTable(columns...)
	for i := range rows {
		t.Add(flowCells(k, &rows[i])...)
	}
	return k.PrintTable(t)
}

func flowCells(k *kit.Kit, r *aggregate.FlowRow) []string {
	p50, p99, jitter, rate, reordered := "", "", "", "", ""
	if r.Latency != nil {
		p50, p99 = words.Duration(float64(r.Latency.P50Ns)), words.Duration(float64(r.Latency.P99Ns))
	}
	if r.JitterNs != nil {
		jitter = words.Duration(float64(*r.JitterNs))
	}
	if r.RateBps != nil {
		rate = words.Rate(*r.RateBps)
	}
	if r.ReorderedRatio != nil {
		reordered = percent(*r.ReorderedRatio)
	}
	paths := strconv.Itoa(r.Paths)
	if r.PathsMore {
		paths += "+"
	}
	cells := []string{
		words.Decimal(r.Packets), words.Decimal(r.Bytes), rate, words.Duration(float64(r.DurationNs)), p50, p99,
		jitter, percent(answer.LossShare(r)), words.Decimal(r.Dropped), reordered, paths, nodesText(r), r.String(),
	}
	if k.Output != kit.FormatWide {
		return cells
	}
	cells = slices.Insert(cells, 10, words.Decimal(r.Delivered), words.Decimal(r.Left), words.Decimal(r.LocalDrops),
		time.Unix(0, r.FirstNs).In(k.Location).Format("15:04:05.000000"))
	var list []string
	for _, p := range r.PathList {
		list = append(list, fmt.Sprintf("%s (%d)", p.Path, p.Packets))
	}
	return append(cells, natText(r), strings.Join(list, ", "))
}

// nodesText is the first and the last node of the path that most packets of a flow took; "..." is where it branches.
func nodesText(r *aggregate.FlowRow) string {
	if len(r.PathList) == 0 {
		return ""
	}
	path := r.PathList[0].Path
	first, _, several := strings.Cut(path, record.Arrow)
	switch {
	case !several:
		return path
	case strings.ContainsAny(path, "{,"):
		return first + record.Arrow + "..."
	}
	return first + path[strings.LastIndex(path, record.Arrow):]
}

// natText shows what NAT made of a flow: "src=192.0.2.1:1024".
func natText(r *aggregate.FlowRow) string {
	var parts []string
	for _, end := range []struct {
		what, addr, was string
		port, old       *int
	}{
		{"src=", r.NATSrc, r.Src, r.NATSport, r.Sport},
		{"dst=", r.NATDst, r.Dst, r.NATDport, r.Dport},
	} {
		if end.addr == "" && end.port == nil {
			continue
		}
		if end.port == nil {
			end.port = end.old
		}
		parts = append(parts, end.what+words.Endpoint(cmp.Or(end.addr, end.was), end.port))
	}
	return strings.Join(parts, " ")
}

// percent is "0%", "1.25%".
func percent(share float64) string {
	return words.Number(share*100, share != 0) + "%"
}
