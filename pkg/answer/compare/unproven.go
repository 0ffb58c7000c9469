// SPDX-License-Identifier: Apache-2.0

package compare

import (
	"cmp"
	"math"
	"slices"

	"github.com/vnetradar/radar/pkg/answer/stats"
)

// Unproven is a large difference of losses that was seen, and that may be chance.
type Unproven struct {
	Change
	// PAlone is P before it was adjusted for all comparisons; nil: there were too few packets to test.
	PAlone *float64 `json:"p_alone,omitempty"`
	// Bursts in which packets were lost, in both runs; 0: they were not lost in bursts, or it is not known.
	Bursts int `json:"bursts,omitempty"`
}

// largeLoss is the least of Cohen's h of a large difference of shares: from 0 to 6.1 %, from 10 to 28 %. Cohen chose 0.5
// as what a careful observer sees with the naked eye: a reader who sees it in the packets, and not in the answer, would
// take the answer for "no difference".
const largeLoss = 0.5

// isLarge reports whether two shares of packets differ by much, and by more than as many packets would that are lost
// independently of each other: what only bursts and the number of comparisons leave open. A few losses of a few packets
// are not.
func isLarge(lostA, ofA, lostB, ofB float64, o *Options) bool {
	if ofA <= 0 || ofB <= 0 || math.Abs(lostA/ofA-lostB/ofB) < o.LeastLoss {
		return false
	}
	angle := func(share float64) float64 { return 2 * math.Asin(math.Sqrt(min(1, share))) }
	return math.Abs(angle(lostA/ofA)-angle(lostB/ofB)) >= largeLoss && stats.TwoProportions(lostA, ofA, lostB, ofB) < o.Alpha
}

// unprovenOf are differences that were not proven, the largest first. What a flow lost is left out where a place that is
// told has lost as many: it is the same packets.
func unprovenOf(all []Unproven, proven []Change) []Unproven {
	most := 0.0 // lost packets at one place
	place := func(c *Change) {
		if c.lostAtPlace {
			most = max(most, c.lost)
		}
	}
	for i := range all {
		place(&all[i].Change)
	}
	for i := range proven {
		place(&proven[i])
	}
	list := []Unproven{}
	for i := range all {
		if all[i].lostAtPlace || all[i].lost > most {
			list = append(list, all[i])
		}
	}
	slices.SortStableFunc(list, func(x, y Unproven) int { return cmp.Compare(y.lost, x.lost) })
	return list
}
