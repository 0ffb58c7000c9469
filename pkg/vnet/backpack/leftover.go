// SPDX-License-Identifier: Apache-2.0

package backpack

import "github.com/vnetradar/radar/pkg/record"

// LeftOver returns what tells records that the ring has kept though it has overwritten others of their time; nil: there are
// none. It keeps packets that have not ended for longer than others, and what lies beside them: counted with these, far too
// many would be lost. What it tells is as of now, so it is asked for before records are.
func (m *Maps) LeftOver() func(*record.Record) bool {
	cursor, slots := m.Cursor(), m.Ring().Slots()
	if cursor <= m.Start()+slots {
		return nil
	}
	return func(r *record.Record) bool {
		_, pos, err := ParseID(r.ID)
		return err == nil && r.Source == record.EBPF && pos < cursor-slots
	}
}
