// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/vnetradar/radar/pkg/telemetry/metrics"
)

// roomAgain is how much must be free before a disk that was full counts as one with room, bytes: what reports are
// buffered in, and more. What was just written may be less than what found no room before.
const roomAgain = 1 << 17

// SaveRows lets readers see what Rows returns, as far as KeepRows goes. While it writes there are two
// files.
func (c *Collector) SaveRows(now time.Time) error {
	rows := c.Rows(now)
	all := len(rows)
	rows, err := c.fitting(rows)
	if err == nil {
		err = c.store.SaveRows(rows, c.translator.NodeName)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err = c.wrote(err); err != nil {
		return err
	}
	c.store.Info().LeftOut = uint64(all - len(rows))
	if c.full && !c.failing && c.store.HasRoom(roomAgain) {
		c.full = false
		c.warn("there is room again for what is collected")
	}
	c.failing = false
	return nil
}

// fitting returns those of the rows for which there is room, in their order.
func (c *Collector) fitting(rows []metrics.Row) ([]metrics.Row, error) {
	const most, mostNode = 1024, 128 // bytes of a row, and of a node of a path
	estimate := int64(0)
	for i := range rows {
		estimate += most + mostNode*int64(len(rows[i].Path))
	}
	if c.KeepRows == 0 || estimate <= c.KeepRows {
		return rows, nil
	}
	name, sizes := metrics.Namer(c.translator.NodeName), make([]int, len(rows))
	newest := make([]int, len(rows))
	for i := range rows {
		b, err := json.Marshal(name.Row(&rows[i]))
		if err != nil {
			return nil, fmt.Errorf("write metrics: %w", err)
		}
		sizes[i], newest[i] = len(b)+1, i
	}
	slices.SortStableFunc(newest, func(i, j int) int { return cmp.Compare(rows[j].At, rows[i].At) })
	room, n := c.KeepRows, 0
	for n < len(newest) && int64(sizes[newest[n]]) <= room {
		room -= int64(sizes[newest[n]])
		n++
	}
	fit := newest[:n]
	slices.Sort(fit)
	for to, from := range fit {
		rows[to] = rows[from]
	}
	return rows[:n], nil
}
