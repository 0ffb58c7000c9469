// SPDX-License-Identifier: Apache-2.0

package aggregate

import "math"

// Distribution is the distribution of one kind of time, or of other numbers from 0 up. Its memory has a bound.
type Distribution struct {
	of  latency
	sum int64
}

// Add counts a number; a negative one is not known and not counted.
func (d *Distribution) Add(n int64) {
	if n >= 0 {
		d.of.add(n, 1)
		d.sum += n
	}
}

// AddTimes counts a number n times.
func (d *Distribution) AddTimes(number int64, n uint64) {
	if number >= 0 && n > 0 {
		d.of.add(number, n)
		d.sum += number * int64(n)
	}
}

// Merge adds all numbers of another one.
func (d *Distribution) Merge(o *Distribution) {
	d.of.merge(&o.of)
	d.sum += o.sum
}

// Count is how many numbers were added, Sum what they are together.
func (d *Distribution) Count() uint64 { return d.of.count }

// Sum is what all numbers are together.
func (d *Distribution) Sum() int64 { return d.sum }

// Quantiles are those of the numbers; false: there are none.
func (d *Distribution) Quantiles() (Quantiles, bool) { return d.of.quantiles() }

// Sparse is a Distribution for many that have few numbers each: it keeps only buckets that are not empty.
type Sparse struct{ of flowLatency }

// AddTimes counts a number n times.
func (d *Sparse) AddTimes(number int64, n uint64) {
	for ; n > math.MaxUint32; n -= math.MaxUint32 {
		d.of.add(number, math.MaxUint32, true)
	}
	d.of.add(number, n, true)
}

// Merge adds all numbers of another one.
func (d *Sparse) Merge(o *Sparse) {
	if o.of.count == 0 {
		return
	}
	least, most := o.of.min, max(d.of.max, o.of.max)
	if d.of.count > 0 {
		least = min(least, d.of.min)
	}
	for index, n := range o.of.all {
		d.of.add(middleOf(index), n, true)
	}
	d.of.min, d.of.max = least, most
}

// Count is how many numbers were added.
func (d *Sparse) Count() uint64 { return d.of.count }

// Buckets is how many it keeps.
func (d *Sparse) Buckets() int { return len(d.of.buckets) }

// Quantiles are those of the numbers; false: there are none.
func (d *Sparse) Quantiles() (Quantiles, bool) { return d.of.quantiles() }
