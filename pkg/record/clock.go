// SPDX-License-Identifier: Apache-2.0

package record

import "time"

// Clock writes times, most of which have the second of the one before.
type Clock struct {
	location *time.Location
	layout   string
	second   int64  // Unix time
	text     []byte // of that second; nil: of none yet
}

// NewClock makes a Clock for times of that location. layout is what stands before the fraction of
// a second, as package time has it.
func NewClock(location *time.Location, layout string) Clock {
	return Clock{location: location, layout: layout}
}

// Append appends a time, with so many digits of the fraction of its second: 9 at most.
func (c *Clock) Append(b []byte, unixNs int64, digits int) []byte {
	second, ns := unixNs/1e9, unixNs%1e9
	if ns < 0 {
		second, ns = second-1, ns+1e9
	}
	if c.text == nil || second != c.second {
		c.second = second
		c.text = time.Unix(second, 0).In(c.location).AppendFormat(c.text[:0], c.layout)
	}
	b = append(append(b, c.text...), '.')
	for unit := int64(1e8); digits > 0; digits-- {
		b = append(b, byte('0'+ns/unit%10))
		unit /= 10
	}
	return b
}
