// SPDX-License-Identifier: Apache-2.0

package collect

import "github.com/vnetradar/radar/pkg/telemetry/metrics"

// memory is a Store that counts what it is given, and has room for everything.
type memory struct{ info Info }

func (m *memory) Info() *Info                                 { return &m.info }
func (m *memory) Add(Packet) error                            { m.info.Next++; return nil }
func (m *memory) Next() uint64                                { return m.info.Next }
func (m *memory) Save() error                                 { return nil }
func (m *memory) SaveRows([]metrics.Row, metrics.Namer) error { return nil }
func (m *memory) Close() error                                { return nil }
