// SPDX-License-Identifier: Apache-2.0

package control

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"time"

	"github.com/google/renameio/v2"
	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/host"
	"github.com/vnetradar/radar/pkg/host/statedir"
)

// Version is that of the files.
const Version = 1

const (
	wantedFile = "wanted.json"
	statusFile = "status.json"
	eventsFile = "events"
	lockFile   = "service.lock"
	pidFile    = "service.pid"
	logFile    = "service.log"
)

// Bounds of the files: what is longer is none of ours.
const (
	maxFile   = 64 << 20
	maxEvents = 512
)

// keepExpired is how long an intent whose time is over stays in the list, for users to see.
const keepExpired = time.Hour

// Store is where the management of an INT domain keeps what is wanted and what became of it: files in the
// state directory. It may be used concurrently, and by many processes: whoever changes a file holds the
// lock, and files are replaced as a whole.
type Store struct{ name string }

// OpenStore opens that of an INT domain, which need not be there yet.
func OpenStore(name string) (*Store, error) {
	if err := statedir.CheckDomain(name); err != nil {
		return nil, fault.Usage.Errorf("%w", err)
	}
	return &Store{name}, nil
}

// ListStores returns the names of those on this machine.
func ListStores() (names []string, err error) {
	entries, err := os.ReadDir(root())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list managed INT domains: %w", err)
	}
	for _, e := range entries {
		if statedir.CheckDomain(e.Name()) == nil {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// Name is that of the INT domain.
func (s *Store) Name() string { return s.name }

func root() string { return filepath.Join(statedir.Root(), "intents") }

func (s *Store) dir() string             { return filepath.Join(root(), s.name) }
func (s *Store) file(base string) string { return filepath.Join(s.dir(), base) }
func (s *Store) lock() (func(), error)   { return statedir.LockDir(s.dir()) }
func (s *Store) check() error            { return statedir.CheckInRoot(s.dir()) }
func (s *Store) replace(base string, b []byte) error {
	return renameio.WriteFile(s.file(base), b, 0o600)
}

// LogPath is the service's log.
func (s *Store) LogPath() string { return s.file(logFile) }

// FindService returns the process that is the service. None is the zero Process.
func (s *Store) FindService() (host.Process, error) {
	if err := s.check(); err != nil {
		return host.Process{}, err
	}
	return host.FindClaim(s.file(lockFile), s.file(pidFile))
}

// Claim makes this process the service. statedir.ErrLocked: there is one.
func (s *Store) Claim() (*host.Claim, error) {
	if err := statedir.MakeInRoot(s.dir()); err != nil {
		return nil, err
	}
	return host.NewClaim("INT management", s.file(lockFile), s.file(pidFile))
}

// readFile reads a file that only this user may have written. None is nil.
func (s *Store) readFile(base string) ([]byte, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	fd, err := statedir.Open(s.file(base), unix.O_RDONLY|unix.O_NONBLOCK)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), base)
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxFile {
		return nil, fmt.Errorf("%s is no file of ours", s.file(base))
	}
	return io.ReadAll(io.LimitReader(f, maxFile))
}

// read reads a file into v. ok is false if there is none.
func (s *Store) read(base string, v any) (ok bool, err error) {
	b, err := s.readFile(base)
	if err != nil || b == nil {
		return false, err
	}
	if err := json.Unmarshal(b, v); err != nil {
		return false, fmt.Errorf("%s makes no sense: %w (remove it to begin anew)", s.file(base), err)
	}
	return true, nil
}

// Wanted is what is wanted; nothing yet is the zero value.
func (s *Store) Wanted() (w Wanted, err error) {
	ok, err := s.read(wantedFile, &w)
	switch {
	case err != nil:
		return Wanted{}, fmt.Errorf("read what is wanted of INT domain %s: %w", s.name, err)
	case !ok:
		return Wanted{Version: Version}, nil
	case w.Version != Version:
		return Wanted{}, fmt.Errorf("%s is of another radar: version %d, this one knows %d", s.file(wantedFile), w.Version, Version)
	}
	if err := w.Check(); err != nil {
		return Wanted{}, fmt.Errorf("%s: %w", s.file(wantedFile), err)
	}
	return w, nil
}

// Change changes what is wanted. What makes no sense afterwards is not written.
func (s *Store) Change(change func(*Wanted) error) (Wanted, error) {
	unlock, err := s.lock()
	if err != nil {
		return Wanted{}, err
	}
	defer unlock()
	was, err := s.Wanted()
	if err != nil {
		return Wanted{}, err
	}
	w := was.clone()
	if err := change(&w); err != nil {
		return was, err
	}
	w.tidy(time.Now())
	if err := w.Check(); err != nil {
		return was, err
	}
	if reflect.DeepEqual(normal(was), normal(w)) {
		return was, nil
	}
	w.Generation++
	b, err := json.MarshalIndent(&w, "", "  ")
	if err == nil && len(b) > maxFile {
		err = errors.New("it is too long")
	}
	if err == nil {
		err = s.replace(wantedFile, append(b, '\n'))
	}
	if err != nil {
		return was, fmt.Errorf("write what is wanted of INT domain %s: %w", s.name, err)
	}
	return w, s.addEvents(changes(&was, &w))
}

// normal is a Wanted as it is read again: for comparing.
func normal(w Wanted) any {
	b, _ := json.Marshal(&w)
	var v any
	_ = json.Unmarshal(b, &v)
	return v
}

// clone is a Wanted of which nothing is shared with this one.
func (w *Wanted) clone() (c Wanted) {
	b, err := json.Marshal(w)
	if err == nil {
		err = json.Unmarshal(b, &c)
	}
	if err != nil {
		panic(err) // it was read from JSON
	}
	if c.Config.NodeIDs == nil {
		c.Config.NodeIDs = make(map[string]uint32)
	}
	return c
}

