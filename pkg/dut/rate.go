// SPDX-License-Identifier: Apache-2.0

package dut

import (
	"strconv"
	"strings"

	"github.com/vnetradar/radar/pkg/fault"
)

// Rate is how fast packets are sent: so many a second, or so many bits of frames a second.
type Rate struct {
	text string
	pps  float64
	bits float64 // a second; 0: pps counts
}

// RateOf returns a rate of packets a second.
func RateOf(pps float64) Rate {
	return Rate{text: strconv.FormatFloat(pps, 'f', -1, 64) + "pps", pps: pps}
}

// mostPPS is beyond what any sender reaches.
const mostPPS = 1e9

var prefixes = map[string]float64{"": 1, "k": 1e3, "m": 1e6, "g": 1e9}

// ParseRate reads 100pps, 1kpps, 10Mbit: prefixes are powers of 1000. What it refuses is
// fault.Usage.
func ParseRate(s string) (Rate, error) {
	lower := strings.ToLower(strings.TrimSpace(s))
	number := strings.TrimRight(lower, "abcdefghijklmnopqrstuvwxyz/")
	unit := lower[len(number):]
	r := Rate{text: strings.TrimSpace(s)}
	value, err := strconv.ParseFloat(number, 64)
	bad := fault.Usage.Errorf("rate %q: use packets or bits a second, such as 100pps, 1kpps or 10Mbit", s)
	if err != nil {
		return r, bad
	}
	target := &r.pps
	prefix, isPPS := strings.CutSuffix(unit, "pps")
	if !isPPS {
		var isBits bool
		unit = strings.TrimSuffix(strings.TrimSuffix(unit, "/s"), "s") // bit/s, bits
		if prefix, isBits = strings.CutSuffix(unit, "bit"); !isBits {
			return r, bad
		}
		target = &r.bits
	}
	factor, known := prefixes[prefix]
	if !known {
		return r, bad
	}
	if *target = value * factor; !(value > 0) {
		return r, fault.Usage.Errorf("rate %q: use more than 0", s)
	}
	if r.pps > mostPPS || r.bits > mostPPS*1e3 {
		return r, fault.Usage.Errorf("rate %q: no sender is that fast", s)
	}
	return r, nil
}

// PPS is the rate in packets a second, for frames of that size.
func (r Rate) PPS(size int) float64 {
	if r.bits > 0 {
		return r.bits / float64(8*size)
	}
	return r.pps
}

// Bits is the rate in bits a second, for frames of that size.
func (r Rate) Bits(size int) float64 { return r.PPS(size) * float64(8*size) }

// String is the rate as the user wrote it.
func (r Rate) String() string { return r.text }
