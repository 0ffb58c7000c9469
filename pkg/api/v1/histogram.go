// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"context"
	"math"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/vnetradar/radar/pkg/aggregate"
	"github.com/vnetradar/radar/pkg/answer"
)

// Histogram is the distribution of one latency.
type Histogram struct {
	By      string                      `json:"by"`
	Name    string                      `json:"name"`
	Unit    string                      `json:"unit" enum:"ns"`
	Buckets []aggregate.HistogramBucket `json:"buckets" nullable:"false" doc:"from ge to le, both included; empty ones are left out. Each is at most 1/64 of ge wide"`
	Count   uint64                      `json:"count"`
	Sum     int64                       `json:"sum" doc:"ns, within 1 %"`
	Notes   []Note                      `json:"notes" nullable:"false"`
}

// registerHistogram adds /histogram.
func (a *API) registerHistogram() {
	type histogramAsked struct {
		Question
		By   string `query:"by" enum:"node,queue,link,end-to-end" default:"end-to-end"`
		Name string `query:"name" maxLength:"512" default:"all" doc:"a row's name, as /latency has it" example:"r1/eth1 > r2/eth0"`
	}
	huma.Register(a.huma, ofDomain("histogram", "/histogram", "The distribution of one latency"), func(ctx context.Context, q *histogramAsked) (*Output[Histogram], error) {
		s, now, err := a.chosen(ctx, &q.Question)
		if err != nil {
			return nil, err
		}
		return once(ctx, a.answers, q.asked, func(ctx context.Context) (*Output[Histogram], error) {
			h := Histogram{By: q.By, Name: q.Name, Unit: "ns", Buckets: []aggregate.HistogramBucket{}}
			notes, err := a.open(q.Domain, s, func(sources *answer.Sources) ([]answer.Note, error) {
				counts, notes, err := sources.Ask(ctx, &answer.Question{Selection: s, Now: now})
				if err != nil {
					return notes, err
				}
				rows := counts.Histograms(aggregate.By(q.By))
				for i := range rows.List {
					if of := &rows.List[i]; of.Name == q.Name {
						h.Count, h.Sum, h.Buckets = of.Count, int64(math.Round(of.SumNs)), of.Buckets
					}
				}
				return append(append(notes, rows.Notes...), counts.Remarks()...), nil
			})
			if err != nil {
				return nil, err
			}
			h.Notes = a.said(notes)
			return output(h), nil
		})
	})
}

// chosen is what a question selects, by the time at which it is asked. It is worked out before the question has a
// place among those that are answered: an expression may take its time.
func (a *API) chosen(ctx context.Context, q *Question) (s *answer.Selection, now time.Time, err error) {
	now = a.now(q.Domain)
	if s, err = a.selection(ctx, &q.Filters, q.Domain); err == nil {
		err = q.limit(s, now)
	}
	return s, now, err
}
