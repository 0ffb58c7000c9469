// SPDX-License-Identifier: Apache-2.0

package segments

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/vnetradar/radar/pkg/store/parquet"
)

// manySmall is how many small segments of an hour become one, fewSmall how many of an hour that is over.
const (
	manySmall = 8
	fewSmall  = 2
)

// keeper removes segments beyond the recording's bounds, and puts a larger one in the place of several
// small ones.
type keeper struct {
	w     *Writer
	wake  chan struct{}
	ended chan struct{} // closed when the recording ends
	done  sync.WaitGroup

	mu    sync.Mutex
	files []finished // in the order of their paths
	gone  int64      // time of the newest event whose file was removed
}

// start finds the files that are there, and removes those in whose place others are.
func (k *keeper) start(w *Writer) error {
	k.w, k.wake, k.ended = w, make(chan struct{}, 1), make(chan struct{})
	d, err := Open(w.dir)
	if err != nil {
		return err
	}
	defer d.Close()
	for _, s := range d.replaced {
		if err := os.Remove(filepath.Join(w.dir, s)); err != nil && !os.IsNotExist(err) {
			return err
		}
	}
	for _, s := range d.all {
		k.files = append(k.files, finished{path: s.name, size: s.size, first: s.first, last: s.last, meta: s.r.Meta[keyMeta]})
	}
	slices.SortFunc(k.files, func(a, b finished) int { return strings.Compare(a.path, b.path) })
	k.done.Go(k.run)
	return nil
}

func (k *keeper) stop() {
	close(k.ended)
	k.done.Wait()
	k.tidy()
	k.trim()
}

// add takes a new file.
func (k *keeper) add(f finished) {
	k.mu.Lock()
	i, _ := slices.BinarySearchFunc(k.files, f.path, func(f finished, path string) int { return strings.Compare(f.path, path) })
	k.files = slices.Insert(k.files, i, f)
	k.mu.Unlock()
	k.poke()
}

func (k *keeper) poke() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// sum is how many files there are, and their bytes; and the time of the newest event whose file was removed.
func (k *keeper) sum() (n int, bytes, gone int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, f := range k.files {
		bytes += f.bytes()
		n += 1 + len(f.replaces)
	}
	return n, bytes, k.gone
}

// bytes are those on the disk, with files in whose place it is.
func (f *finished) bytes() int64 {
	n := f.size
	for _, r := range f.replaces {
		n += r.size
	}
	return n
}

func (k *keeper) run() {
	tick := time.NewTicker(time.Minute) // ages
	defer tick.Stop()
	for {
		select {
		case <-k.ended:
			return
		case <-k.wake:
		case <-tick.C:
		}
		k.tidy()
		k.trim()
		for k.compact(time.Now()) {
		}
	}
}

// trim removes the oldest files beyond the bounds.
func (k *keeper) trim() {
	o := &k.w.o
	if o.KeepBytes == 0 && o.KeepAge == 0 {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	sum := int64(0)
	for _, f := range k.files {
		sum += f.bytes()
	}
	byAge := slices.Clone(k.files)
	slices.SortFunc(byAge, func(a, b finished) int { return int(min(max(a.last-b.last, -1), 1)) })
	gone := make(map[string]bool)
	for _, f := range byAge {
		tooMuch := o.KeepBytes > 0 && sum > o.KeepBytes
		tooOld := o.KeepAge > 0 && time.Since(time.Unix(0, f.last)) > o.KeepAge
		if !tooMuch && !tooOld {
			break
		}
		// Without it, files in whose place it is would be read again.
		if len(f.replaces) == 0 && k.remove(f.path) {
			gone[f.path] = true
			sum -= f.size
			if strings.HasPrefix(filepath.Base(f.path), kindEvents) {
				k.gone = max(k.gone, f.last)
			}
		}
	}
	k.files = slices.DeleteFunc(k.files, func(f finished) bool { return gone[f.path] })
}

// tidy tries again to remove files in whose place others are.
func (k *keeper) tidy() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i := range k.files {
		k.removeReplaced(&k.files[i])
	}
}