// tidy gives ids to devices that have none, and forgets intents that are long over. It keeps lists in order.
func (w *Wanted) tidy(now time.Time) {
	w.Version = Version
	w.Intents = slices.DeleteFunc(w.Intents, func(i Intent) bool { return i.isOver(now.Add(-keepExpired)) })
	SortIntents(w.Intents)
	if w.Config.NodeIDs == nil {
		w.Config.NodeIDs = make(map[string]uint32)
	}
	used := make(map[uint32]bool)
	names := w.Topology.deviceNames()
	for name, id := range w.Config.NodeIDs {
		if len(names) > 0 && !slices.Contains(names, name) {
			delete(w.Config.NodeIDs, name)
			continue
		}
		used[id] = true
	}
	next := uint32(1)
	for _, name := range names {
		if _, has := w.Config.NodeIDs[name]; has {
			continue
		}
		for used[next] {
			next++
		}
		w.Config.NodeIDs[name], used[next] = next, true
	}
}

// changes are the events of a change.
func changes(was, now *Wanted) (list []Event) {
	add := func(kind, of, format string, args ...any) {
		list = append(list, Event{Time: time.Now().UTC(), Kind: kind, Of: of, Text: fmt.Sprintf(format, args...)})
	}
	before := make(map[string]Intent)
	for _, i := range was.Intents {
		before[i.Name] = i
	}
	for _, i := range now.Intents {
		if old, is := before[i.Name]; !is {
			add("intent", i.Name, "intent %s is added: %v", i.Name, &i.Slice)
		} else if !reflect.DeepEqual(old, i) {
			add("intent", i.Name, "intent %s is changed: %v", i.Name, &i.Slice)
		}
		delete(before, i.Name)
	}
	for name := range before {
		add("intent", name, "intent %s is removed", name)
	}
	if !reflect.DeepEqual(was.Topology, now.Topology) {
		add("service", "", "the topology has %d nodes and %d links now", len(now.Topology.Nodes), len(now.Topology.Links))
	}
	if now.Running != was.Running {
		add("service", "", "%s", map[bool]string{true: "INT is wanted", false: "INT is not wanted any more"}[now.Running])
	}
	return list
}

// Status is what the service has written last; never is the zero value.
func (s *Store) Status() (st Status, err error) {
	ok, err := s.read(statusFile, &st)
	if err != nil {
		return Status{}, fmt.Errorf("read the status of INT domain %s: %w", s.name, err)
	}
	if !ok || st.Version != Version {
		return Status{}, nil
	}
	return st, nil
}

// ErrInUse says that INT is wanted, that devices may hold something of it, or that a service lives.
var ErrInUse = errors.New("INT is not off")

// saveStatus writes it. Only the service calls it.
func (s *Store) saveStatus(st *Status) error {
	st.Version, st.Written, st.PID = Version, time.Now().UTC(), os.Getpid()
	b, err := json.Marshal(st)
	if err == nil {
		err = s.replace(statusFile, b)
	}
	if err != nil {
		return fmt.Errorf("write the status of INT domain %s: %w", s.name, err)
	}
	return nil
}

// Events are those that are kept whose number is greater.
func (s *Store) Events(since uint64) (list []Event, err error) {
	b, err := s.readFile(eventsFile)
	if err != nil {
		return nil, fmt.Errorf("read events: %w", err)
	}
	for line := range bytes.Lines(b) {
		var e Event
		if json.Unmarshal(line, &e) == nil && e.Number > since {
			list = append(list, e)
		}
	}
	return list, nil
}

// addEvents adds to the file. The caller holds the lock.
func (s *Store) addEvents(add []Event) error {
	if len(add) == 0 {
		return nil
	}
	list, err := s.Events(0)
	if err != nil {
		return err
	}
	last := uint64(0)
	if len(list) > 0 {
		last = list[len(list)-1].Number
	}
	for i := range add {
		last++
		add[i].Number = last
	}
	list = append(list, add...)
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	for _, e := range list[max(0, len(list)-maxEvents):] {
		if err := enc.Encode(e); err != nil {
			return err
		}
	}
	if err := s.replace(eventsFile, b.Bytes()); err != nil {
		return fmt.Errorf("write events: %w", err)
	}
	return nil
}

// logEvents is addEvents for those who hold no lock.
func (s *Store) logEvents(add []Event) error {
	if len(add) == 0 {
		return nil
	}
	unlock, err := s.lock()
	if err != nil {
		return err
	}
	defer unlock()
	return s.addEvents(add)
}

// isUnused returns ErrInUse if what is kept is still needed. Under the lock nobody starts anything meanwhile.
func (s *Store) isUnused() error {
	w, err := s.Wanted()
	if err != nil {
		return err
	}
	st, err := s.Status()
	if err != nil {
		return err
	}
	p, err := s.FindService()
	if err != nil {
		return err
	}
	if w.Running || st.Holds() || p.PID != 0 {
		return ErrInUse
	}
	return nil
}

// Forget removes the files of an INT domain of which nothing is on any device.
func (s *Store) Forget() error {
	unlock, err := s.lock()
	if err != nil {
		return err
	}
	defer unlock()
	if err := s.isUnused(); err != nil {
		return err
	}
	for _, base := range []string{wantedFile, statusFile, eventsFile, lockFile, pidFile, logFile, statedir.LockFile} {
		if err := os.Remove(s.file(base)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove %s: %w", base, err)
		}
	}
	_ = os.Remove(s.dir())
	_ = os.Remove(filepath.Dir(s.dir()))
	return nil
}
