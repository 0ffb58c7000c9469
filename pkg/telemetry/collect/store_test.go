// SPDX-License-Identifier: Apache-2.0

package collect

import "github.com/vnetradar/radar/pkg/telemetry/metrics"

// memory is a Store that counts what it is given. It has room for everything, unless it is said to be full.
type memory struct {
	info Info
	full error  // what Add comes to
	free uint64 // bytes, then
}

func (m *memory) Info() *Info                                 { return &m.info }
func (m *memory) Next() uint64                                { return m.info.Next }
func (m *memory) Save() error                                 { return nil }
func (m *memory) SaveRows([]metrics.Row, metrics.Namer) error { return nil }
func (m *memory) Close() error                                { return nil }
func (m *memory) HasRoom(bytes uint64) bool                   { return m.full == nil || bytes <= m.free }

func (m *memory) Add(Packet) error {
	if m.full == nil {
		m.info.Next++
	}
	return m.full
}
