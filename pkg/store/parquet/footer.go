// SPDX-License-Identifier: Apache-2.0

package parquet

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"
)

// checkFooter compares the checksum that the footer has with its bytes.
func checkFooter(footer []byte) error {
	at := strings.LastIndex(string(footer), keyFooter)
	if at < 0 {
		return damage("footer", "it has no checksum: "+Foreign+", or damaged")
	}
	at += len(keyFooter) + 2 // the number and the length of the value
	if at+len(noSum) > len(footer) {
		return damage("footer", "its checksum is cut off")
	}
	want, err := strconv.ParseUint(string(footer[at:at+len(noSum)]), 16, 32)
	clean := append([]byte(nil), footer...)
	copy(clean[at:], noSum)
	if got := crc32.Checksum(clean, castagnoli); err != nil || uint64(got) != want || fmt.Sprintf("%08x", got) != string(footer[at:at+len(noSum)]) {
		return damage("footer", "its checksum differs: it is damaged")
	}
	return nil
}

// element is one of the schema's.
type element struct {
	kind, repetition, children int64
	name                       string
}

func (f *Reader) readFooter(t *thriftReader) {
	var elements []element
	chunks, texts := 0, 0
	t.fields(func(id int16, kind byte) {
		switch {
		case id == 2 && t.is(kind, thriftList):
			t.items(func(kind byte) {
				if t.is(kind, thriftStruct) && len(elements) < 4*mostColumns {
					elements = append(elements, readElement(t))
				} else {
					t.fail()
				}
			})
		case id == 3 && t.is(kind, thriftI64):
			f.Rows = t.int()
		case id == 4 && t.is(kind, thriftList):
			t.items(func(kind byte) {
				if t.is(kind, thriftStruct) {
					f.Groups = append(f.Groups, readGroup(t, mostChunks-chunks))
					// A group without columns counts as well.
					if chunks += max(1, len(f.Groups[len(f.Groups)-1].chunks)); chunks >= mostChunks {
						t.fail()
					}
				}
			})
		case id == 5 && t.is(kind, thriftList):
			t.items(func(kind byte) {
				if texts++; texts > mostMeta {
					t.fail()
				}
				if t.is(kind, thriftStruct) {
					key, value := readKeyValue(t)
					f.Meta[key] = value
				}
			})
		default:
			t.skip(kind)
		}
	})
	if !f.walk(elements) {
		t.fail()
	}
}

func readElement(t *thriftReader) (e element) {
	e.kind = -1
	t.fields(func(id int16, kind byte) {
		switch {
		case id == 1 && t.is(kind, thriftI32):
			e.kind = t.int()
		case id == 3 && t.is(kind, thriftI32):
			e.repetition = t.int()
		case id == 4 && t.is(kind, thriftBinary):
			e.name = t.text()
		case id == 5 && t.is(kind, thriftI32):
			e.children = t.int()
		default:
			t.skip(kind)
		}
	})
	return e
}

func readKeyValue(t *thriftReader) (key, value string) {
	t.fields(func(id int16, kind byte) {
		switch {
		case id == 1 && t.is(kind, thriftBinary):
			key = t.text()
		case id == 2 && t.is(kind, thriftBinary):
			value = t.text()
		default:
			t.skip(kind)
		}
	})
	return key, value
}

// readGroup reads what the footer says of a group, which has at most so many columns.
func readGroup(t *thriftReader, most int) (g RowGroup) {
	t.fields(func(id int16, kind byte) {
		switch {
		case id == 1 && t.is(kind, thriftList):
			t.items(func(kind byte) {
				if t.is(kind, thriftStruct) && len(g.chunks) < min(most, mostColumns) {
					g.chunks = append(g.chunks, readChunk(t))
				} else {
					t.fail()
				}
			})
		case id == 3 && t.is(kind, thriftI64):
			if n := t.int(); n > 0 && n <= mostRows {
				g.Rows = int(n)
			} else {
				t.fail()
			}
		case id == 5 && t.is(kind, thriftI64):
			g.at = t.int()
		case id == 6 && t.is(kind, thriftI64):
			g.size = t.int()
		default:
			t.skip(kind)
		}
	})
	return g
}

func readChunk(t *thriftReader) (k chunk) {
	codec := int64(-1)
	t.fields(func(id int16, kind byte) {
		if id != 3 || kind != thriftStruct {
			t.skip(kind)
			return
		}
		t.fields(func(id int16, kind byte) {
			switch {
			case id == 4 && t.is(kind, thriftI32):
				codec = t.int()
			case id == 5 && t.is(kind, thriftI64):
				k.values = t.int()
			case id == 7 && t.is(kind, thriftI64):
				k.compressed = t.int()
			case id == 9 && t.is(kind, thriftI64):
				k.at = t.int() // of the values' page
			case id == 11 && t.is(kind, thriftI64):
				k.dict = t.int() // of the dictionary's
			case id == 12 && t.is(kind, thriftStruct):
				k.readStatistics(t)
			default:
				t.skip(kind)
			}
		})
	})
	if codec != codecZstd {
		t.fail()
	}
	return k
}

