// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"context"
	"errors"

	"github.com/danielgtaylor/huma/v2"

	"github.com/vnetradar/radar/pkg/answer"
	"github.com/vnetradar/radar/pkg/record"
)

// errEnough ends the reading of packets of which no more were asked for.
var errEnough = errors.New("no more packets were asked for")

// registerPackets adds /packets and /packets/{id}.
func (a *API) registerPackets() {
	type packetsAsked struct {
		Question
		Limit  uint32 `query:"limit" minimum:"1" maximum:"10000" default:"200" doc:"the newest so many"`
		Oldest bool   `query:"oldest" doc:"the oldest so many in their place"`
	}
	huma.Register(a.huma, ofDomain("packets", "/packets", "The newest packets, oldest first"), func(ctx context.Context, q *packetsAsked) (*Output[Rows[Record]], error) {
		s, _, err := a.chosen(ctx, &q.Question)
		if err != nil {
			return nil, err
		}
		return once(ctx, a.answers, q.asked, func(ctx context.Context) (*Output[Rows[Record]], error) {
			if !q.Oldest && (s.Last == 0 || s.Last > int(q.Limit)) {
				s.Last = int(q.Limit)
			}
			list := []Record{}
			notes, err := a.open(q.Domain, s, func(sources *answer.Sources) ([]answer.Note, error) {
				notes, err := sources.Records(ctx, s, func(r *record.Record) error {
					list = append(list, Record{r})
					if q.Oldest && len(list) == int(q.Limit) {
						return errEnough
					}
					return nil
				})
				if errors.Is(err, errEnough) {
					err = nil
				}
				return append(sources.Lacks(), notes...), err
			})
			if err != nil {
				return nil, err
			}
			return output(Rows[Record]{list, a.said(notes)}), nil
		})
	})
}
