// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"context"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/vnetradar/radar/pkg/aggregate"
	"github.com/vnetradar/radar/pkg/answer"
	"github.com/vnetradar/radar/pkg/answer/wording"
	"github.com/vnetradar/radar/pkg/record"
)

// question is what every question takes.
type Question struct {
	OneDomain
	Filters
	Times
}

// said are notes in words.
func (a *API) said(notes []answer.Note) []Note {
	list, known := []Note{}, make(map[Note]bool)
	w := wording.Sentences{Location: time.Local, Now: time.Now(), Face: a.Face}
	for _, n := range notes {
		_, text := w.Note(n)
		if note := (Note{n.Kind(), text}); !known[note] {
			known[note] = true
			list = append(list, note)
		}
	}
	return list
}

// asked is how a question is put.
type asked struct{ byFlow, bySecond bool }

// ask answers a question by its rows.
func ask[T any](ctx context.Context, a *API, q *Question, how asked, rows func(*answer.Counts) answer.Rows[T]) (*Output[Rows[T]], error) {
	return askNamed(ctx, a, q, how, func(c *answer.Counts, _ *wording.Names) answer.Rows[T] { return rows(c) })
}

// askNamed is ask for rows that have words.
func askNamed[T any](ctx context.Context, a *API, q *Question, how asked, rows func(*answer.Counts, *wording.Names) answer.Rows[T]) (*Output[Rows[T]], error) {
	s, now, err := a.chosen(ctx, q)
	if err != nil {
		return nil, err
	}
	if s.Wants(record.InFlight) {
		return nil, fieldError("query.state", "in_flight", "packets in flight are in no answer: /packets has them")
	}
	return once(ctx, a.answers, q.asked, func(ctx context.Context) (*Output[Rows[T]], error) {
		list := []T{}
		notes, err := a.open(q.Domain, s, func(sources *answer.Sources) ([]answer.Note, error) {
			counts, notes, err := sources.Ask(ctx, &answer.Question{Selection: s, Now: now, ByFlow: how.byFlow, BySecond: how.bySecond})
			if err != nil {
				return notes, err
			}
			var names *wording.Names // nil: of reports alone
			if d := sources.Domain(); d != nil {
				names = wording.NewNames(d)
			}
			answered := rows(counts, names)
			list = append(list, answered.List...)
			return append(append(notes, answered.Notes...), counts.Remarks()...), nil
		})
		if err != nil {
			return nil, err
		}
		return output(Rows[T]{list, a.said(notes)}), nil
	})
}

const byFlow = string(aggregate.ByFlow)

// registerQuestions adds what is counted.
func (a *API) registerQuestions() {
	huma.Register(a.huma, ofDomain("paths", "/paths", "The paths that packets took"), func(ctx context.Context, q *Question) (*Output[Rows[aggregate.PathRow]], error) {
		return ask(ctx, a, q, asked{}, (*answer.Counts).Paths)
	})
	a.registerLosses()
	type flowsAsked struct {
		Question
		Sort string `query:"sort" enum:"packets,bytes,rate,latency,jitter,loss,dropped,reordered,duration" default:"packets" doc:"order, greatest first"`
		Top  uint32 `query:"top" default:"20" doc:"the first N; 0: all"`
	}
	huma.Register(a.huma, ofDomain("flows", "/flows", "Flows with rate, latency, jitter, loss and reordering"), func(ctx context.Context, q *flowsAsked) (*Output[Rows[aggregate.FlowRow]], error) {
		return ask(ctx, a, &q.Question, asked{byFlow: true}, func(c *answer.Counts) answer.Rows[aggregate.FlowRow] {
			return c.Flows(answer.FlowOrder(q.Sort), int(q.Top))
		})
	})
	a.registerLatency()
	a.registerThroughput()
}

func noSeries(where string) error {
	return fieldError(where, true, "seconds are not kept for each flow: use another by")
}
