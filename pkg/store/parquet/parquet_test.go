// SPDX-License-Identifier: Apache-2.0

package parquet

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// TestColumns: values of every type and encoding come back, with and without nulls, of rows and of lists.
func TestColumns(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		rows := 1 + rng.IntN(400)
		lens := &Lens{Of: make([]uint32, rows)}
		entries := 0
		for i := range lens.Of {
			lens.Of[i] = uint32(rng.IntN(4) * rng.IntN(2))
			entries += int(lens.Of[i])
		}
		var schema Schema
		var ints [][]int64
		var texts [][]uint32
		dict := []string{"", "a", "bb"}[:1+rng.IntN(3)]
		for _, list := range []string{"", "list"} {
			n := rows
			if list != "" {
				n = entries
			}
			for _, c := range []Column{{Type: Bool}, {Type: Int}, {Type: Int, Encoding: Delta}, {Type: Int, Encoding: Split}, {Type: Long}, {Type: Long, Encoding: Delta}, {Type: Long, Encoding: Split}, {Type: Text}} {
				c.List, c.Name, c.Optional = list, fmt.Sprint("c", len(schema)), rng.IntN(2) == 0
				schema = append(schema, c)
				v, x := column(rng, c, n, len(dict))
				ints, texts = append(ints, v), append(texts, x)
			}
		}
		var file bytes.Buffer
		w, err := NewWriter(&file, schema)
		if err != nil {
			t.Fatal(err)
		}
		w.Begin(rows)
		for i, c := range schema {
			l := lens
			if c.List == "" {
				l = nil
			}
			if c.Type == Text {
				w.Texts(l, texts[i], dict)
			} else {
				w.Ints(l, ints[i])
			}
		}
		if err := w.End(); err != nil {
			t.Fatal(err)
		}
		if err := w.Close("test", []KeyValue{{"key", "value"}}); err != nil {
			t.Fatal(err)
		}
		check(t, file.Bytes(), schema, ints, texts, dict, lens.Of)
	}
}

// column makes n values.
func column(rng *rand.Rand, c Column, n, words int) (v []int64, x []uint32) {
	nulls, width := 1+rng.IntN(4), rng.IntN(64)
	for range n {
		null := c.Optional && rng.IntN(nulls) == 0
		value := int64(rng.Uint64() >> width)
		switch c.Type {
		case Int:
			value = int64(int32(value))
		case Bool:
			value &= 1
		}
		if value == Null {
			value = math.MaxInt64
		}
		index := uint32(rng.IntN(words))
		if null {
			value, index = Null, NullText
		}
		v, x = append(v, value), append(x, index)
	}
	return v, x
}

