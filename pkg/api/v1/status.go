// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"context"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/vnetradar/radar/pkg/answer/status"
	"github.com/vnetradar/radar/pkg/answer/wording"
	"github.com/vnetradar/radar/pkg/host/statedir"
)

// registerStatus adds /status.
func (a *API) registerStatus() {
	huma.Register(a.huma, ofDomain("status", "/status", "What is attached, whether its agent lives, and what became of every packet"), func(ctx context.Context, q *OneDomain) (*Output[*status.View], error) {
		return once(ctx, a.answers, q.asked, func(ctx context.Context) (*Output[*status.View], error) {
			if err := statedir.CheckDomain(q.Domain); err != nil {
				return nil, noDomain(err.Error())
			}
			v, err := status.Read(ctx, q.Domain, wording.Sentences{Location: time.Local, Now: time.Now(), Face: a.Face}, status.Wanted{Cost: true})
			if err != nil {
				return nil, a.refused(err, "path.domain", q.Domain)
			}
			return output(v), nil
		})
	})
}
