// SPDX-License-Identifier: Apache-2.0

package compare

import (
	"cmp"
	"math"
	"slices"

	"github.com/vnetradar/radar/pkg/answer/stats"
)

// Unproven is a large difference of losses, times or rates that was seen, and that may be chance.
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

// Large differences of other kinds: a percentile that is this many times as high, a rate. Both must be beyond what counts,
// and packets that are independent of each other would prove them.
const (
	largeTimes = 10
	largeRate  = 2
)

// timesAre reports whether one of two values is so many times the other one.
func timesAre(times, before, after float64) bool {
	return max(before, after) >= times*max(0, min(before, after))
}

// largeTail reports whether a percentile of two series differs by much.
func largeTail(a, b []float64, before, after float64, o *Options) bool {
	if !timesAre(largeTimes, before, after) {
		return false
	}
	low, high, limit := a, b, before
	if before > after {
		low, high, limit = b, a, after
	}
	above := func(list []float64) (n float64) {
		for _, v := range list {
			if v > limit {
				n++
			}
		}
		return n
	}
	return stats.TwoProportions(above(low), float64(len(low)), above(high), float64(len(high))) < o.Alpha
}

// largeOf reports whether rates differ by much.
func largeOf(before, after []float64, least float64, o *Options) bool {
	d := stats.Welch(before, after, 0)
	return timesAre(largeRate, stats.Mean(before), stats.Mean(after)) && d.P(least) < o.Alpha
}

// mostElsewhere is the share of the packets lost that may be lost at places that are not told.
const mostElsewhere = 0.1

// unprovenOf are differences that were not proven: losses, the most packets first, then the others by weight. Losses of a
// flow are left out where they are told by the places at which this flow has lost its packets, and so are the times of
// packets that are told end to end.
func unprovenOf(all []Unproven, proven []Change) []Unproven {
	told := make(map[string]bool)
	tell := func(c *Change) { told[c.Kind+" "+c.What] = true }
	for i := range all {
		tell(&all[i].Change)
	}
	for i := range proven {
		tell(&proven[i])
	}
	list := []Unproven{}
	for i := range all {
		one := &all[i].Change
		elsewhere := one.most
		for place, n := range one.lostBy {
			if told["loss "+place] {
				elsewhere -= n
			}
		}
		known := one.Kind == "loss" && one.lostBy != nil && elsewhere <= mostElsewhere*one.most ||
			one.Kind == "latency" && one.What != endToEnd && told["latency "+endToEnd]
		if !known {
			list = append(list, all[i])
		}
	}
	slices.SortStableFunc(list, func(x, y Unproven) int {
		return cmp.Or(cmp.Compare(y.lost, x.lost), cmp.Compare(y.weight, x.weight))
	})
	return list
}
