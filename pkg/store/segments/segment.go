// SPDX-License-Identifier: Apache-2.0

package segments

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/store/parquet"
)

// Keys of a file's metadata.
const (
	keySchema   = "radar.schema"   // version
	keyKind     = "radar.kind"     // packets or events
	keyMeta     = "radar.meta"     // Meta, as JSON
	keyNumbers  = "radar.numbers"  // names of nodes and ports, as JSON
	keyReplaces = "radar.replaces" // names of the files in whose place this one is, by spaces
	keyFirst    = "radar.first"    // the first stamp, ns since 1970
	keyLast     = "radar.last"
	keyOnce     = "radar.once" // Writers that have added no packet twice, by spaces; without it nobody knows
)

// segment is a file that is being written. It has another name until it is whole.
type segment struct {
	dir     string // of the recording
	f       *os.File
	w       *parquet.Writer
	meta    *Meta
	kind    string
	folder  string
	rows    int
	first   int64
	last    int64
	numbers *packet.Numbers
	once    string // see keyOnce
}

// finished is a file that is whole.
type finished struct {
	path        string // below the directory
	size        int64
	first, last int64
	meta        string // as the file has it
	busy        bool   // no compaction any more: it is damaged
	replaces    []replaced
	unsynced    error // why its name may not last
}

// replaced is a file in whose place another one is, and which is still there.
type replaced struct {
	path string
	size int64
}

// newSegment begins a file in a folder for what begins at a time.
func newSegment(dir, folder, kind string, m *Meta, first int64, once string, w *parquet.Writer) (*segment, error) {
	s := &segment{dir: dir, w: w, meta: m, kind: kind, folder: folder, numbers: packet.NewNumbers(), first: first, last: first, once: once}
	folder = filepath.Join(dir, folder)
	if err := os.Mkdir(folder, 0o700); err == nil {
		if err := syncDir(dir); err != nil {
			return nil, err
		}
	} else if !os.IsExist(err) {
		return nil, err
	}
	f, err := os.CreateTemp(folder, "."+kind+"-*"+unfinished)
	if err != nil {
		return nil, err
	}
	s.f = f
	if err := w.Reset(f); err != nil {
		s.drop()
		return nil, err
	}
	return s, nil
}

// drop removes the file.
func (s *segment) drop() {
	s.f.Close()
	os.Remove(s.f.Name())
}

// add adds a batch. If that fails, the segment is as it was before.
func (s *segment) add(e *encoder, b *batch) error {
	if err := e.encode(s.w, b); err != nil {
		if cut := s.cut(); cut != nil {
			return cut
		}
		return err
	}
	s.rows += b.rows
	s.first, s.last = min(s.first, b.first), max(s.last, b.last)
	for n, name := range b.used.Nodes {
		s.numbers.Nodes[n] = name
	}
	for n, p := range b.used.Ports {
		s.numbers.Ports[n] = p
	}
	return nil
}

// cut cuts off what a write that failed has left.
func (s *segment) cut() error {
	if err := s.f.Truncate(s.w.Size()); err != nil {
		return err
	}
	_, err := s.f.Seek(s.w.Size(), 0)
	return err
}

// finish makes the file whole: it is synced, and gets its name. replaces are files whose place it takes.
func (s *segment) finish(replaces []replaced) (done finished, err error) {
	defer func() {
		if err != nil {
			s.drop()
		}
	}()
	meta, err := json.Marshal(s.meta)
	if err != nil {
		return done, err
	}
	names, err := json.Marshal(s.numbers)
	if err != nil {
		return done, err
	}
	paths := make([]string, len(replaces))
	for i, r := range replaces {
		paths[i] = r.path
	}
	if err := s.w.Close("radar "+s.meta.Radar, []parquet.KeyValue{
		{Key: keySchema, Value: fmt.Sprintf("%d.%d", versionMajor, versionMinor)},
		{Key: keyKind, Value: s.kind},
		{Key: keyMeta, Value: string(meta)},
		{Key: keyNumbers, Value: string(names)},
		{Key: keyReplaces, Value: strings.Join(paths, " ")},
		{Key: keyFirst, Value: fmt.Sprint(s.first)},
		{Key: keyLast, Value: fmt.Sprint(s.last)},
		{Key: keyOnce, Value: s.once},
	}); err != nil {
		return done, err
	}
	if err := s.f.Sync(); err != nil {
		return done, err
	}
	name, err := s.rename()
	if err != nil {
		return done, err
	}
	s.f.Close()
	// The file is whole under its name: it is kept even if the name might not last.
	done = finished{path: filepath.Join(s.folder, name), size: s.w.Size(), first: s.first, last: s.last, meta: string(meta), replaces: replaces}
	done.unsynced = syncDir(filepath.Join(s.dir, s.folder))
	return done, nil
}

// rename gives the file its name: the time of its first packet, and a number that no file had before.
// A name that is free again could be in the list of those whose place another file takes.
func (s *segment) rename() (string, error) {
	name := fmt.Sprintf("%s-%s-%016x%s", s.kind, time.Unix(0, s.first).UTC().Format(nameLayout), rand.Uint64(), ending)
	return name, os.Rename(s.f.Name(), filepath.Join(s.dir, s.folder, name))
}
