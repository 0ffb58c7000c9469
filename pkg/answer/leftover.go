// SPDX-License-Identifier: Apache-2.0

package answer

import (
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/vnet/backpack"
)

// LeftOver returns what tells records that the ring has kept though it has overwritten others of their time; nil: there are
// none. It keeps packets that have not ended for longer than others, and what lies beside them: counted with these, far too
// many would be lost. What it tells is as of now, so it is asked for before records are.
func (s *Sources) LeftOver() func(*record.Record) bool {
	if s.ring == nil {
		return nil
	}
	cursor, slots := s.ring.Maps.Cursor(), s.ring.Maps.Ring().Slots()
	if cursor <= s.ring.Maps.Start()+slots {
		return nil
	}
	return func(r *record.Record) bool {
		_, pos, err := backpack.ParseID(r.ID)
		return err == nil && r.Source == record.EBPF && pos < cursor-slots
	}
}
