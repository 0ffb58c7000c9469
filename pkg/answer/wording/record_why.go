// SPDX-License-Identifier: Apache-2.0

package wording

import (
	"github.com/vnetradar/radar/pkg/aggregate"
	"github.com/vnetradar/radar/pkg/answer/placenow"
	"github.com/vnetradar/radar/pkg/record"
)

// RecordWhy is why a packet was lost, in the words that Why has for its place; "" if it was not lost, or there are none.
// Nothing is asked of the nodes: there may be hundreds of records a second.
func RecordWhy(r *record.Record) string {
	l := r.Loss
	for i := 0; l == nil && i < len(r.Losses); i++ {
		if !r.Losses[i].AfterDelivery {
			l = &r.Losses[i].Loss
		}
	}
	if l == nil {
		return ""
	}
	place := aggregate.LossPlace{Node: l.Node, Port: l.Port, At: l.At, Reason: l.Reason, Qdisc: l.Qdisc, Function: l.Function}
	return (*Names)(nil).LossWhy(&place, &placenow.Place{})
}
