// SPDX-License-Identifier: Apache-2.0

package aggregate

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
