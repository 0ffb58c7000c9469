// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"cmp"
	"slices"
	"strconv"
	"unicode/utf8"
)

// rows keeps rows as text until they are printed, all in the same memory. A cell is what was
// appended to text since the one before ended.
type rows struct {
	text  []byte
	cells []cell
	list  []row

	cellAt          int // where the cell begins that has not ended
	textAt, cellsAt int // where its row begins
}

// cell is how long the text of one cell is.
type cell struct{ bytes, runes uint32 }

// row is where one row lies.
type row struct {
	when        int64 // by which rows are sorted
	text, cells int
	bytes       uint32
	n           uint32      // of its cells
	cached      *cachedLine // nil: these are all of its cells; else those of its own
}

// Write appends to the cell that has not ended. It does not fail.
func (r *rows) Write(b []byte) (int, error) {
	r.text = append(r.text, b...)
	return len(b), nil
}

// endCell ends a cell.
func (r *rows) endCell() {
	text := r.text[r.cellAt:]
	r.cells = append(r.cells, cell{uint32(len(text)), uint32(utf8.RuneCount(text))})
	r.cellAt = len(r.text)
}

// addText adds a cell.
func (r *rows) addText(text string) {
	r.text = append(r.text, text...)
	r.endCell()
}

// addInt adds a number as a cell.
func (r *rows) addInt(n int) {
	r.text = strconv.AppendInt(r.text, int64(n), 10)
	r.endCell()
}

// endRow ends a row with the cells that have ended.
func (r *rows) endRow(when int64) {
	r.list = append(r.list, row{
		when: when, text: r.textAt, cells: r.cellsAt,
		bytes: uint32(r.cellAt - r.textAt), n: uint32(len(r.cells) - r.cellsAt),
	})
	r.textAt, r.cellsAt = r.cellAt, len(r.cells)
}

// textOf is the text of row i, all of its cells.
func (r *rows) textOf(i int) []byte {
	at := &r.list[i]
	return r.text[at.text : at.text+int(at.bytes)]
}

// cellsOf are the cells of row i.
func (r *rows) cellsOf(i int) []cell {
	at := &r.list[i]
	return r.cells[at.cells : at.cells+int(at.n)]
}

// sort orders rows by time, those of the same time as they came.
func (r *rows) sort() {
	compare := func(a, b row) int { return cmp.Or(cmp.Compare(a.when, b.when), cmp.Compare(a.text, b.text)) }
	if !slices.IsSortedFunc(r.list, compare) {
		slices.SortFunc(r.list, compare)
	}
}

// clear forgets all rows, and keeps their memory.
func (r *rows) clear() {
	r.text, r.cells, r.list = r.text[:0], r.cells[:0], r.list[:0]
	r.cellAt, r.textAt, r.cellsAt = 0, 0, 0
}
