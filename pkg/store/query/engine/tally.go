// SPDX-License-Identifier: Apache-2.0

//go:build cgo && !nosql

package engine

import (
	"math/bits"
	"slices"

	"github.com/vnetradar/radar/pkg/store/parquet"
)

// Bounds of what is counted before it is given to DuckDB, which counts the rest.
const (
	mostCounted = 1 << 19
	mostLetters = 64 << 20
)

// tally counts rows that have the same values.
type tally struct {
	keys  []key
	sums  []*output // that are asked for
	width int       // of an entry: keys and sums
	// entries are keys and sums, one entry behind the other. slots are numbers of entries from 1, by hash; 0: there is none.
	entries []int64
	slots   []uint32
	others  []int64 // see differ
	n       int     // entries
	letters int     // of texts
	small   *packed // in place of entries and slots, where keys are short
}

// key is a column whose values are told apart.
type key struct {
	*output
	codes  []int64 // of the rows that are counted
	words  map[string]int64
	dict   []string // texts by code
	codeOf []int64  // by the row group's dictionary, with null at the end
	room   []int64
}

// full reports whether what was counted is to be given.
func (t *tally) full() bool {
	if t.small != nil && t.small.full() {
		return true
	}
	return t.n >= mostCounted || t.letters > mostLetters
}

// begin takes the columns that are asked for, the same for all row groups.
func (t *tally) begin(out []output) {
	at := 0
	for i := range out {
		o := &out[i]
		if o.made == sum {
			t.sums = append(t.sums, o)
			continue
		}
		if at == len(t.keys) {
			t.keys = append(t.keys, key{words: make(map[string]int64)})
		}
		t.keys[at].output = o
		at++
	}
	t.width = len(t.keys) + len(t.sums)
}

// add counts the rows that a worker has read; fits is false if what was counted before has to be given first.
func (t *tally) add(w *worker) (fits bool) {
	if w.n == 0 {
		return true
	}
	t.sums = t.sums[:0]
	t.begin(w.out)
	for i := range t.keys {
		t.letters += t.keys[i].encode(w)
	}
	if t.n == 0 && t.small == nil {
		t.small = newPacked(t.keys, len(t.sums))
	}
	if t.small != nil {
		return t.small.add(t.keys, t.sums[0].value.Ints, w)
	}
	if t.slots == nil {
		t.slots = make([]uint32, 1<<12)
	}
	t.addLong(w)
	return true
}

// addLong counts rows whose keys are long. Those of a flow stand together, so that most are as the one before.
func (t *tally) addLong(w *worker) {
	weights := make([][]int64, len(t.sums))
	for i, o := range t.sums {
		weights[i] = o.value.Ints
	}
	rows, last := w.packets(), 0
	for i, other := range t.differ(w.n) {
		if other != 0 || i == 0 {
			last = t.find(i)
		}
		row := at(rows, i)
		to := t.entries[last+len(t.keys):]
		for k, values := range weights {
			to[k] += values[row]
		}
	}
}

// differ says of each row whether it has other keys than the one before: then it is not 0.
func (t *tally) differ(n int) []int64 {
	t.others = slices.Grow(t.others[:0], n)[:n]
	clear(t.others)
	for k := range t.keys {
		before, codes := t.keys[k].codes[:n], t.keys[k].codes[1:n]
		others := t.others[1:]
		for i, v := range codes {
			others[i] |= v ^ before[i]
		}
	}
	return t.others
}

// mix makes a hash of a code, and of the hash before.
func mix(hash uint64, code int64) uint64 {
	high, low := bits.Mul64(hash^uint64(code)^0xa0761d6478bd642f, 0xe7037ed1a0b428db)
	return high ^ low
}

// is reports whether the entry that begins there is that of a row.
func (t *tally) is(begin, row int) bool {
	for k, v := range t.entries[begin : begin+len(t.keys)] {
		if t.keys[k].codes[row] != v {
			return false
		}
	}
	return true
}