// removeReplaced removes files in whose place f is, once its name lasts. Those that stay are named by every file
// that takes the place of f.
func (k *keeper) removeReplaced(f *finished) {
	if len(f.replaces) == 0 {
		return
	}
	if f.unsynced != nil {
		if f.unsynced = syncDir(filepath.Join(k.w.dir, filepath.Dir(f.path))); f.unsynced != nil {
			return
		}
	}
	f.replaces = slices.DeleteFunc(f.replaces, func(r replaced) bool { return k.remove(r.path) })
}

// remove removes a file, and its folder if that was the last one.
func (k *keeper) remove(path string) bool {
	path = filepath.Join(k.w.dir, path)
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		return false
	}
	_ = os.Remove(filepath.Dir(path)) // fails while it has others
	return true
}

// compact puts one file in the place of several small ones, if there are enough. It reports whether
// there may be more to do.
func (k *keeper) compact(now time.Time) bool {
	small := k.small(now)
	if small == nil {
		return false
	}
	done, err := k.merge(small)
	k.replace(small, done, err)
	return true
}

// replace puts a file in the place of small ones, unless it could not be made.
func (k *keeper) replace(small []finished, done finished, err error) {
	k.w.warn(done.unsynced)
	k.mu.Lock()
	defer k.mu.Unlock()
	is := func(f finished) bool {
		return slices.ContainsFunc(small, func(s finished) bool { return s.path == f.path })
	}
	if err != nil {
		for i := range k.files {
			if is(k.files[i]) {
				k.files[i].busy = true
			}
		}
		return
	}
	k.removeReplaced(&done)
	k.files = slices.DeleteFunc(k.files, is)
	i, _ := slices.BinarySearchFunc(k.files, done.path, func(f finished, path string) int { return strings.Compare(f.path, path) })
	k.files = slices.Insert(k.files, i, done)
}

// small are files side by side that should become one; nil: there are none.
func (k *keeper) small(now time.Time) []finished {
	k.mu.Lock()
	defer k.mu.Unlock()
	var run []finished
	var bytes int64
	current := folderOf(now.UnixNano())
	enough := func() bool {
		least := manySmall
		if len(run) > 0 && filepath.Dir(run[0].path) < current {
			least = fewSmall
		}
		return len(run) >= least
	}
	for _, f := range k.files {
		isSmall := !f.busy && f.size < k.w.o.MaxBytes/2 && strings.HasPrefix(filepath.Base(f.path), kindPackets)
		fits := isSmall && len(run) > 0 && run[0].meta == f.meta && filepath.Dir(run[0].path) == filepath.Dir(f.path) && bytes+f.size <= k.w.o.MaxBytes
		if fits {
			run, bytes = append(run, f), bytes+f.size
			continue
		}
		if enough() {
			return run
		}
		if run, bytes = nil, 0; isSmall {
			run, bytes = []finished{f}, f.size
		}
	}
	if enough() {
		return run
	}
	return nil
}

// merge writes a file with the packets of others, in the order of their times.
func (k *keeper) merge(small []finished) (finished, error) {
	names := make([]string, len(small))
	var all []replaced
	for i, f := range small {
		names[i] = f.path
		all = append(append(all, replaced{f.path, f.size}), f.replaces...)
	}
	d, err := openFiles(k.w.dir, names)
	if err != nil {
		return finished{}, err
	}
	defer d.Close()
	if len(d.damage) > 0 {
		return finished{}, d.damage[0]
	}
	meta := d.all[0].meta
	columns, err := parquet.NewWriter(discard{}, packetSchema)
	if err != nil {
		return finished{}, err
	}
	s, err := newSegment(k.w.dir, filepath.Dir(small[0].path), kindPackets, meta, small[0].first, d.Once(), columns)
	if err != nil {
		return finished{}, err
	}
	for _, f := range small {
		s.first, s.last = min(s.first, f.first), max(s.last, f.last)
	}
	encoder, b := &encoder{}, newBatch(meta, newScopes())
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	scope := d.Scope()
	err = d.Read(ctx, time.Time{}, time.Time{}, func(p *Packet) error {
		b.add(p, scope)
		if !b.full() {
			return nil
		}
		select {
		case <-k.ended:
			return ErrClosed
		default:
		}
		err := s.add(encoder, b)
		b.reset()
		return err
	})
	if err == nil && b.rows > 0 {
		err = s.add(encoder, b)
	}
	if err == nil && len(d.Damage()) > 0 {
		err = d.Damage()[0]
	}
	if err != nil {
		s.drop()
		return finished{}, err
	}
	return s.finish(all)
}
