// SPDX-License-Identifier: Apache-2.0

package plot

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// unit is what values of an axis are shown in.
type unit struct {
	name string
	of   float64 // so many of the smallest one
}

func (u unit) of64(v int64) float64 { return float64(v) / u.of }

var (
	times = []unit{{"ns", 1}, {"µs", 1e3}, {"ms", 1e6}, {"s", 1e9}}
	sizes = []unit{{"bytes", 1}, {"kB", 1e3}, {"MB", 1e6}, {"GB", 1e9}}
)

// unitFor is the one in which a value has the fewest digits that are not 0.
func unitFor(units []unit, v float64) unit {
	best := units[0]
	for _, u := range units {
		if v >= u.of {
			best = u
		}
	}
	return best
}

// wide is how many times the least the greatest value of an axis is that is logarithmic.
const wide = 30

// scaleFor is the unit for times from least to most, and whether the axis is logarithmic.
func scaleFor(scale string, least, most int64) (u unit, log bool) {
	low, high := float64(max(least, 1)), float64(max(most, 1))
	if log = scale == "log" || scale == "auto" && high/low > wide; log {
		return unitFor(times, math.Sqrt(low*high)), true
	}
	return unitFor(times, high), false
}

// sinceText labels an axis of time: with its zero as --since takes it, in that zone, to a thousandth of the unit.
func sinceText(fromNs int64, u unit, zone *time.Location) string {
	fraction := map[float64]string{1e9: ".999", 1e6: ".999999"}[u.of]
	if fraction == "" {
		fraction = ".999999999"
	}
	return fmt.Sprintf("Time since %s (%s)", time.Unix(0, fromNs).In(zone).Format("2006-01-02 15:04:05"+fraction+" MST"), u.name)
}

// timeText is a time with its unit and three digits that count.
func timeText(ns int64) string {
	u := unitFor(times, float64(ns))
	v := u.of64(ns)
	decimals := 2
	for w := v; w >= 10 && decimals > 0; w /= 10 {
		decimals--
	}
	if u.of == 1 {
		decimals = 0
	}
	return strconv.FormatFloat(v, 'f', decimals, 64) + " " + u.name
}

// percent is a share in per cent with two digits that count.
func percent(share float64) string {
	v := share * 100
	switch {
	case v == 0:
		return "0"
	case v >= 99.95 && v < 100:
		return "99.9+"
	case v >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'g', 2, 64)
}
