// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
)

// numbered is a datagram with a number in it.
func numbered(t *testing.T, n uint32) Packet {
	t.Helper()
	b, err := AppendUDP(nil, netip.MustParseAddrPort("10.0.0.1:1"), netip.MustParseAddrPort("10.0.0.2:2"), binary.BigEndian.AppendUint32(nil, n))
	if err != nil {
		t.Fatal(err)
	}
	return Packet{noon, b}
}

// numbersOf checks what readers see of a store and returns first and last number.
func numbersOf(t *testing.T, name string) (first, last, count uint64) {
	t.Helper()
	info, err := Load(name)
	if err != nil {
		t.Fatal(err)
	}
	first = info.First
	err = info.Each(name, func(number uint64, p Packet) error {
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
	s, err := Create("d", keep, Info{Epoch: 7})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Create("d", keep, Info{}); !errors.Is(err, ErrRunning) {
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
	s, err := Create("d", MinKeep, Info{})
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

// TestGaps: what sources number and does not come is counted; late ones and sources that do
// not count are not.
func TestGaps(t *testing.T) {
	tr := Translator{Emit: func(*Reported) {}}
	var g gaps
	ip := frames(t)["tr20-ex-baseline-ipv4"]
	add := func(numbers ...uint32) {
		for _, n := range numbers {
			b := append([]byte(nil), ip...)
			binary.BigEndian.PutUint32(b[28:], binary.BigEndian.Uint32(b[28:])&^0x3fffff|n&0x3fffff)
			m := tr.Translate(Packet{noon, b}, 0)
			if m.Group.Sequence != n&0x3fffff {
				t.Fatalf("sequence %d, want %d", m.Group.Sequence, n)
			}
			g.add(m)
		}
	}
	for _, c := range []struct {
		numbers []uint32
		lost    uint64
	}{
		{[]uint32{5, 6, 7}, 0},
		{[]uint32{10}, 2},         // 8, 9
		{[]uint32{9}, 1},          // was late
		{[]uint32{11, 11, 11}, 1}, // a source that does not count
		{[]uint32{9, 9}, 0},       // late again: no more than was lost
		{[]uint32{2000000}, 0},    // far ahead: is it one that somebody has made up?
		{[]uint32{2000001}, 0},    // no: begun anew
		{[]uint32{1, 2, 5}, 2},    // and again
	} {
		add(c.numbers...)
		if g.lost != c.lost {
			t.Errorf("after %v: %d lost, want %d", c.numbers, g.lost, c.lost)
		}
	}
	g = gaps{}
	add(0x3ffffe, 0x3fffff, 0, 1, 3) // round the end
	if g.lost != 1 {
		t.Errorf("round the end: %d lost, want 1", g.lost)
	}
}
