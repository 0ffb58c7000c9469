// SPDX-License-Identifier: Apache-2.0

package answer

import (
	"github.com/vnetradar/radar/pkg/answer/placenow"
	"github.com/vnetradar/radar/pkg/vnet/topo"
)

// QueueNow is what the kernel says now of the root queueing disciplines of a node's ports, by their names; nil: the
// node is not there, or not known. Packets were measured before: it need not have been so then.
func (s *Sources) QueueNow(node string) map[string]topo.Qdisc {
	d := s.Domain()
	if d == nil {
		return nil
	}
	return placenow.QdiscsOf(d, node)
}
