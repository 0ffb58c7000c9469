// SPDX-License-Identifier: Apache-2.0

package words

import (
	"math"
	"strconv"
	"strings"

	"github.com/vnetradar/radar/pkg/vnet/topo"
)

// State is whether a port can send and receive: "up", "down", "no carrier"; "" if that is not known.
func State(s topo.State) string { return strings.ReplaceAll(string(s), "_", " ") }

// Duration renders ns with three digits or a little more: 812ns, 12.3us,
// 4.56ms, 1.20s.
func Duration(ns float64) string {
	abs := math.Abs(ns)
	for _, u := range []struct {
		size float64
		name string
	}{{1, "ns"}, {1e3, "us"}, {1e6, "ms"}} {
		if abs/u.size < 999.5 {
			return Number(ns/u.size, u.size > 1) + u.name
		}
	}
	return Number(ns/1e9, true) + "s"
}

// Rate renders bits/s: 812bit/s, 12.3Mbit/s (powers of 1000).
func Rate(bps uint64) string {
	v, unit := float64(bps), ""
	for _, next := range []string{"k", "M", "G", "T"} {
		if v < 999.5 {
			break
		}
		v, unit = v/1000, next
	}
	return Number(v, unit != "") + unit + "bit/s"
}

// Number keeps three significant digits of v below 1000, fewer decimals the
// larger v; whole numbers have none.
func Number(v float64, fraction bool) string {
	switch abs := math.Abs(v); {
	case !fraction || abs >= 99.95:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case abs >= 9.995:
		return strconv.FormatFloat(v, 'f', 1, 64)
	default:
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
}

// Decimal renders a number as it is.
func Decimal(n uint64) string { return strconv.FormatUint(n, 10) }

// Plural is "1 node", "2 nodes".
func Plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}
