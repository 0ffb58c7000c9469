// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"context"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/vnetradar/radar/pkg/aggregate"
	"github.com/vnetradar/radar/pkg/answer"
	"github.com/vnetradar/radar/pkg/answer/wording"
)

// registerLosses adds /loss.
func (a *API) registerLosses() {
	type lossAsked struct {
		Question
		By            string `query:"by" enum:"place,flow" default:"place" doc:"what to group by"`
		Series        bool   `query:"series" doc:"a row for each second, by place"`
		AfterDelivery bool   `query:"after_delivery" doc:"what was dropped after delivery instead"`
	}
	huma.Register(a.huma, ofDomain("loss", "/loss", "Where packets were lost, why, and of which flows"), func(ctx context.Context, q *lossAsked) (*Output[Rows[LossRow]], error) {
		if q.Series && q.By == byFlow {
			return nil, noSeries("query.series")
		}
		return askNamed(ctx, a, &q.Question, asked{byFlow: q.By == byFlow}, func(c *answer.Counts, names *wording.Names) answer.Rows[LossRow] {
			switch {
			case q.Series:
				return rowsOf(c.LossesBySecond(q.AfterDelivery), func(r answer.LossSecond) LossRow {
					return LossRow{SecondLoss{r, names.LossWhy(&r.LossPlace, &r.Place)}}
				})
			case q.By == byFlow:
				return rowsOf(c.LossesByFlow(q.AfterDelivery), func(r answer.LossFlowRow) LossRow {
					return LossRow{FlowLoss{r, names.LossWhy(&r.LossPlace, &r.Place)}}
				})
			}
			return rowsOf(c.Losses(q.AfterDelivery), func(r answer.LossRow) LossRow {
				return LossRow{PlaceLoss{r, names.LossWhy(&r.LossPlace, &r.Place)}}
			})
		})
	})
}

// Losses with what the command line's column WHY says of them.
type (
	PlaceLoss struct {
		answer.LossRow
		Why string `json:"why,omitempty" doc:"in words, as far as there are any"`
	}
	FlowLoss struct {
		answer.LossFlowRow
		Why string `json:"why,omitempty" doc:"in words, as far as there are any"`
	}
	SecondLoss struct {
		answer.LossSecond
		Why string `json:"why,omitempty" doc:"in words, as far as there are any"`
	}
)

// registerLatency adds /latency.
func (a *API) registerLatency() {
	type latencyAsked struct {
		Question
		By     string `query:"by" enum:"node,queue,link,path,end-to-end,flow" default:"end-to-end" doc:"what to group by"`
		Series bool   `query:"series" doc:"a row for each second in which packets set out"`
		Top    uint32 `query:"top" default:"20" doc:"by flow: the first N; 0: all"`
	}
	huma.Register(a.huma, ofDomain("latency", "/latency", "Latencies of nodes, queues, links, paths or flows, or end to end"), func(ctx context.Context, q *latencyAsked) (*Output[Rows[LatencyRow]], error) {
		by := aggregate.By(q.By)
		if q.Series && by == aggregate.ByFlow {
			return nil, noSeries("query.series")
		}
		return ask(ctx, a, &q.Question, asked{by == aggregate.ByFlow, q.Series}, func(c *answer.Counts) answer.Rows[LatencyRow] {
			plain := func(r aggregate.LatencyRow) LatencyRow { return LatencyRow{r} }
			switch {
			case q.Series:
				return rowsOf(c.LatencyBySecond(by), func(r answer.LatencySecond) LatencyRow { return LatencyRow{r} })
			case by == aggregate.ByFlow:
				return rowsOf(c.LatencyOfFlows(int(q.Top)), plain)
			}
			return rowsOf(c.Latency(by), plain)
		})
	})
}

// registerThroughput adds /throughput.
func (a *API) registerThroughput() {
	type throughputAsked struct {
		Question
		By     string `query:"by" enum:"link,port,node,path,flow" default:"link" doc:"what to group by"`
		Series bool   `query:"series" doc:"a row for each second with traffic"`
		Window string `query:"window" default:"10s" maxLength:"16" doc:"what last_bps is the average of: whole seconds"`
		Top    uint32 `query:"top" default:"20" doc:"by flow: the first N; 0: all"`
	}
	huma.Register(a.huma, ofDomain("throughput", "/throughput", "Packets and bytes of links, ports, nodes, paths or flows, by second"), func(ctx context.Context, q *throughputAsked) (*Output[Rows[ThroughputRow]], error) {
		by := aggregate.By(q.By)
		window, err := time.ParseDuration(q.Window)
		switch {
		case err != nil || window < time.Second || window > aggregate.Seconds*time.Second || window%time.Second != 0:
			return nil, fieldError("query.window", q.Window, "use 1s to %ds, in whole seconds", aggregate.Seconds)
		case q.Series && by == aggregate.ByFlow:
			return nil, noSeries("query.series")
		}
		return ask(ctx, a, &q.Question, asked{byFlow: by == aggregate.ByFlow}, func(c *answer.Counts) answer.Rows[ThroughputRow] {
			plain := func(r aggregate.ThroughputRow) ThroughputRow { return ThroughputRow{r} }
			switch {
			case q.Series:
				return rowsOf(c.ThroughputBySecond(by), func(r answer.ThroughputSecond) ThroughputRow { return ThroughputRow{r} })
			case by == aggregate.ByFlow:
				return rowsOf(c.ThroughputOfFlows(int(q.Top)), plain)
			}
			return rowsOf(c.Throughput(by, int64(window/time.Second)), plain)
		})
	})
}

// rowsOf makes rows of another type.
func rowsOf[T, U any](rows answer.Rows[T], of func(T) U) answer.Rows[U] {
	list := make([]U, len(rows.List))
	for i := range rows.List {
		list[i] = of(rows.List[i])
	}
	return answer.Rows[U]{List: list, Notes: rows.Notes}
}

// Rows that differ by what was asked: any of some types, as the command line prints them.
type (
	// LossRow is a place, a flow at a place, or a second of a place.
	LossRow struct{ any }
	// LatencyRow is a group, or a second of it.
	LatencyRow struct{ any }
	// ThroughputRow is a group, or a second of it.
	ThroughputRow struct{ any }
)
