// SPDX-License-Identifier: Apache-2.0

package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/google/renameio/v2"
	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/host/statedir"
	"github.com/vnetradar/radar/pkg/telemetry/collect"
)

// MinKeep is the least that a Store may keep, bytes.
const MinKeep = 1 << 16

// storeFiles is in how many files what is kept lies: the oldest of them goes at once.
const storeFiles = 8

const (
	filePrefix, fileSuffix = "reports-", ".pcap"
	description            = "collector.json"
	lockFile               = "lock"
)

// ErrRunning: the domain has a collector.
var ErrRunning = errors.New("another «collect» has them")

// ErrNone: no reports have been collected for the domain.
var ErrNone = errors.New("no reports")

// Dir is where a domain's reports lie (0700).
func Dir(name string) string { return filepath.Join(root(), name) }

func root() string { return filepath.Join(statedir.Root(), "reports") }

// Store keeps packets in capture files. One process has it at a time.
type Store struct {
	info  collect.Info
	dir   string
	lock  int
	limit int64    // bytes of one file
	file  *os.File // nil: there was no room for one
	pcap  *pcapgo.Writer
	size  int64  // of the packets in file and out
	next  uint64 // number of the next packet

	out     bytes.Buffer // what is not in file yet
	held    uint64       // packets in out
	written int64        // bytes of file, packets that are whole
	kept    int64        // size without what is in out
	saved   []byte       // the description as it is
}

// Create takes the domain's directory and empties it. keep is how many bytes are kept at
// most. It returns ErrRunning if another process has it.
func Create(name string, keep int64, info collect.Info) (*Store, error) {
	if err := statedir.CheckDomain(name); err != nil {
		return nil, err
	}
	if err := statedir.Make(filepath.Dir(Dir(name))); err != nil {
		return nil, fmt.Errorf("directory for reports: %w", err)
	}
	dir := Dir(name)
	if err := statedir.Make(dir); err != nil {
		return nil, fmt.Errorf("directory for reports: %w", err)
	}
	lock, err := take(dir)
	if err != nil {
		return nil, fmt.Errorf("reports of domain %s: %w", name, err)
	}
	info.Files = nil
	s := &Store{info: info, dir: dir, lock: lock, limit: max(keep, MinKeep) / storeFiles}
	for _, step := range []func() error{s.empty, s.begin, s.Save} {
		if err := step(); err != nil {
			if s.file != nil {
				s.file.Close()
			}
			unix.Close(lock)
			return nil, err
		}
	}
	return s, nil
}

// take locks a directory for reports.
func take(dir string) (lock int, err error) {
	// Whoever forgets reports removes the file while it has the lock.
	lock, err = statedir.TryLock(filepath.Join(dir, lockFile), unix.O_CREAT|unix.O_RDWR)
	if errors.Is(err, statedir.ErrLocked) {
		return -1, ErrRunning
	}
	if err != nil {
		return -1, fmt.Errorf("lock: %w", err)
	}
	return lock, nil
}

// empty removes what a collector before has kept.
func (s *Store) empty() error {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return fmt.Errorf("empty reports: %w", err)
	}
	for _, e := range entries {
		if e.Name() != lockFile {
			if err := os.Remove(filepath.Join(s.dir, e.Name())); err != nil {
				return fmt.Errorf("empty reports: %w", err)
			}
		}
	}
	return nil
}

// begin begins a new file, and removes the oldest if there are too many.
func (s *Store) begin() error {
	if err := s.end(); err != nil {
		return err
	}
	name := fmt.Sprintf("%s%08x-%d%s", filePrefix, s.info.Epoch, s.next, fileSuffix) // no file of another collector's
	fd, err := statedir.Open(filepath.Join(s.dir, name), unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY)
	if err != nil {
		return fmt.Errorf("begin file for reports: %w", err)
	}
	s.file = os.NewFile(uintptr(fd), name)
	s.size, s.kept, s.written = 0, 0, 0
	if err := s.header(); err != nil {
		return err
	}
	s.info.Files = append(s.info.Files, collect.File{Name: name, First: s.next})
	if len(s.info.Files) > storeFiles {
		if err := os.Remove(filepath.Join(s.dir, s.info.Files[0].Name)); err != nil {
			return fmt.Errorf("remove oldest reports: %w", err)
		}
		s.info.Files = slices.Delete(s.info.Files, 0, 1)
	}
	s.info.First = s.info.Files[0].First
	return nil
}