// find is where the entry of a row begins, which is made if there is none.
func (t *tally) find(row int) int {
	hash := uint64(0)
	for k := range t.keys {
		hash = mix(hash, t.keys[k].codes[row])
	}
	mask := uint64(len(t.slots) - 1)
	for i := hash & mask; ; i = (i + 1) & mask {
		n := int(t.slots[i])
		if n == 0 {
			n = t.n
			t.n++
			t.slots[i] = uint32(t.n)
			for k := range t.keys {
				t.entries = append(t.entries, t.keys[k].codes[row])
			}
			t.entries = append(t.entries, make([]int64, len(t.sums))...)
			if 2*t.n > len(t.slots) {
				t.grow()
			}
			return n * t.width
		}
		if begin := (n - 1) * t.width; t.is(begin, row) {
			return begin
		}
	}
}

// grow makes room for more entries.
func (t *tally) grow() {
	t.slots = make([]uint32, 4*len(t.slots))
	mask := uint64(len(t.slots) - 1)
	for n := range t.n {
		hash := uint64(0)
		for _, v := range t.entries[n*t.width : n*t.width+len(t.keys)] {
			hash = mix(hash, v)
		}
		i := hash & mask
		for t.slots[i] != 0 {
			i = (i + 1) & mask
		}
		t.slots[i] = uint32(n + 1)
	}
}

// encode makes codes of the values of a row group: numbers are their own. It returns how many letters new texts have.
func (k *key) encode(w *worker) (letters int) {
	from := k.from(w)
	k.room = slices.Grow(k.room[:0], w.n)[:w.n]
	k.codes = k.room
	if k.kind == word {
		return k.encodeWords(from)
	}
	values := k.local
	if values == nil && k.value != nil {
		values = k.value.Ints
	}
	switch {
	case values == nil:
		none := int64(parquet.Null)
		if k.made == once {
			none = 0
		}
		for i := range k.codes {
			k.codes[i] = none
		}
	case from == nil:
		k.codes = values[:w.n]
	default:
		for i, x := range from[:w.n] {
			k.codes[i] = values[x]
		}
	}
	return 0
}

func (k *key) encodeWords(from []uint32) (letters int) {
	if k.value == nil || k.value.Index == nil {
		for i := range k.codes {
			k.codes[i] = parquet.Null
		}
		return 0
	}
	k.codeOf = k.codeOf[:0]
	for _, s := range k.value.Dict {
		code, ok := k.words[s]
		if !ok {
			code = int64(len(k.dict))
			k.words[s], k.dict = code, append(k.dict, s)
			letters += len(s)
		}
		k.codeOf = append(k.codeOf, code)
	}
	k.codeOf = append(k.codeOf, parquet.Null)
	null, index := uint32(len(k.value.Dict)), k.value.Index
	if from == nil {
		for i, x := range index[:len(k.codes)] {
			k.codes[i] = k.codeOf[min(x, null)]
		}
		return letters
	}
	for i, x := range from[:len(k.codes)] {
		k.codes[i] = k.codeOf[min(index[x], null)]
	}
	return letters
}

// columns are the keys that were counted, and behind them their sums.
func (t *tally) columns() [][]int64 {
	if t.small != nil {
		return t.small.columns()
	}
	all := make([][]int64, t.width)
	for i := range all {
		all[i] = make([]int64, 0, t.n)
		for at := i; at < len(t.entries); at += t.width {
			all[i] = append(all[i], t.entries[at])
		}
	}
	return all
}

// give makes what was counted the worker's next rows; ok is false if there is nothing.
func (w *worker) give() (ok bool) {
	t := w.sum
	w.sum = nil
	w.rows, w.elements, w.lens, w.n, w.at = nil, nil, nil, 0, 0
	for i, values := range t.columns() {
		w.n = len(values)
		if i >= len(t.keys) {
			o := t.sums[i-len(t.keys)]
			w.out = append(w.out, output{column: o.column, to: o.to, local: values})
			continue
		}
		k := &t.keys[i]
		o := output{column: k.column, to: k.to, local: values}
		if k.kind == word {
			o.value = &parquet.Values{Dict: k.dict, Index: make([]uint32, len(values))}
			for n, v := range values {
				if o.value.Index[n] = uint32(v); v == parquet.Null {
					o.value.Index[n] = parquet.NullText
				}
			}
			o.makeDict()
		}
		w.out = append(w.out, o)
	}
	return w.n > 0
}
