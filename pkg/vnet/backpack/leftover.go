// SPDX-License-Identifier: Apache-2.0

package backpack

import "github.com/vnetradar/radar/pkg/record"

// LeftOver returns a test for records that the ring has kept though it has overwritten others of their time; nil: there are
// none. The ring keeps packets that have not ended for longer than others, and what lies beside them: counted with these, far too
// many would be lost. The test knows the ring as of now, so call LeftOver before records are read.
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
