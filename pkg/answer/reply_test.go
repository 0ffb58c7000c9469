// SPDX-License-Identifier: Apache-2.0

package answer

import (
	"testing"
	"time"

	"github.com/vnetradar/radar/pkg/aggregate"
	"github.com/vnetradar/radar/pkg/answer/placenow"
	"github.com/vnetradar/radar/pkg/answer/replies"
	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/vnet/agent"
	"github.com/vnetradar/radar/pkg/vnet/backpack"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// What became of answers is told only where all flows since attach are counted.
func TestHaveAll(t *testing.T) {
	t.Parallel()
	created := time.Unix(1000, 0)
	d := &domain.Domain{Created: created}
	for name, test := range map[string]struct {
		selection Selection
		byFlow    bool
		gaps      bool
		flows     int
		want      bool
	}{
		"all":                    {want: true},
		"since before attach":    {selection: Selection{Since: created.Add(-time.Hour)}, want: true},
		"some flows":             {selection: Selection{filtered: true, flowsOnly: true}, byFlow: true, want: true},
		"flows, not by flow":     {selection: Selection{filtered: true, flowsOnly: true}},
		"of a node":              {selection: Selection{filtered: true}, byFlow: true},
		"since later":            {selection: Selection{Since: created.Add(time.Second)}},
		"until":                  {selection: Selection{Until: created.Add(time.Hour)}},
		"last":                   {selection: Selection{Last: 5}},
		"packets were not read":  {gaps: true},
		"the table has room":     {flows: aggregate.MaxFlowRows, want: true},
		"more flows than it has": {flows: aggregate.MaxFlowRows + 1},
	} {
		c := NewCounts(aggregate.New(0), backpack.NewDecoder(d, nil))
		c.question = Question{Selection: &test.selection, ByFlow: test.byFlow}
		c.sources, c.gaps = Only(&Ring{&agent.Reader{Domain: d}}), test.gaps
		for i := range test.flows {
			c.Add(&packet.Packet{HasTuple: true, Segs: 1, Proto: 6, Tuple: packet.Tuple{SrcPort: uint16(i), DstPort: uint16(i >> 16)}})
		}
		if got := c.haveAll(); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// Rows of packets without a socket share one index of the flows.
func TestTranslationGone(t *testing.T) {
	t.Parallel()
	c := NewCounts(aggregate.New(0), backpack.NewDecoder(&domain.Domain{}, nil))
	client, server, masked := 4000, 53, 61000
	place := &aggregate.LossPlace{Node: "r", Reason: "NO_SOCKET"}
	answer := []aggregate.Flow{{Proto: "udp", Src: "10.2.0.1", Sport: &server, Dst: "10.2.0.254", Dport: &masked}}
	if causes := c.translationGone(place, answer, nil); causes != nil || c.askers == nil {
		t.Errorf("without flows: %v", causes)
	}
	c.askers = replies.NewAskers([]aggregate.FlowRow{{
		Flow:   aggregate.Flow{Proto: "udp", Src: "10.1.0.1", Sport: &client, Dst: "10.2.0.1", Dport: &server},
		NATSrc: "10.2.0.254", NATSport: &masked,
	}})
	for range 2 { // of the index that is there
		if causes := c.translationGone(place, answer, nil); len(causes) != 1 || causes[0].Kind != placenow.NoTranslation || causes[0].Address != "10.1.0.1" {
			t.Errorf("%v", causes)
		}
	}
}
