// SPDX-License-Identifier: Apache-2.0

package segments

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/store/claim"
	"github.com/vnetradar/radar/pkg/store/parquet"
	"github.com/vnetradar/radar/pkg/store/readme"
)

// Causes for which packets are not kept.
const (
	DiskFull  = "disk_full"
	DiskSlow  = "disk_slow" // there was no memory left for what waits for the disk
	DiskError = "disk_error"
)

// batches is how many row groups may wait for the disk.
const batches = 4

// mostEvents is how many events may wait for their segment.
const mostEvents = 1 << 16

// Defaults of Options.
const (
	defaultBytes = 64 << 20
	defaultAge   = 10 * time.Second
)

// ErrClosed says that the recording was closed.
var ErrClosed = errors.New("the recording is closed")

// Writer keeps packets and events. Its methods may be called by several goroutines.
//
// What is added is in memory first. A goroutine writes it to the disk and finishes segments, another
// one removes old ones and puts larger ones in the place of small ones. If the disk is slower than
// packets come, packets are counted as not kept, and nobody waits.
type Writer struct {
	dir       string
	meta      Meta
	o         Options
	lock      int    // file descriptor
	described bool   // the directory has a README; for write alone
	once      string // its name, if o.Once

	mu     sync.Mutex
	batch  *batch
	begun  time.Time // when the first packet or event of the current segment was added
	events []Event
	closed bool
	stats  Stats
	cause  error // of the last packets that were not kept, or may not last

	free   chan *batch
	jobs   chan job
	writes sync.WaitGroup
	keeper keeper
}

// job is what the goroutine that writes has to do.
type job struct {
	b      *batch  // nil: nothing
	events []Event // of a segment that is to be finished
	finish bool
	done   chan error // nil: nobody waits
}

// Create begins a recording in a directory, or continues the one that is there. claim.ErrInUse says that
// another process does.
func Create(dir string, m Meta, o Options) (*Writer, error) {
	d, err := claim.Take(dir)
	if err != nil {
		return nil, err
	}
	w, err := CreateIn(d, m, o)
	if err != nil {
		d.Release()
	}
	return w, err
}

// CreateIn is Create in a directory that is claimed. The claim is the writer's then.
func CreateIn(d *claim.Dir, m Meta, o Options) (*Writer, error) {
	if o.MaxBytes <= 0 {
		o.MaxBytes = defaultBytes
	}
	if o.MaxAge <= 0 {
		o.MaxAge = defaultAge
	}
	w := &Writer{dir: d.Path, meta: m, o: o, lock: d.Lock, free: make(chan *batch, batches), jobs: make(chan job, 4*batches)}
	if o.Once {
		w.once = fmt.Sprintf("%016x", rand.Uint64())
	}
	if err := w.start(); err != nil {
		return nil, fmt.Errorf("recording: %w", err)
	}
	return w, nil
}

func (w *Writer) start() error {
	if _, err := json.Marshal(&w.meta); err != nil {
		return fmt.Errorf("description: %w", err)
	}
	if err := removeUnfinished(w.dir); err != nil {
		return err
	}
	if err := w.keeper.start(w); err != nil {
		return err
	}
	names := newScopes()
	for range batches {
		w.free <- newBatch(&w.meta, names)
	}
	w.stats.NotKept = make(map[string]uint64)
	w.writes.Go(w.write)
	w.writes.Go(w.watch)
	return nil
}

// removeUnfinished removes what a process that was killed has left.
func removeUnfinished(dir string) error {
	return eachUnfinished(dir, func(name string) error {
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !os.IsNotExist(err) {
			return err
		}
		return nil
	})
}