// header begins what is to be written to a file that has nothing yet.
func (s *Store) header() error {
	s.pcap = pcapgo.NewWriterNanos(&s.out)
	if err := s.pcap.WriteFileHeader(1<<16, layers.LinkTypeRaw); err != nil {
		return fmt.Errorf("begin file for reports: %w", err)
	}
	return nil
}

func (s *Store) end() error {
	if s.file == nil {
		return nil
	}
	err := errors.Join(s.flush(), s.file.Close())
	s.file = nil
	s.out.Reset()
	return err
}

// flushAt is how many bytes wait for a write at most.
const flushAt = 1 << 16

// flush writes what waits. Where there is no room for it, the file ends with its last whole packet,
// the packets that waited are not kept, and others get their numbers, which no reader has seen.
func (s *Store) flush() error {
	if s.file == nil || s.out.Len() == 0 {
		return nil
	}
	n, err := s.file.WriteAt(s.out.Bytes(), s.written)
	if err == nil {
		s.written, s.kept, s.held = s.written+int64(n), s.size, 0
		s.out.Reset()
		return nil
	}
	err = errors.Join(fmt.Errorf("keep reports: %w", err), s.file.Truncate(s.written))
	s.info.NotKept += s.held
	s.next, s.size, s.held = s.next-s.held, s.kept, 0
	if s.out.Reset(); s.written == 0 {
		err = errors.Join(err, s.header())
	}
	return err
}

// Add keeps a packet. It is in the file after the next Save at the latest. After an error that
// is ENOSPC or EDQUOT the store can go on.
func (s *Store) Add(p collect.Packet) error {
	const head = 16 // of a packet, in the file
	described, err := s.room(head + int64(len(p.IP)))
	if err != nil {
		s.info.NotKept++
		return err
	}
	info := gopacket.CaptureInfo{Timestamp: p.At, CaptureLength: len(p.IP), Length: len(p.IP)}
	if err := s.pcap.WritePacket(info, p.IP); err != nil {
		return fmt.Errorf("keep a report: %w", err)
	}
	s.size += head + int64(len(p.IP))
	s.next++
	if s.held++; s.out.Len() >= flushAt {
		return errors.Join(described, s.flush())
	}
	return described
}

// room makes sure that there is a file for a packet of so many bytes. described is what describing
// a new one came to.
func (s *Store) room(n int64) (described, err error) {
	if s.file != nil && (s.size == 0 || s.size+n <= s.limit) {
		return nil, nil
	}
	if err := s.flush(); err != nil {
		return nil, err
	}
	if err := s.begin(); err != nil {
		return nil, err
	}
	return s.save(), nil
}

// Info describes what is kept. What the caller writes into it readers see after the next Save.
func (s *Store) Info() *collect.Info { return &s.info }

// Next is the number that the next packet gets.
func (s *Store) Next() uint64 { return s.next }

// Save makes all that was added, and what Info has, visible to readers.
func (s *Store) Save() error {
	return errors.Join(s.flush(), s.save())
}

func (s *Store) save() error {
	s.info.Next = s.next
	b, err := json.Marshal(&s.info)
	if err != nil {
		return fmt.Errorf("describe reports: %w", err)
	}
	if bytes.Equal(b, s.saved) {
		return nil
	}
	if err := renameio.WriteFile(filepath.Join(s.dir, description), append(b, '\n'), 0o600, renameio.WithTempDir(s.dir)); err != nil {
		return fmt.Errorf("describe reports: %w", err)
	}
	s.saved = b
	return nil
}

// Close saves, and lets others have the directory. What is kept stays.
func (s *Store) Close() error {
	s.info.PID = 0
	return errors.Join(s.Save(), s.end(), unix.Close(s.lock))
}

// Remove removes what is kept for a domain, if nobody collects; ErrNone if there is nothing.
func Remove(name string) error {
	dir := Dir(name)
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return ErrNone
	}
	if err := statedir.Check(dir); err != nil {
		return fmt.Errorf("directory for reports: %w", err)
	}
	lock, err := take(dir)
	if err != nil {
		return fmt.Errorf("reports of domain %s: %w", name, err)
	}
	defer unix.Close(lock)
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("remove reports: %w", err)
	}
	_ = os.Remove(filepath.Dir(dir)) // stays while there are others
	return nil
}
