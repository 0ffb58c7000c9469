// SPDX-License-Identifier: Apache-2.0

package main

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
            itself frees is not in it (-o wide: LOCALDROPS has both). It is what
            radar loss --local shows
  REORD     share of packets that arrived behind one sent later (RFC 4737, 3.3)`

var flowSortNames = []string{
	string(answer.ByPackets), string(answer.ByBytes), string(answer.ByRate), string(answer.ByLatency), string(answer.ByJitter),
	string(answer.ByLoss), string(answer.ByDropped), string(answer.ByReordered), string(answer.ByDuration),
}

func newFlowsCmd(a *app) *cobra.Command {
	sort := choice{string(answer.ByPackets), "order", flowSortNames}
	top := count(20)
	cmd := newQuestionCmd(a, &cobra.Command{
		Use:   "flows [EXPRESSION]",
		Short: "Show flows with rate, latency, jitter, loss and reordering",
		Long:  flowsLong,
		Example: `  radar flows --sort loss
  radar flows --sort rate --top 5 -f
  radar flows --dst 10.0.2.0/24 'tcp and port 80'
  radar flows --top 0 -o csv > flows.csv`,
	}, &question{byFlow: func() bool { return true }}, func(c *answer.Counts) error {
		flows := c.Flows(answer.FlowOrder(sort.value), int(top))
		a.note(flows.Notes)
		return a.printFlows(flows.List)
	})
	addChoice(cmd, &sort, "sort", "order, greatest first")
	cmd.Flags().Var(&top, "top", "show the first N; 0: all")
	return cmd
}

func (a *app) printFlows(rows []aggregate.FlowRow) error {
	if a.output.raw() {
		return printRows(a, rows)
	}
	columns := []column{
		{title: "PACKETS", right: true}, {title: "BYTES", right: true}, {title: "RATE", right: true},
		{title: "DURATION", right: true}, {title: "P50", right: true}, {title: "P99", right: true},
		{title: "JITTER", right: true}, {title: "LOST", right: true}, {title: "DROPPED", right: true}, {title: "REORD", right: true},
		{title: "PATHS", right: true}, {title: "FLOW"},
	}
	if a.output == formatWide {
		columns = slices.Insert(columns, 10, column{title: "DELIVERED", right: true}, column{title: "LEFT", right: true},
			column{title: "LOCALDROPS", right: true}, column{title: "FIRST"})
		columns = append(columns[:len(columns)-1], column{title: "FLOW"}, column{title: "NAT"}, column{title: "PATH"})
	}
	t := newTable(columns...)
	for i := range rows {
		t.add(a.flowCells(&rows[i])...)
	}
	return t.flush(a.out)
}

func (a *app) flowCells(r *aggregate.FlowRow) []string {
	p50, p99, jitter, rate, reordered := "", "", "", "", ""
	if r.Latency != nil {
		p50, p99 = humanDuration(float64(r.Latency.P50Ns)), humanDuration(float64(r.Latency.P99Ns))
	}
	if r.JitterNs != nil {
		jitter = humanDuration(float64(*r.JitterNs))
	}
	if r.RateBps != nil {
		rate = humanRate(*r.RateBps)
	}
	if r.ReorderedRatio != nil {
		reordered = percent(*r.ReorderedRatio)
	}
	paths := strconv.Itoa(r.Paths)
	if r.PathsMore {
		paths += "+"
	}
	cells := []string{
		decimal(r.Packets), decimal(r.Bytes), rate, humanDuration(float64(r.DurationNs)), p50, p99,
		jitter, percent(answer.LossShare(r)), decimal(r.Dropped), reordered, paths, r.String(),
	}
	if a.output != formatWide {
		return cells
	}
	cells = slices.Insert(cells, 10, decimal(r.Delivered), decimal(r.Left), decimal(r.LocalDrops),
		time.Unix(0, r.FirstNs).In(a.location).Format("15:04:05.000000"))
	var list []string
	for _, p := range r.PathList {
		list = append(list, fmt.Sprintf("%s (%d)", p.Path, p.Packets))
	}
	return append(cells, natText(r), strings.Join(list, ", "))
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
		parts = append(parts, end.what+endpoint(cmp.Or(end.addr, end.was), end.port))
	}
	return strings.Join(parts, " ")
}

// percent is "0%", "1.25%".
func percent(share float64) string {
	return trimNumber(share*100, share != 0) + "%"
}