// eachUnfinished calls fn for files with names that newSegment gives, in folders of hours. Other files are not the
// recording's.
func eachUnfinished(dir string, fn func(name string) error) error {
	folders, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, folder := range folders {
		if !folder.IsDir() || !folderName.MatchString(folder.Name()) {
			continue
		}
		files, err := os.ReadDir(filepath.Join(dir, folder.Name()))
		if err != nil {
			return err
		}
		for _, f := range files {
			if !f.Type().IsRegular() || !unfinishedName.MatchString(f.Name()) {
				continue
			}
			if err := fn(filepath.Join(folder.Name(), f.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// Add keeps a packet. It keeps no memory of p, and does not wait for the disk. The error says that the
// recording is closed; packets that could not be kept are counted by Stats.
func (w *Writer) Add(p *Packet, of packet.Scope) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return ErrClosed
	}
	if w.batch == nil {
		select {
		case w.batch = <-w.free:
		default:
			w.stats.NotKept[DiskSlow]++
			return nil
		}
	}
	w.begin()
	w.batch.add(p, of)
	w.stats.Kept++
	if w.batch.full() {
		w.jobs <- job{b: w.batch}
		w.batch = nil
	}
	return nil
}

func (w *Writer) begin() {
	if w.begun.IsZero() {
		w.begun = time.Now()
	}
}

// HasRoom reports whether a packet that is added now is not counted as DiskSlow. Who can wait asks before adding.
func (w *Writer) HasRoom() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.batch != nil || len(w.free) > 0
}

// AddEvent keeps an event. Its fields must be such that encoding/json can encode them.
func (w *Writer) AddEvent(at time.Time, kind string, fields map[string]any) error {
	text, err := json.Marshal(fields)
	if err != nil {
		return fmt.Errorf("event %s: %w", kind, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return ErrClosed
	}
	if len(w.events) >= mostEvents {
		w.stats.EventsNotKept++
		return nil
	}
	w.begin()
	w.events = append(w.events, Event{Time: at, Kind: kind, text: string(text)})
	return nil
}

// Flush finishes the current segment. What was added before is on the disk when it returns, or is
// counted as not kept; the error says why that could not be kept which was added last.
func (w *Writer) Flush() error {
	done := make(chan error, 1)
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return ErrClosed
	}
	w.finish(done)
	w.mu.Unlock()
	return <-done
}

// finish hands over all that was added, for a segment that is to be finished.
func (w *Writer) finish(done chan error) {
	w.jobs <- job{b: w.batch, events: w.events, finish: true, done: done}
	w.batch, w.events, w.begun = nil, nil, time.Time{}
}

// Close finishes the recording.
func (w *Writer) Close() error {
	done := make(chan error, 1)
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return ErrClosed
	}
	w.finish(done)
	w.closed = true
	close(w.jobs)
	w.mu.Unlock()
	err := <-done
	w.keeper.stop()
	w.writes.Wait()
	unix.Close(w.lock)
	return err
}

// Stats says what became of what was added.
func (w *Writer) Stats() Stats {
	w.mu.Lock()
	s := w.stats
	s.NotKept = maps.Clone(s.NotKept)
	if w.cause != nil {
		s.LastError = w.cause.Error()
	}
	w.mu.Unlock()
	s.Segments, s.Bytes, s.EventsRemoved = w.keeper.sum()
	return s
}

// watch finishes segments by their age.
func (w *Writer) watch() {
	tick := time.NewTicker(max(w.o.MaxAge/10, time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-w.keeper.ended:
			return
		case <-tick.C:
		}
		w.mu.Lock()
		if !w.closed && !w.begun.IsZero() && time.Since(w.begun) >= w.o.MaxAge && len(w.jobs) < batches {
			w.finish(nil)
		}
		w.mu.Unlock()
	}
}

// lose counts packets that were thought to be kept.
func (w *Writer) lose(rows int, err error) {
	if rows == 0 {
		return
	}
	cause := DiskError
	if isFull(err) {
		cause = DiskFull
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stats.Kept -= uint64(rows)
	w.stats.NotKept[cause] += uint64(rows)
	w.cause = err
}

// write writes batches and finishes segments.
func (w *Writer) write() {
	columns, err := parquet.NewWriter(discard{}, packetSchema)
	encoder := &encoder{}
	var s *segment
	failed := err
	for j := range w.jobs {
		if j.b != nil && j.b.rows > 0 {
			s, err = w.writeBatch(s, columns, encoder, j.b)
			failed = errors.Join(failed, err)
		}
		if j.b != nil {
			j.b.reset()
			w.free <- j.b
		}
		if s != nil && (j.finish || s.w.Size() >= w.o.MaxBytes) {
			failed = errors.Join(failed, w.finishSegment(s))
			s = nil
		}
		if len(j.events) > 0 {
			failed = errors.Join(failed, w.writeEvents(j.events))
		}
		if j.done != nil {
			j.done <- failed
		}
		if j.finish {
			failed = nil
		}
	}
}

// writeBatch adds a batch to a segment, or to a new one. A segment that can take no more is finished.
func (w *Writer) writeBatch(s *segment, columns *parquet.Writer, e *encoder, b *batch) (_ *segment, err error) {
	if s != nil && s.folder < folderOf(b.first) {
		if err := w.finishSegment(s); err != nil {
			w.lose(b.rows, err)
			return nil, err
		}
		s = nil
	}
	if s == nil {
		if s, err = newSegment(w.dir, folderOf(b.first), kindPackets, &w.meta, b.first, w.once, columns); err != nil {
			w.lose(b.rows, err)
			return nil, err
		}
	}
	if err = s.add(e, b); err == nil {
		return s, nil
	}
	w.lose(b.rows, err)
	if s.rows == 0 {
		s.drop()
		return nil, err
	}
	return nil, errors.Join(err, w.finishSegment(s))
}

func (w *Writer) finishSegment(s *segment) error {
	done, err := s.finish(nil)
	if err != nil {
		w.lose(s.rows, err)
		return err
	}
	w.warn(done.unsynced)
	w.keeper.add(done)
	if !w.described { // of a recording that keeps nothing the directory goes
		w.described = true
		w.warn(readme.Write(w.dir))
	}
	return nil
}

// warn notes an error for which nothing is lost.
func (w *Writer) warn(err error) {
	if err == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cause = err
}

// discard takes what is written before there is a file.
type discard struct{}

func (discard) Write(b []byte) (int, error) { return len(b), nil }
