// SPDX-License-Identifier: Apache-2.0

package segments

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// file writes a recording of n packets of all forms and returns its only file of packets.
func file(t testing.TB, dir string, seed uint64, n int) string {
	t.Helper()
	w := create(t, dir, quiet)
	for g, i := newGenerator(seed), 0; i < n; i++ {
		if err := w.Add(g.packet(), &testScope{offset: base}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*", kindPackets+"*"+ending))
	if err != nil || len(files) == 0 {
		t.Fatalf("no file: %v", err)
	}
	return files[len(files)-1]
}

// answer is what a recording says, as text, and what is damaged.
func answer(t testing.TB, path string) (string, []Damage) {
	t.Helper()
	d, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	var b strings.Builder
	if err := d.Read(context.Background(), time.Time{}, time.Time{}, func(p *Packet) error {
		b.WriteString(show(p))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return b.String(), d.Damage()
}

// TestFlippedBits: of a file with a flipped bit, wherever that is, either damage is named, with its
// place, or the answer is the same. The file beside it is read.
func TestFlippedBits(t *testing.T) {
	dir := t.TempDir()
	path := file(t, dir, 3, 20)
	want, _ := answer(t, dir)
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(filepath.Dir(path), "packets-20990101T000000.000000000Z.parquet")
	if err := os.WriteFile(other, good, 0o600); err != nil {
		t.Fatal(err)
	}
	both, _ := answer(t, dir)
	same := 0
	step := 1 + len(good)*8/4000
	for bit := 0; bit < len(good)*8; bit += step {
		bad := bytes.Clone(good)
		bad[bit/8] ^= 1 << (bit % 8)
		if err := os.WriteFile(path, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		got, damage := answer(t, dir)
		switch {
		case got == both && len(damage) == 0:
			same++
		case got != want || len(damage) != 1 || damage[0].File != path || damage[0].Place == "" || damage[0].What == "":
			t.Fatalf("bit %d of byte %d: damage %v", bit%8, bit/8, damage)
		}
	}
	if same > 0 {
		t.Errorf("%d flipped bits are not noticed: every byte has a checksum", same)
	}
}

// TestTruncated: a file that ends anywhere is named, and nothing of it is read.
func TestTruncated(t *testing.T) {
	dir := t.TempDir()
	path := file(t, dir, 3, 20)
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for n := 0; n < len(good); n += 1 + len(good)/500 {
		if err := os.WriteFile(path, good[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		if got, damage := answer(t, dir); got != "" || len(damage) != 1 || damage[0].File != path {
			t.Fatalf("%d of %d bytes: damage %v", n, len(good), damage)
		}
	}
}

// TestForeign: what is no segment is named, and not waited for.
func TestForeign(t *testing.T) {
	dir := t.TempDir()
	path := file(t, dir, 3, 20)
	want, _ := answer(t, dir)
	folder := filepath.Dir(path)
	for name, make := range map[string]func(string) error{
		"empty.parquet":  func(p string) error { return os.WriteFile(p, nil, 0o600) },
		"text.parquet":   func(p string) error { return os.WriteFile(p, []byte(strings.Repeat("text ", 100)), 0o600) },
		"other.parquet":  func(p string) error { return os.WriteFile(p, []byte("PAR1\x15\x00\x01\x00\x00\x00PAR1"), 0o600) },
		"link.parquet":   func(p string) error { return os.Symlink(path, p) },
		"pipe.parquet":   func(p string) error { return unix.Mkfifo(p, 0o600) },
		"folder.parquet": func(p string) error { return os.Mkdir(p, 0o700) },
		"huge.parquet": func(p string) error { // a footer of 4 GB
			return os.WriteFile(p, append(binary.LittleEndian.AppendUint32([]byte("PAR1"), 1<<32-1), "PAR1"...), 0o600)
		},
	} {
		foreign := filepath.Join(folder, name)
		if err := make(foreign); err != nil {
			t.Fatal(err)
		}
		got, damage := answer(t, dir)
		if got != want || len(damage) != 1 || damage[0].File != foreign {
			t.Errorf("%s: damage %v", name, damage)
		}
		if err := os.Remove(foreign); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"lock.txt", ".packets-1.tmp"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(folder, filepath.Join(dir, "2026-01-01T00")); err != nil {
		t.Fatal(err)
	}
	if got, damage := answer(t, dir); got != want || len(damage) != 0 {
		t.Errorf("beside other names: damage %v", damage)
	}
}

// TestNewerVersion: a file of a later major version is refused, and named with its version.
func TestNewerVersion(t *testing.T) {
	for text, want := range map[string]string{"2.0": "its schema has version 2.0; this radar reads versions up to 1", "1.7": "", "": "no version"} {
		err := checkVersion(text)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("version %q: %v", text, err)
		}
	}
	d := &Dir{dir: "/records"}
	d.damaged("2026-01-01T00/packets-x.parquet", checkVersion("2.0"))
	if got := d.Damage()[0].String(); !strings.HasPrefix(got, "/records/2026-01-01T00/packets-x.parquet: footer: its schema has version 2.0") {
		t.Error(got)
	}
}

// fixSums makes the checksums of a file those of its bytes: of the first row group, and of the footer.
func fixSums(b []byte) []byte {
	const groups, footer = "parquet.crc32c.row_groups", "parquet.crc32c.footer"
	if len(b) < 12 {
		return b
	}
	n := len(b) - 8 - int(binary.LittleEndian.Uint32(b[len(b)-8:]))
	g, f := bytes.LastIndex(b, []byte(groups)), bytes.LastIndex(b, []byte(footer))
	if n < 4 || n > len(b)-8 || g < n || f < n || f+len(footer)+10 > len(b) || g+len(groups)+10 > len(b) {
		return b
	}
	table := crc32.MakeTable(crc32.Castagnoli)
	copy(b[g+len(groups)+2:], fmt.Sprintf("%08x", crc32.Checksum(b[4:n], table)))
	copy(b[f+len(footer)+2:], "00000000")
	copy(b[f+len(footer)+2:], fmt.Sprintf("%08x", crc32.Checksum(b[n:], table)))
	return b
}
