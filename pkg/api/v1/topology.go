// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"context"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/vnetradar/radar/pkg/answer"
	"github.com/vnetradar/radar/pkg/answer/placenow"
	"github.com/vnetradar/radar/pkg/answer/topology"
)

// registerTopology adds /topology.
func (a *API) registerTopology() {
	type topologyAsked struct {
		OneDomain
		Load bool `query:"load" doc:"with packets, times and losses since attach"`
	}
	huma.Register(a.huma, ofDomain("topology", "/topology", "Nodes, ports and links, with those that reports reveal"), func(ctx context.Context, q *topologyAsked) (*Output[*Topology], error) {
		return once(ctx, a.answers, q.asked, func(ctx context.Context) (*Output[*Topology], error) {
			t, err := a.topology(ctx, q.Domain, q.Load)
			return output(t), err
		})
	})
}

// Topology is a domain's, with what is to be said of it.
type Topology struct {
	*topology.Topology
	Notes []Note `json:"notes,omitempty"`
}

func (a *API) topology(ctx context.Context, name string, load bool) (*Topology, error) {
	all := &answer.Selection{}
	var t *topology.Topology
	var doubles []answer.Note
	_, err := a.open(name, all, func(s *answer.Sources) ([]answer.Note, error) {
		d := s.Domain()
		if d == nil {
			t = topology.ReportedTopology(name)
		} else {
			t = topology.New(d)
			look := placenow.LookOnce(s.Interfaces)
			t.AddInterfaces(look)
			doubles = topology.DoubleNotes(d, look)
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
	if err != nil {
		return nil, err
	}
	return &Topology{t, a.said(doubles)}, nil
}
