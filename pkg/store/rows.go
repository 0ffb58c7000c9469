// SPDX-License-Identifier: Apache-2.0

package store

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/google/renameio/v2"
	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/telemetry/metrics"
)

// rowsFile has the metrics, as JSON lines; whoever reads it sees it as it was at one time.
const rowsFile = "metrics.jsonl"

// SaveRows writes these values instead of those before; name gives nodes theirs. While it writes there are two
// files. It may be called while another method is.
func (s *Store) SaveRows(rows []metrics.Row, name metrics.Namer) error {
	path := filepath.Join(s.dir, rowsFile)
	file, err := renameio.NewPendingFile(path, renameio.WithTempDir(s.dir), renameio.WithPermissions(0o600))
	if err != nil {
		return fmt.Errorf("write metrics: %w", err)
	}
	defer func() { _ = file.Cleanup() }()
	out := bufio.NewWriterSize(file, 1<<16)
	encoder := json.NewEncoder(out)
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

// HasRoom reports whether so many bytes more would fit into the file system, as far as it says so: quotas are not asked.
func (s *Store) HasRoom(bytes uint64) bool {
	var fs unix.Statfs_t
	if err := unix.Statfs(s.dir, &fs); err != nil {
		return true // nothing is known against it
	}
	return fs.Bavail*uint64(fs.Bsize) >= bytes
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
