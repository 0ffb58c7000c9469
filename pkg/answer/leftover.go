// SPDX-License-Identifier: Apache-2.0

package answer

import "github.com/vnetradar/radar/pkg/record"

// LeftOver is backpack.Maps.LeftOver of the domain's ring; nil without one.
func (s *Sources) LeftOver() func(*record.Record) bool {
	if ring := s.Ring(); ring != nil {
		return ring.Maps.LeftOver()
	}
	return nil
}
