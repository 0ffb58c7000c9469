// SPDX-License-Identifier: Apache-2.0

package parquet

// Type is how values are stored.
type Type int32

// Physical types.
const (
	Bool Type = 0
	Int  Type = 1 // 32 bits
	Long Type = 2 // 64 bits
	Text Type = 6 // bytes, by a dictionary
)

// Logical is what values mean.
type Logical uint8

// Logical types.
const (
	None Logical = iota
	UTF8
	JSON
	Uint8
	Uint16
	Uint32
	Uint64
	Timestamp // ns since 1970, UTC
)

// Encoding of a column's values; those of Text are in a dictionary, those of Bool plain.
type Encoding int32

// Encodings.
const (
	Plain Encoding = 0
	Delta Encoding = 5
	Split Encoding = 9 // byte stream split

	encodingRLE  Encoding = 3
	encodingDict Encoding = 8
)

// Column is a leaf of the schema.
type Column struct {
	List     string // the list of structs that it is in; "": the row itself
	Name     string
	Type     Type
	Logical  Logical
	Encoding Encoding
	Optional bool
}

// Path is the column's name in full, as in the file.
func (c *Column) Path() string {
	if c.List == "" {
		return c.Name
	}
	return c.List + ".list.element." + c.Name
}

// Bytes of memory of a text without its letters, of a number, and of an index or a length.
const (
	textBytes  = 16
	intBytes   = 8
	indexBytes = 4
)

// memory are the bytes that a value takes in Values.
func (c *Column) memory() int64 {
	n := int64(intBytes)
	if c.Type == Text {
		n = indexBytes
	}
	if c.List != "" {
		n += indexBytes
	}
	return n
}

// maxDef is the definition level of a value that is there.
func (c *Column) maxDef() int {
	n := 0
	if c.List != "" {
		n++
	}
	if c.Optional {
		n++
	}
	return n
}

// Schema is a file's columns. Those of a list stand side by side.
type Schema []Column

const (
	required = 0
	optional = 1
	repeated = 2
)

// write writes the schema as Parquet has it: a tree, in the order of a walk through it.
func (s Schema) write(w *thriftWriter) {
	top, groups := 0, 0
	for i := range s {
		if s[i].List == "" || i == 0 || s[i-1].List != s[i].List {
			top++
		}
		if s[i].List != "" && (i == 0 || s[i-1].List != s[i].List) {
			groups++
		}
	}
	w.list(2, thriftStruct, 1+len(s)+3*groups)
	group(w, "schema", -1, top, false)
	for i := range s {
		c := &s[i]
		if c.List != "" && (i == 0 || s[i-1].List != c.List) {
			n := 0
			for j := i; j < len(s) && s[j].List == c.List; j++ {
				n++
			}
			group(w, c.List, required, 1, true)
			group(w, "list", repeated, 1, false)
			group(w, "element", required, n, false)
		}
		c.write(w)
	}
}

// group writes an element that has children.
func group(w *thriftWriter, name string, repetition int32, children int, isList bool) {
	w.open()
	if repetition >= 0 {
		w.i32(3, repetition)
	}
	w.text(4, name)
	w.i32(5, int32(children))
	if isList {
		w.i32(6, 3)
		w.begin(10)
		w.begin(3)
		w.end()
		w.end()
	}
	w.end()
}

func (c *Column) write(w *thriftWriter) {
	w.open()
	w.i32(1, int32(c.Type))
	if c.Optional {
		w.i32(3, optional)
	} else {
		w.i32(3, required)
	}
	w.text(4, c.Name)
	converted := map[Logical]int32{UTF8: 0, JSON: 19, Uint8: 11, Uint16: 12, Uint32: 13, Uint64: 14}
	if n, ok := converted[c.Logical]; ok {
		w.i32(6, n)
	}
	if c.Logical != None {
		w.begin(10)
		c.Logical.write(w)
		w.end()
	}
	w.end()
}

func (l Logical) write(w *thriftWriter) {
	switch l {
	case UTF8:
		w.begin(1)
	case JSON:
		w.begin(12)
	case Timestamp:
		w.begin(8)
		w.bool(1, true) // it is UTC
		w.begin(2)
		w.begin(3) // ns
		w.end()
		w.end()
	default:
		w.begin(10)
		w.i8(1, map[Logical]byte{Uint8: 8, Uint16: 16, Uint32: 32, Uint64: 64}[l])
		w.bool(2, false)
	}
	w.end()
}
