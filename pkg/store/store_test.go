// SPDX-License-Identifier: Apache-2.0

package store

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/vnetradar/radar/pkg/telemetry/collect"
)

var noon = time.Unix(1795392000, 123456789)

// numbered is a datagram with a number in it.
func numbered(t *testing.T, n uint32) collect.Packet {
	t.Helper()
	b, err := collect.AppendUDP(nil, netip.MustParseAddrPort("10.0.0.1:1"), netip.MustParseAddrPort("10.0.0.2:2"), binary.BigEndian.AppendUint32(nil, n))
	if err != nil {
		t.Fatal(err)
	}
	return collect.Packet{At: noon, IP: b}
}

// numbersOf checks what readers see of a store and returns first and last number.
func numbersOf(t *testing.T, name string) (first, last, count uint64) {
	t.Helper()
	info, err := Load(name)
	if err != nil {
		t.Fatal(err)
	}
	first = info.First
	err = Each(name, info, func(number uint64, p collect.Packet) error {
		if want := first + count; number != want || uint64(binary.BigEndian.Uint32(p.IP[28:])) != want {
			t.Fatalf("packet %d has number %d and holds %d", want, number, binary.BigEndian.Uint32(p.IP[28:]))
		}
		last = number
		count++
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return first, last, count
}

// TestStore: the newest packets are kept, in their order, within the bytes that were asked
// for; a reader sees all that were saved, also after the collector's end.
func TestStore(t *testing.T) {
	t.Setenv("RADAR_STATE_DIR", t.TempDir())
	const keep = 1 << 17
	s, err := Create("d", keep, collect.Info{Epoch: 7})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Create("d", keep, collect.Info{}); !errors.Is(err, ErrRunning) {
		t.Errorf("a second collector: %v", err)
	}
	const n = 20000
	for i := range uint32(n) {
		if err := s.Add(numbered(t, i)); err != nil {
			t.Fatal(err)
		}
		if i == 100 {
			if err := s.Save(); err != nil {
				t.Fatal(err)
			}
			if first, last, _ := numbersOf(t, "d"); first != 0 || last != 100 {
				t.Errorf("after 101 packets readers see %d to %d", first, last)
			}
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	first, last, count := numbersOf(t, "d")
	if last != n-1 || first == 0 || count != last-first+1 {
		t.Errorf("kept %d to %d, %d packets", first, last, count)
	}
	size := int64(0)
	files, err := filepath.Glob(filepath.Join(Dir("d"), "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		i, err := os.Stat(f)
		if err != nil {
			t.Fatal(err)
		}
		if i.Mode().Perm() != 0o600 {
			t.Errorf("%s is %v", f, i.Mode())
		}
		size += i.Size()
	}
	if size > keep+4096 || size < keep/2 {
		t.Errorf("%d bytes are kept of %d", size, keep)
	}
	if err := Remove("d"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Dir(Dir("d"))); !os.IsNotExist(err) {
		t.Errorf("something is left: %v", err)
	}
	if _, err := Load("d"); !errors.Is(err, ErrNone) {
		t.Errorf("load what was removed: %v", err)
	}
}

// TestHalfWritten: a file may end anywhere, as that of a collector that is killed does.
func TestHalfWritten(t *testing.T) {
	t.Setenv("RADAR_STATE_DIR", t.TempDir())
	s, err := Create("d", MinKeep, collect.Info{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range uint32(3) {
		if err := s.Add(numbered(t, i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(Dir("d"), "reports-00000000-0.pcap")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for cut := len(whole); cut >= 0; cut-- {
		if err := os.Truncate(path, int64(cut)); err != nil {
			t.Fatal(err)
		}
		want := uint64(max(cut-24, 0) / 48) // a packet has 16 bytes before its 32
		if _, _, count := numbersOf(t, "d"); count != want {
			t.Errorf("cut to %d bytes: %d packets, want %d", cut, count, want)
		}
	}
}
