// SPDX-License-Identifier: Apache-2.0

package answer

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/vnetradar/radar/pkg/answer/note"
	"github.com/vnetradar/radar/pkg/record"
)

// timesOf are the times of records that are selected, and the notes.
func timesOf(t *testing.T, s *Sources, selected *Selection) (times []int64, notes []Note) {
	t.Helper()
	notes, err := s.Records(t.Context(), selected, func(r *record.Record) error { times = append(times, r.TNs); return nil })
	if err != nil {
		t.Fatal(err)
	}
	return times, notes
}

// TestFirst: of the oldest packets no source gives, nor keeps, more than are asked for, and notes are said as ever.
func TestFirst(t *testing.T) {
	name := nothingAttached(t)
	if err := keep(t, name, 8).Close(); err != nil {
		t.Fatal(err)
	}
	reports, err := OpenReports(name, nil)
	if err != nil {
		t.Fatal(err)
	}
	r := recordingOf(t, "left", "a", "b", time.Unix(1_700_000_000, 500_000), 6)
	files, err := filepath.Glob(filepath.Join(r.Path, "*", "*.parquet"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	if err := os.WriteFile(files[0]+".parquet", make([]byte, 100), 0o600); err != nil {
		t.Fatal(err)
	}
	if r, err = ReadRecorded(r.Path); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Dir.Close)
	again := func() *Recorded { return &Recorded{Path: r.Path, Recording: r.Again()} }
	for what, of := range map[string]func() *Sources{
		"reports":   func() *Sources { return &Sources{list: []Source{reports}} },
		"recording": func() *Sources { return &Sources{list: []Source{again()}} },
		"both":      func() *Sources { return &Sources{list: []Source{again(), reports}} },
	} {
		all, said := timesOf(t, of(), &Selection{})
		if what != "reports" && !slices.ContainsFunc(said, func(n Note) bool { _, is := n.(note.SegmentDamaged); return is }) {
			t.Errorf("%s: no damage in %+v", what, said)
		}
		for _, selected := range []*Selection{{First: 1}, {First: 3}, {First: 100}, {First: 2, Last: 4}} {
			want := all
			if selected.Last > 0 {
				want = all[len(all)-selected.Last:]
			}
			times, notes := timesOf(t, of(), selected)
			if want = want[:min(selected.First, len(want))]; !slices.Equal(times, want) || !reflect.DeepEqual(notes, said) {
				t.Errorf("%s, %+v: %v, %+v; want %v, %+v", what, selected, times, notes, want, said)
			}
		}
		for _, source := range of().list {
			n := 0
			if _, err := source.Records(t.Context(), &Selection{First: 2}, func(*record.Record) error { n++; return nil }); n != 2 || err != nil {
				t.Errorf("%s: %T gave %d, %v", what, source, n, err)
			}
		}
	}
}
