// SPDX-License-Identifier: Apache-2.0

package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/telemetry/collect"
)

// Load reads what is known of a domain's reports. ErrNone: there are none.
func Load(name string) (*collect.Info, error) {
	b, err := os.ReadFile(filepath.Join(Dir(name), description))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNone
	}
	if err != nil {
		return nil, fmt.Errorf("read description of reports: %w", err)
	}
	var info collect.Info
	if err := json.Unmarshal(b, &info); err != nil {
		return nil, fmt.Errorf("description of reports %s: %w", filepath.Join(Dir(name), description), err)
	}
	return &info, nil
}

// Each calls fn for every packet that is kept for a domain, oldest first, with its number; it is valid until fn
// returns. info is what Load has returned. A file that has gone meanwhile is passed over, one that is being written
// ends where it does.
func Each(name string, info *collect.Info, fn func(number uint64, p collect.Packet) error) error {
	for _, f := range info.Files {
		if err := eachOf(filepath.Join(Dir(name), f.Name), f.First, fn); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("read reports: %w", err)
		}
	}
	return nil
}

// Packets calls fn for every packet that what is kept for a domain tells of, oldest first; it is valid until fn
// returns. info is what Load has returned. numbers gives nodes and ports theirs. Of packets that have a story that
// is emitted, with what reports add to it; s may be nil.
func Packets(name string, info *collect.Info, s collect.Stories, numbers *packet.Registry, fn func(*collect.Reported)) error {
	t, err := info.Translator()
	if err != nil {
		return err
	}
	t.Emit, t.Stories, t.Numbers = fn, s, numbers
	err = Each(name, info, func(number uint64, p collect.Packet) error {
		t.Translate(p, number)
		return nil
	})
	t.End()
	return err
}

// CapturePackets is Packets of a capture file at path that nobody keeps. info says how it is to be read. counts are of its
// reports.
func CapturePackets(path string, info *collect.Info, numbers *packet.Registry, fn func(*collect.Reported)) (datagrams uint64, counts collect.Counts, err error) {
	t, err := info.Translator()
	if err != nil {
		return 0, counts, err
	}
	file, err := os.Open(path)
	if err != nil {
		return 0, counts, err
	}
	defer file.Close()
	capture, err := collect.OpenCapture(file)
	if err != nil {
		return 0, counts, fmt.Errorf("read capture %s: %w", path, err)
	}
	t.Emit, t.Numbers = fn, numbers
	err = eachIn(capture, func(p collect.Packet) error {
		t.Translate(p, datagrams)
		datagrams++
		return nil
	})
	t.End()
	if err != nil {
		err = fmt.Errorf("read capture %s: %w", path, err)
	}
	return datagrams, t.Counts, err
}

func eachOf(path string, number uint64, fn func(uint64, collect.Packet) error) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	capture, err := collect.OpenCapture(file)
	if err != nil {
		return nil // nothing but a part of the header yet
	}
	err = eachIn(capture, func(p collect.Packet) error {
		number++
		return fn(number-1, p)
	})
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// eachIn calls fn for every packet of a capture, which may end in the middle of one.
func eachIn(capture *collect.Capture, fn func(collect.Packet) error) error {
	for {
		p, err := capture.NextPacket()
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil
		}
		if err == nil {
			err = fn(p)
		}
		if err != nil {
			return err
		}
	}
}

// List returns the domains of which reports are kept.
func List() ([]string, error) {
	entries, err := os.ReadDir(root())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list reports: %w", err)
	}
	var names []string
	for _, e := range entries {
		if _, err := os.Stat(filepath.Join(Dir(e.Name()), description)); err == nil {
			names = append(names, e.Name())
		}
	}
	return names, nil
}