func check(t *testing.T, file []byte, schema Schema, ints [][]int64, texts [][]uint32, dict []string, lens []uint32) {
	t.Helper()
	f, err := OpenReader(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	if f.Meta["key"] != "value" || f.Rows != int64(len(lens)) || len(f.Groups) != 1 {
		t.Errorf("%v, %d rows, %d groups", f.Meta, f.Rows, len(f.Groups))
	}
	g, err := f.Read(0)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	checkColumns(t, f, g, schema, ints, texts, dict, lens)
	var m Memory
	defer m.Close()
	for range 2 { // the memory is used again
		if g, err = f.Open(0, &m); err != nil {
			t.Fatal(err)
		}
		checkColumns(t, f, g, schema, ints, texts, dict, lens)
	}
	checkDamaged(t, file, f, schema, ints)
}

// checkDamaged flips a bit in each column: that one alone is damaged.
func checkDamaged(t *testing.T, file []byte, f *Reader, schema Schema, ints [][]int64) {
	t.Helper()
	var m Memory
	defer m.Close()
	for i, k := range f.Groups[0].chunks {
		bad, begin := bytes.Clone(file), k.at
		if k.dict != 0 {
			begin = k.dict
		}
		bad[begin+k.compressed/2] ^= 4
		f, err := OpenReader(bytes.NewReader(bad), int64(len(bad)))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Read(0); err == nil {
			t.Errorf("column %d is damaged, and the row group is read", i)
		}
		g, err := f.Open(0, &m)
		if err != nil {
			t.Fatal(err)
		}
		for at, c := range schema {
			none := c.Optional && !slices.ContainsFunc(ints[at], func(v int64) bool { return v != Null })
			_, err := g.Column(&c)
			if want := fmt.Sprintf("row group 0: column %s: its checksum differs: it is damaged", c.Path()); (at == i && !none) != (err != nil) || err != nil && err.Error() != want {
				t.Errorf("column %d is damaged: %d: %v", i, at, err)
			}
		}
	}
}

func checkColumns(t *testing.T, f *Reader, g *Group, schema Schema, ints [][]int64, texts [][]uint32, dict []string, lens []uint32) {
	t.Helper()
	for i, c := range schema {
		v, err := g.Column(&c)
		if err != nil {
			t.Fatalf("%+v: %v", c, err)
		}
		none := c.Optional && !slices.ContainsFunc(ints[i], func(v int64) bool { return v != Null })
		switch {
		case none:
			if v.Ints != nil || v.Index != nil {
				t.Fatalf("%+v has values", c)
			}
			continue
		case c.Type == Text && (!slices.Equal(v.Index, texts[i]) || !slices.Equal(v.Dict, dict)), c.Type != Text && !slices.Equal(v.Ints, ints[i]):
			t.Fatalf("%+v: %v %v, want %v %v", c, v.Ints, v.Index, ints[i], texts[i])
		case c.List != "" && !slices.Equal(v.Lens, lens):
			t.Fatalf("%+v: lengths %v, want %v", c, v.Lens, lens)
		}
		if low, high, ok := f.Bounds(0, c.Path()); ok && (low != lowest(ints[i]) || high != slices.Max(ints[i])) {
			t.Fatalf("%+v: from %d to %d", c, low, high)
		}
	}
	if v, err := g.Column(&Column{Name: "none", Type: Int}); v != nil || err != nil {
		t.Errorf("a column that is not there: %v, %v", v, err)
	}
}

func lowest(values []int64) int64 {
	low := int64(math.MaxInt64)
	for _, v := range values {
		if v != Null {
			low = min(low, v)
		}
	}
	return low
}

// TestMostDecoded: a group counts the memory of its columns before it takes it.
func TestMostDecoded(t *testing.T) {
	var file bytes.Buffer
	schema := Schema{{Name: "n", Type: Long}, {Name: "t", Type: Text}}
	w, err := NewWriter(&file, schema)
	if err != nil {
		t.Fatal(err)
	}
	w.Begin(1000)
	w.Ints(nil, make([]int64, 1000))
	w.Texts(nil, make([]uint32, 1000), []string{"abc"})
	if err := errors.Join(w.End(), w.Close("test", nil)); err != nil {
		t.Fatal(err)
	}
	f, err := OpenReader(bytes.NewReader(file.Bytes()), int64(file.Len()))
	if err != nil {
		t.Fatal(err)
	}
	g, err := f.Read(0)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	for i, want := range []int64{8000, 8000 + 4000 + 4 + 3 + textBytes} {
		if _, err := g.Column(&schema[i]); err != nil || g.Size() != want {
			t.Errorf("column %d: %v; %d bytes, want %d", i, err, g.Size(), want)
		}
	}
	for i := range schema {
		g.size = mostDecoded - 4001
		if _, err := g.Column(&schema[i]); err == nil || !strings.Contains(err.Error(), errSize.Error()) {
			t.Errorf("column %d beyond the bound: %v", i, err)
		}
	}
}

// TestMostChunks: a footer of columns without end is not read to its end.
func TestMostChunks(t *testing.T) {
	for _, columns := range []int{0, 1, 100} {
		w := new(thriftWriter)
		w.open()
		n := mostChunks/max(1, columns) + 1000
		w.list(4, thriftStruct, n)
		for range n {
			w.open()
			w.list(1, thriftStruct, columns)
			for range columns {
				w.open()
				w.begin(3)
				w.i32(4, codecZstd)
				w.end()
				w.end()
			}
			w.end()
		}
		w.end()
		f, r := &Reader{}, &thriftReader{b: w.b}
		f.readFooter(r)
		chunks := 0
		for _, g := range f.Groups {
			chunks += max(1, len(g.chunks))
		}
		if !r.failed || chunks > mostChunks {
			t.Errorf("groups of %d columns: %d columns are read, failed: %v", columns, chunks, r.failed)
		}
	}
}
