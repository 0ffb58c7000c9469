// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"fmt"
	"io"
	"slices"
	"time"
)

// ObserverTime measures how long one packet tap takes for one packet: two
// captures of the same ports see each packet one after the other. A time of
// radar's contains the tap's where the capture's does not, or the reverse; so it
// is an error of neither. It returns the mean without the outer 1 %, which is finer
// than the captures' microseconds, and the number of packets seen by both.
func ObserverTime(t *Topology, node string, first, second io.Reader) (time.Duration, int, error) {
	type sight struct {
		place place
		bytes string
	}
	seen := map[sight][]int64{}
	var gaps []int64
	for i, r := range []io.Reader{first, second} {
		c, err := NewCaptures(t)
		if err != nil {
			return 0, 0, err
		}
		if err := c.AddWire(node, r); err != nil {
			return 0, 0, fmt.Errorf("capture %d of %s: %w", i+1, node, err)
		}
		for _, f := range c.frames {
			s := sight{*f.place, string(f.ip)}
			switch {
			case f.Len > maxFrame:
			case i == 0:
				seen[s] = append(seen[s], f.at)
			case len(seen[s]) > 0:
				gap := f.at - seen[s][0]
				gaps = append(gaps, max(gap, -gap))
				seen[s] = seen[s][1:]
			}
		}
	}
	if len(gaps) == 0 {
		return 0, 0, fmt.Errorf("the two captures of %s have no packet in common", node)
	}
	slices.Sort(gaps)
	return time.Duration(trimmedMean(gaps)), len(gaps), nil
}
