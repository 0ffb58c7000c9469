// SPDX-License-Identifier: Apache-2.0

package segments

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/store/claim"
	"github.com/vnetradar/radar/pkg/store/parquet"
)

// Dir is a recording as it was when it was opened: files of packets that are removed later are read as well.
// Files of events are many and small: they are opened again when events are read, those that are still there. Who removes
// the directory calls HoldEvents before.
//
// It is read without a lock, while a Writer goes on. Its methods may be called by several goroutines.
type Dir struct {
	dir      string
	all      []*open
	replaced []string // names of files in whose place others are
	scope    *scope
	events   []Event // of HoldEvents
	held     bool    // events are there
	unread   Unfinished
	single   bool // one file of a recording
	mu       sync.Mutex
	damage   []Damage
	known    map[Damage]bool // that is in damage
}

// open is a file of a recording.
type open struct {
	name        string // below the directory
	f           *os.File
	size        int64
	r           *parquet.Reader
	kind        string
	meta        *Meta // one for all files that say the same
	numbers     *packet.Numbers
	names       *packet.Translation // of its numbers to those of the Dir
	first, last int64
	replaces    []string
}

// scope is what the numbers of a Dir's packets mean.
type scope struct {
	*packet.Numbers
	offset int64
	host   string
}

func (s *scope) WallOffset() int64 { return s.offset }
func (s *scope) Host() string      { return s.host }

// Open opens a recording: a directory, or one file of one. What cannot be read of a directory is named
// by Damage; of a single file it is an error.
func Open(dir string) (*Dir, error) {
	info, err := os.Stat(dir)
	if err != nil {
		return nil, fmt.Errorf("recording: %w", err)
	}
	if !info.IsDir() {
		d, err := openFiles(filepath.Dir(dir), []string{filepath.Base(dir)})
		if err == nil && len(d.damage) > 0 {
			d.Close()
			err = d.damage[0]
		}
		if err != nil {
			return nil, fmt.Errorf("recording: %w", err)
		}
		d.single = true
		return d, nil
	}
	unread := findUnfinished(dir) // before: what is finished meanwhile is read
	for range 1000 {
		names, err := listStable(dir)
		if err != nil {
			return nil, fmt.Errorf("recording: %w", err)
		}
		d, err := openFiles(dir, names)
		if errors.Is(err, fs.ErrNotExist) {
			continue // another file is in its place, or it was too old
		}
		if err != nil {
			return nil, fmt.Errorf("recording: %w", err)
		}
		unread.Nothing = unread.Nothing && len(names) == 0
		d.unread = unread
		return d, nil
	}
	return nil, fmt.Errorf("recording: %s: its files change faster than they can be opened", dir)
}

// IsFile reports whether it is one file of a recording.
func (d *Dir) IsFile() bool { return d.single }

// Unfinished is what is not read, because it was not finished.
func (d *Dir) Unfinished() Unfinished { return d.unread }

// Unfinished is what a recording has that is not read, as it was when the recording was opened.
type Unfinished struct {
	PID     int      // of who records there; 0: nobody, as far as can be seen
	Files   []string // below the directory, that are not finished
	Nothing bool     // there was a recorder, and no file: neither one that is finished, nor another
}

// findUnfinished looks for it.
func findUnfinished(dir string) Unfinished {
	u := Unfinished{PID: claim.Holder(dir), Nothing: claim.HoldsNothing(dir)}
	_ = eachUnfinished(dir, func(name string) error {
		u.Files = append(u.Files, name)
		return nil
	})
	u.Nothing = u.Nothing || u.PID != 0 && len(u.Files) == 0
	return u
}

// openFiles opens files below a directory. The error is that of the system; damage is kept.
func openFiles(dir string, names []string) (*Dir, error) {
	d := &Dir{dir: dir}
	metas := make(map[string]meta)
	for _, name := range names {
		s, err := openOne(dir, name, metas)
		if errors.Is(err, fs.ErrNotExist) || isTooMany(err) {
			d.Close()
			return nil, err
		}
		if err != nil {
			d.damaged(name, err)
			continue
		}
		if s.kind == kindEvents {
			s.f.Close()
		}
		d.all = append(d.all, s)
	}
	d.replace()
	d.setScope()
	return d, nil
}

// replace takes out files in whose place another one is. They are there if a process was killed
// between its steps.
func (d *Dir) replace() {
	gone := make(map[string]bool)
	for _, s := range d.all {
		for _, name := range s.replaces {
			gone[name] = gone[name] || name != s.name
		}
	}
	d.all = slices.DeleteFunc(d.all, func(s *open) bool {
		if gone[s.name] {
			d.replaced = append(d.replaced, s.name)
			s.f.Close()
		}
		return gone[s.name]
	})
}

