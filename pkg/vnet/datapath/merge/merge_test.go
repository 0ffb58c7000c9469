// SPDX-License-Identifier: Apache-2.0

package merge

import (
	"testing"

	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// What is written before the hook is attached does not say that queues are followed.
func TestQueuesHalfway(t *testing.T) {
	queued := func(kind string) *domain.Domain {
		return &domain.Domain{Ports: []domain.Port{{ID: 1, Role: domain.Internal, Queue: kind}}}
	}
	c := &Change{Old: queued(""), Next: queued("tbf")}
	c = &Change{Old: c.Halfway(), Next: queued("tbf")}
	if got := c.Queues(); len(got) != 1 {
		t.Errorf("new queues after a kill: %q", got)
	}
}
