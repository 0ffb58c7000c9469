// SPDX-License-Identifier: Apache-2.0

// Package words makes words of numbers and packets, for tables and sentences. It knows no answers: of these
// pkg/answer/wording makes words.
package words

import (
	"math"
	"strconv"
	"strings"
)

// State is whether a port can send and receive: "up", "down", "no carrier"; "" if that is not known.
func State[S ~string](s S) string { return strings.ReplaceAll(string(s), "_", " ") }

// Duration renders ns with three digits or a little more: 812ns, 12.3us,
// 4.56ms, 1.20s.
func Duration(ns float64) string { return string(AppendDuration(nil, ns)) }

// AppendDuration appends what Duration says.
func AppendDuration(b []byte, ns float64) []byte {
	abs := math.Abs(ns)
	for _, u := range [...]struct {
		size float64
		name string
	}{{1, "ns"}, {1e3, "us"}, {1e6, "ms"}} {
		if abs/u.size < 999.5 {
			return append(appendNumber(b, ns/u.size, u.size > 1), u.name...)
		}
	}
	return append(appendNumber(b, ns/1e9, true), 's')
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

// Bytes renders bytes as tc writes them: 812B, 12.3KiB (powers of 1024).
func Bytes(v float64) string {
	unit := "B"
	for _, next := range []string{"KiB", "MiB", "GiB"} {
		if v < 1023.5 {
			break
		}
		v, unit = v/1024, next
	}
	return Number(v, unit != "B") + unit
}

// Number keeps three significant digits of v below 1000, fewer decimals the
// larger v; whole numbers have none.
func Number(v float64, fraction bool) string { return string(appendNumber(nil, v, fraction)) }

func appendNumber(b []byte, v float64, fraction bool) []byte {
	switch abs := math.Abs(v); {
	case !fraction || abs >= 99.95:
		return appendFixed(b, v, 0, 1)
	case abs >= 9.995:
		return appendFixed(b, v, 1, 10)
	default:
		return appendFixed(b, v, 2, 100)
	}
}

// appendFixed appends v with so many decimals, which scale moves before the point. It says what
// strconv says, which takes ten times as long: that is left to decide where v lies between two
// such numbers.
func appendFixed(b []byte, v float64, decimals int, scale float64) []byte {
	const most, near = 1e9, 1e-3
	scaled := v * scale
	whole := math.Floor(scaled)
	if part := scaled - whole; !(v >= 0 && scaled < most) || math.Signbit(v) || math.Abs(part-0.5) < near {
		return strconv.AppendFloat(b, v, 'f', decimals, 64)
	} else if part > 0.5 {
		whole++
	}
	n, unit := int64(whole), int64(scale)
	b = strconv.AppendInt(b, n/unit, 10)
	if decimals == 0 {
		return b
	}
	b = append(b, '.')
	for unit /= 10; unit > 0; unit /= 10 {
		b = append(b, byte('0'+n/unit%10))
	}
	return b
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

// PacketsWere is "1 packet was", "2 packets were".
func PacketsWere(n uint64) string {
	if n == 1 {
		return "1 packet was"
	}
	return Decimal(n) + " packets were"
}
