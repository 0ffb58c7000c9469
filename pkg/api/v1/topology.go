// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"context"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/vnetradar/radar/pkg/answer"
	"github.com/vnetradar/radar/pkg/answer/topology"
)

// registerTopology adds /topology.
func (a *API) registerTopology() {
	type topologyAsked struct {
		OneDomain
		Load bool `query:"load" doc:"with packets, times and losses since attach"`
	}
	huma.Register(a.huma, ofDomain("topology", "/topology", "Nodes, ports and links, with those that reports reveal"), func(ctx context.Context, q *topologyAsked) (*Output[*topology.Topology], error) {
		return once(ctx, a.answers, q.asked, func(ctx context.Context) (*Output[*topology.Topology], error) {
			t, err := a.topology(ctx, q.Domain, q.Load)
			return output(t), err
		})
	})
}

func (a *API) topology(ctx context.Context, name string, load bool) (t *topology.Topology, err error) {
	all := &answer.Selection{}
	_, err = a.open(name, all, func(s *answer.Sources) ([]answer.Note, error) {
		d := s.Domain()
		if d == nil {
			t = topology.ReportedTopology(name)
		} else {
			t = topology.New(d)
			t.AddInterfacesOf(s)
			for i := range t.Nodes {
				t.Nodes[i].Header = a.Face.Render(t.Nodes[i].Header)
			}
		}
		if !load && !s.HasReports() {
			return nil, nil
		}
		counts, _, err := s.Ask(ctx, &answer.Question{Selection: all, Now: time.Now()})
		if err != nil {
			return nil, err
		}
		if s.HasReports() {
			t.AddReported(counts)
		}
		if load {
			t.AddLoad(counts)
		}
		return nil, nil
	})
	return t, err
}