func (k *chunk) readStatistics(t *thriftReader) {
	t.fields(func(id int16, kind byte) {
		switch {
		case id == 3 && t.is(kind, thriftI64):
			k.nulls = t.int()
		case id == 5 && t.is(kind, thriftBinary):
			k.hasBounds, k.high = true, t.text()
		case id == 6 && t.is(kind, thriftBinary):
			k.low = t.text()
		default:
			t.skip(kind)
		}
	})
}

// walk makes columns of the schema's elements; ok is false if they are not as a Writer writes them.
func (f *Reader) walk(elements []element) (ok bool) {
	f.columns = make(map[string]int)
	if len(elements) == 0 {
		return false
	}
	list, left := "", int64(0)
	for i := 1; i < len(elements); i++ {
		e := elements[i]
		if e.kind < 0 {
			if list != "" || i+2 >= len(elements) || e.children != 1 || elements[i+1].name != "list" || elements[i+2].name != "element" || elements[i+2].children <= 0 {
				return false
			}
			list, left = e.name, elements[i+2].children
			i += 2
			continue
		}
		c := Column{List: list, Name: e.name, Type: Type(e.kind), Optional: e.repetition == optional}
		if c.Type != Bool && c.Type != Int && c.Type != Long && c.Type != Text || e.repetition == repeated {
			return false
		}
		f.columns[c.Path()] = len(f.schema)
		f.schema = append(f.schema, c)
		if left--; left == 0 {
			list = ""
		}
	}
	return list == "" && len(f.columns) == len(f.schema)
}

// check compares what the footer says of groups with where they can be, one behind the other.
func (f *Reader) check(end int64) error {
	sums := strings.Fields(f.Meta[keyGroups])
	if len(sums) != len(f.Groups) {
		return damage("footer", "it has %d checksums for %d row groups", len(sums), len(f.Groups))
	}
	chunks := strings.Fields(f.Meta[keyChunks])
	if len(chunks) > 0 && len(chunks) != len(sums) {
		return damage("footer", "it has checksums of the columns of %d row groups, not of %d", len(chunks), len(sums))
	}
	at, rows := int64(len(magic)), int64(0)
	for i := range f.Groups {
		g := &f.Groups[i]
		sum, err := strconv.ParseUint(sums[i], 16, 32)
		if err != nil || g.at != at || g.size < 0 || g.size > mostGroup || g.Rows == 0 || len(g.chunks) != len(f.schema) {
			return damage("footer", "what it says of row group %d cannot be", i)
		}
		if g.crc, g.sums = uint32(sum), nil; len(chunks) > 0 {
			if g.sums = sumsOf(chunks[i]); len(g.sums) != len(g.chunks) {
				return damage("footer", "the checksums of the columns of row group %d cannot be", i)
			}
		}
		for _, k := range g.chunks {
			begin := k.at
			if k.dict != 0 {
				begin = k.dict
			}
			if begin != at || k.compressed < 0 || k.compressed > g.at+g.size-at || k.at < at || k.at > at+k.compressed || k.values < int64(g.Rows) && k.values != 0 || k.values > mostEntries {
				return damage("footer", "what it says of the columns of row group %d cannot be", i)
			}
			at += k.compressed
		}
		if at != g.at+g.size {
			return damage("footer", "row group %d is not as long as its columns", i)
		}
		rows += int64(g.Rows)
	}
	if at != end || rows != f.Rows {
		return damage("footer", "the row groups end at byte %d, not %d, and have %d rows, not %d", at, end, rows, f.Rows)
	}
	return nil
}

// sums are the checksums of the columns, as the footer has them.
func (g *rowGroup) sums() string {
	b := make([]byte, 0, 4*len(g.columns))
	for i := range g.columns {
		b = binary.BigEndian.AppendUint32(b, g.columns[i].crc)
	}
	return hex.EncodeToString(b)
}

// sumsOf are the checksums of a group's columns; nil: that is no such text.
func sumsOf(text string) (sums []uint32) {
	b, err := hex.DecodeString(text)
	if err != nil {
		return nil
	}
	for ; len(b) >= 4; b = b[4:] {
		sums = append(sums, binary.BigEndian.Uint32(b))
	}
	return sums
}