// setScope gives one meaning to numbers of all files, and one clock.
func (d *Dir) setScope() {
	d.scope = &scope{Numbers: packet.NewNumbers()}
	for _, s := range d.all {
		d.scope.Strict = d.scope.Strict || !s.meta.sameDomain(d.all[0].meta)
	}
	for i, s := range d.all {
		if i == 0 {
			d.scope.offset, d.scope.host = s.meta.WallOffset, s.meta.Host
		}
		s.names = packet.NewTranslation(s.numbers, d.scope.Numbers)
		for _, n := range sortedKeys(s.numbers.Nodes) {
			s.names.Node(n)
		}
		for _, n := range sortedKeys(s.numbers.Ports) {
			s.names.Port(n)
		}
	}
}

// sameDomain reports whether numbers of both mean the same.
func (m *Meta) sameDomain(o *Meta) bool {
	return m.Host == o.Host && m.Domain == o.Domain && m.Epoch == o.Epoch
}

func sortedKeys[V any](m map[uint16]V) []uint16 {
	keys := make([]uint16, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// meta is what files say of their recording: its text, and what that means. It can be long, and files many.
type meta struct {
	text string
	of   *Meta
}

// openOne opens a file, and reads what it says of itself.
func openOne(dir, name string, metas map[string]meta) (_ *open, err error) {
	f, size, err := openFile(filepath.Join(dir, name))
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			f.Close()
		}
	}()
	s := &open{name: name, f: f, size: size}
	if s.r, err = parquet.OpenReader(f, size); err != nil {
		return nil, err
	}
	return s, s.read(metas)
}

func (s *open) read(metas map[string]meta) error {
	m := s.r.Meta
	if err := checkVersion(m[keySchema]); err != nil {
		return err
	}
	if s.kind = m[keyKind]; s.kind != kindPackets && s.kind != kindEvents {
		return &parquet.Damage{Place: "footer", What: fmt.Sprintf("it holds %q, neither packets nor events", s.kind)}
	}
	known, ok := metas[m[keyMeta]]
	if !ok {
		known = meta{m[keyMeta], new(Meta)}
		if err := json.Unmarshal([]byte(known.text), known.of); err != nil {
			return &parquet.Damage{Place: "footer", What: err.Error()}
		}
		metas[known.text] = known
	}
	m[keyMeta], s.meta = known.text, known.of
	var err error
	if s.numbers, err = readNumbers(m[keyNumbers]); err != nil {
		return &parquet.Damage{Place: "footer", What: err.Error()}
	}
	s.replaces = strings.Fields(m[keyReplaces])
	s.first, err = strconv.ParseInt(m[keyFirst], 10, 64)
	if err == nil {
		s.last, err = strconv.ParseInt(m[keyLast], 10, 64)
	}
	if err != nil {
		return &parquet.Damage{Place: "footer", What: err.Error()}
	}
	return nil
}

// checkVersion refuses files of a schema that this radar does not know.
func checkVersion(text string) error {
	major, _, ok := strings.Cut(text, ".")
	n, err := strconv.Atoi(major)
	switch {
	case !ok || err != nil:
		return &parquet.Damage{Place: "footer", What: parquet.Foreign + ": it says no version of a schema"}
	case n > versionMajor:
		return &parquet.Damage{Place: "footer", What: fmt.Sprintf("its schema has version %s; this radar reads versions up to %d: a newer radar wrote it", text, versionMajor)}
	}
	return nil
}

// Close closes the files. A Dir that is not closed closes them when it is no longer used.
func (d *Dir) Close() {
	for _, s := range d.all {
		s.f.Close()
	}
}

// Meta are those of the recording's parts, each once, the earliest first.
func (d *Dir) Meta() []Meta {
	var metas []Meta
	seen := make(map[string]bool)
	for _, s := range d.all {
		if text := s.r.Meta[keyMeta]; !seen[text] {
			seen[text] = true
			metas = append(metas, *s.meta)
		}
	}
	return metas
}

// Scope is what the numbers of packets mean that Read gives.
func (d *Dir) Scope() packet.Scope { return d.scope }

// Span is when the first and the last packet had their first stamps; zero if there is none.
func (d *Dir) Span() (first, last time.Time) {
	for _, s := range d.all {
		if s.kind != kindPackets {
			continue
		}
		if f := time.Unix(0, s.first).UTC(); first.IsZero() || f.Before(first) {
			first = f
		}
		if l := time.Unix(0, s.last).UTC(); last.Before(l) {
			last = l
		}
	}
	return first, last
}

// Damage is what could not be read so far: files when the directory was opened, parts of them when they
// were read.
func (d *Dir) Damage() []Damage {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.damage)
}

// Error makes an error of a damage.
func (d Damage) Error() string { return d.String() }

// damaged notes damage of a file, each once.
func (d *Dir) damaged(name string, err error) {
	found := Damage{File: filepath.Join(d.dir, name), Place: "file", What: err.Error()}
	var inside *parquet.Damage
	if errors.As(err, &inside) {
		found.Place, found.What = inside.Place, inside.What
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.known[found] {
		if d.known == nil {
			d.known = make(map[Damage]bool)
		}
		d.known[found] = true
		d.damage = append(d.damage, found)
	}
}
