// SPDX-License-Identifier: Apache-2.0

package segments

import (
	"bytes"
	"context"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vnetradar/radar/pkg/store/parquet"
)

// table are a file's columns: those of its first row group.
type table struct {
	schema parquet.Schema
	values []*parquet.Values
}

// rewrite changes a file as another program could: all its checksums are right.
func rewrite(t testing.TB, path string, schema parquet.Schema, change func(*table)) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	r, err := parquet.OpenReader(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	g, err := r.Read(0)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	f, lens := &table{schema: slices.Clone(schema)}, make(map[string]*parquet.Lens)
	for i := range f.schema {
		v, err := g.Column(&f.schema[i])
		if err != nil {
			t.Fatal(err)
		}
		f.values = append(f.values, v)
		if list := f.schema[i].List; list != "" && v.Lens != nil {
			lens[list] = &parquet.Lens{Of: v.Lens}
		}
	}
	change(f)
	var out bytes.Buffer
	w, err := parquet.NewWriter(&out, f.schema)
	if err != nil {
		t.Fatal(err)
	}
	w.Begin(r.Groups[0].Rows)
	for i, v := range f.values {
		switch l := lens[f.schema[i].List]; {
		case v.Ints == nil && v.Index == nil:
			w.Absent(l, r.Groups[0].Rows)
		case f.schema[i].Type == parquet.Text:
			w.Texts(l, v.Index, v.Dict)
		default:
			w.Ints(l, v.Ints)
		}
	}
	if err := w.End(); err != nil {
		t.Fatal(err)
	}
	var meta []parquet.KeyValue
	for k, v := range r.Meta {
		if strings.HasPrefix(k, "radar.") {
			meta = append(meta, parquet.KeyValue{Key: k, Value: v})
		}
	}
	if err := w.Close("another program", meta); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestForeignPaths: paths whose hops cannot follow each other are damage.
func TestForeignPaths(t *testing.T) {
	for text, ok := range map[string]bool{
		`[]`: true, `[[1,2,3]]`: true, `[[1,2,3],[1,2,3]]`: true, `[[1,2,3,8,-1],[1,2,3,8,0]]`: true,
		`[[1,2,3,16,0,"a"],[1,2,3,16,0,"b"]]`: true,
		`[[1,2,3,0,5000]]`:                    false,
		`[[1,2,3,0,-2]]`:                      false,
		`[[1,2,3,8,0]]`:                       false,
		`[[1,2,3,8,65535],[1,2,3,8,65535]]`:   false,
		`[[1,2,3,8,-1],[1,2,3]]`:              false,
		`[[1,2,3],[1,2,3,8,0]]`:               false,
		`[[1,2,3,16,0,"a"],[1,2,3]]`:          false,
		`[[1,2,3],[1,2,3,16,0,"a"]]`:          false,
		`[` + strings.Repeat(" ", mostPlaces): false,
	} {
		if _, err := parsePlaces(text); (err == nil) != ok {
			t.Errorf("%.40s: %v", text, err)
		}
	}
	dir := t.TempDir()
	path := file(t, dir, 3, 20)
	rewrite(t, path, packetSchema, func(*table) {})
	if got, damage := answer(t, dir); got == "" || len(damage) > 0 {
		t.Fatalf("written again: %q, damage %v", got, damage)
	}
	rewrite(t, path, packetSchema, func(f *table) {
		v := f.values[colTree]
		v.Index, v.Ints = nil, make([]int64, len(f.values[colT].Ints))
		for i := range v.Ints {
			v.Ints[i] = 1
		}
	})
	if got, damage := answer(t, dir); got != "" || len(damage) != 1 || !strings.Contains(damage[0].Place, "tree") {
		t.Errorf("all rows are trees: damage %v", damage)
	}
}

// TestForeignNulls: where a file lacks a value of a column that has all of them, it is damaged.
func TestForeignNulls(t *testing.T) {
	for i, c := range packetSchema {
		if c.Optional || unread[i] {
			continue
		}
		dir := t.TempDir()
		rewrite(t, file(t, dir, 3, 200), packetSchema, func(f *table) { lack(t, f, i) })
		if got, damage := answer(t, dir); got != "" || len(damage) != 1 || !strings.Contains(damage[0].Place, c.Path()) && !strings.Contains(damage[0].What, c.Path()) {
			t.Errorf("%s: damage %v", c.Path(), damage)
		}
	}
	for i, c := range eventSchema {
		dir := t.TempDir()
		w := create(t, dir, quiet)
		for range 2 {
			if err := w.AddEvent(time.Unix(0, base), "attach", map[string]any{"node": "h"}); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		files, err := filepath.Glob(filepath.Join(dir, "*", kindEvents+"*"))
		if err != nil || len(files) != 1 {
			t.Fatal(files, err)
		}
		rewrite(t, files[0], eventSchema, func(f *table) { lack(t, f, i) })
		d, err := Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		n := 0
		if err := d.Events(context.Background(), func(Event) error { n++; return nil }); err != nil || n != 0 || len(d.Damage()) != 1 {
			t.Errorf("%s: %d events, %v, damage %v", c.Name, n, err, d.Damage())
		}
	}
}

// lack takes the first value out of a column.
func lack(t *testing.T, f *table, i int) {
	t.Helper()
	f.schema[i].Optional = true
	switch v := f.values[i]; {
	case len(v.Index) > 0:
		v.Index[0] = parquet.NullText
	case len(v.Ints) > 0:
		v.Ints[0] = parquet.Null
	default:
		t.Fatalf("column %s is empty", f.schema[i].Path())
	}
}

// TestOpenBytes: the memory of row groups that are open is counted, whatever the number of their rows is.
func TestOpenBytes(t *testing.T) {
	dir := t.TempDir()
	file(t, dir, 3, 200)
	d, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	parts := d.parts(math.MinInt64, math.MaxInt64)
	m := &merge{d: d, low: math.MinInt64, high: math.MaxInt64, parts: parts}
	most := int64(0)
	for {
		g, _, err := m.next()
		if err != nil {
			t.Fatal(err)
		}
		if g == nil {
			break
		}
		most = max(most, m.size)
	}
	if most < 200*100 || m.size != 0 || m.rows != 0 {
		t.Errorf("200 packets take %d bytes; in the end %d bytes and %d rows", most, m.size, m.rows)
	}
	m = &merge{d: d, low: math.MinInt64, high: math.MaxInt64, parts: parts, size: mostOpenBytes}
	if _, _, err := m.next(); err == nil || !strings.Contains(err.Error(), "bytes of memory") {
		t.Errorf("beyond the bound: %v", err)
	}
}

// TestForeignLists: a list whose first column has no value at all is damage to who reads single columns.
func TestForeignLists(t *testing.T) {
	dir := t.TempDir()
	path := file(t, dir, 3, 200)
	for _, empty := range []bool{false, true} {
		if empty {
			rewrite(t, path, packetSchema, func(f *table) {
				f.schema[colHopNode].Optional = true
				v := f.values[colHopNode]
				v.Index, v.Dict = nil, nil
			})
		}
		d, err := Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		var mem parquet.Memory
		defer mem.Close()
		f := d.Load(d.Places()[0], &mem)
		if f == nil {
			t.Fatal(d.Damage())
		}
		lens, err := f.Lens(hops)
		_, columnErr := f.Column(hops, "node")
		if empty && (err == nil || columnErr == nil || !strings.Contains(err.Error(), "hops")) || !empty && (err != nil || columnErr != nil || len(lens) == 0) {
			t.Errorf("%v: %d lengths, %v, %v", empty, len(lens), err, columnErr)
		}
	}
}
