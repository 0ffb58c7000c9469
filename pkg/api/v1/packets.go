// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"context"

	"github.com/danielgtaylor/huma/v2"

	"github.com/vnetradar/radar/pkg/answer"
	"github.com/vnetradar/radar/pkg/record"
)

// registerPackets adds /packets and /packets/{id}.
func (a *API) registerPackets() {
	type packetsAsked struct {
		Question
		Limit  uint32 `query:"limit" minimum:"1" maximum:"10000" default:"200" doc:"the newest so many"`
		Oldest bool   `query:"oldest" doc:"the oldest packets instead of the newest"`
	}
	huma.Register(a.huma, ofDomain("packets", "/packets", "Packets, oldest first"), func(ctx context.Context, q *packetsAsked) (*Output[Rows[Record]], error) {
		s, _, err := a.chosen(ctx, &q.Question)
		if err != nil {
			return nil, err
		}
		return once(ctx, a.answers, q.asked, func(ctx context.Context) (*Output[Rows[Record]], error) {
			switch {
			case q.Oldest:
				s.First = int(q.Limit)
			case s.Last == 0 || s.Last > int(q.Limit):
				s.Last = int(q.Limit)
			}
			list := []Record{}
			notes, err := a.open(q.Domain, s, func(sources *answer.Sources) ([]answer.Note, error) {
				notes, err := sources.Records(ctx, s, func(r *record.Record) error {
					list = append(list, Record{r})
					return nil
				})
				return append(sources.Lacks(), notes...), err
			})
			if err != nil {
				return nil, err
			}
			return output(Rows[Record]{list, a.said(notes)}), nil
		})
	})
}
