// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/google/renameio/v2"

	"github.com/vnetradar/radar/pkg/telemetry/metrics"
)

// rowsFile has the metrics, as JSON lines; whoever reads it sees it as it was at one time.
const rowsFile = "metrics.jsonl"

// SaveRows lets readers see what Rows returns, as far as KeepRows goes. While it writes there are two
// files.
func (c *Collector) SaveRows(now time.Time) error {
	rows := c.Rows(now)
	all := len(rows)
	rows, err := c.fitting(rows)
	if err == nil {
		err = c.writeRows(rows)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err = c.wrote(err); err != nil {
		return err
	}
	c.store.Info.LeftOut = uint64(all - len(rows))
	if c.full && !c.failing {
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

func (c *Collector) writeRows(rows []metrics.Row) error {
	path := filepath.Join(c.store.dir, rowsFile)
	file, err := renameio.NewPendingFile(path, renameio.WithTempDir(c.store.dir), renameio.WithPermissions(0o600))
	if err != nil {
		return fmt.Errorf("write metrics: %w", err)
	}
	defer func() { _ = file.Cleanup() }()
	out := bufio.NewWriterSize(file, 1<<16)
	encoder, name := json.NewEncoder(out), metrics.Namer(c.translator.NodeName)
	for i := range rows {
		if err := encoder.Encode(name.Row(&rows[i])); err != nil {
			return fmt.Errorf("write metrics: %w", err)
		}
	}
	if err := errors.Join(out.Flush(), file.CloseAtomicallyReplace()); err != nil {
		return fmt.Errorf("write metrics: %w", err)
	}
	return nil
}

// LoadRows returns a domain's metrics, by key, and when they were written. ErrNone: there are none.
func LoadRows(name string) ([]metrics.RowJSON, time.Time, error) {
	file, err := os.Open(filepath.Join(Dir(name), rowsFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil, time.Time{}, ErrNone
	}
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("read metrics: %w", err)
	}
	defer file.Close()
	about, err := file.Stat()
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("read metrics: %w", err)
	}
	var rows []metrics.RowJSON
	decoder := json.NewDecoder(bufio.NewReaderSize(file, 1<<16))
	for {
		var row metrics.RowJSON
		if err := decoder.Decode(&row); errors.Is(err, io.EOF) {
			return rows, about.ModTime(), nil
		} else if err != nil {
			return nil, time.Time{}, fmt.Errorf("read metrics %s, row %d: %w", file.Name(), len(rows)+1, err)
		}
		rows = append(rows, row)
	}
}
