// SPDX-License-Identifier: Apache-2.0

package figure

import (
	"math"
	"strconv"
	"strings"

	"gonum.org/v1/plot/vg"
)

// Axis is one of a panel's two.
type Axis struct {
	Label    string
	Min, Max float64 // both 0: those of the marks
	Log      bool    // everything on it is greater than 0
	Ticks    []Tick  // nil: the axis finds its own
	Bare     bool    // ticks without text: the panel below has it
	Names    bool    // ticks are names: they need no lines
}

// Tick is a value that is marked; without a text it is a small one.
type Tick struct {
	At   float64
	Text string
}

// fit sets the range of an axis that has none.
func (a *Axis) fit(least, most float64) {
	if a.Min != 0 || a.Max != 0 {
		return
	}
	if !(least <= most) { // there are no marks
		least, most = 1, 1
	}
	a.Min, a.Max = least, most
	// Values so close together are one: ticks between them would all have the same text.
	same := a.Max-a.Min <= 1e-9*max(math.Abs(a.Min), math.Abs(a.Max))
	switch {
	case a.Log && same:
		a.Min, a.Max = a.Min/2, a.Max*2
	case a.Log:
		room := math.Pow(a.Max/a.Min, 0.02)
		a.Min, a.Max = a.Min/room, a.Max*room
	case same:
		a.Min, a.Max = min(0, 2*a.Min), max(0, 2*a.Max)
		if a.Min == a.Max {
			a.Max = 1
		}
	default:
		room := (a.Max - a.Min) * 0.02
		if a.Min < 0 || a.Min > 4*room {
			a.Min -= room
		} else {
			a.Min = 0
		}
		a.Max += room
	}
}

// share is where a value stands between the ends, from 0 to 1.
func (a *Axis) share(v float64) float64 {
	if a.Log {
		return math.Log(max(v, math.SmallestNonzeroFloat64)/a.Min) / math.Log(a.Max/a.Min)
	}
	return (v - a.Min) / (a.Max - a.Min)
}

// ticks are those of an axis of that length, where the text of each needs some room: as many as there is room for.
func (a *Axis) ticks(length vg.Length, room func(text string) vg.Length) (ticks []Tick) {
	if a.Ticks != nil {
		return a.Ticks
	}
	for n := max(2, min(8, int(length/room("00")))); n > 0; n-- {
		if a.Log {
			ticks = logTicks(a.Min, a.Max, n)
		} else {
			ticks = linearTicks(a.Min, a.Max, n)
		}
		if a.fits(ticks, length, room, false) {
			return ticks
		}
	}
	a.fits(ticks, length, room, true)
	return ticks
}

// fits reports whether no text stands on another one. With drop it takes off those that do.
func (a *Axis) fits(ticks []Tick, length vg.Length, room func(text string) vg.Length, drop bool) bool {
	end := -length
	for i := range ticks {
		t := &ticks[i]
		at := a.share(t.At)
		if t.Text == "" || at < -1e-9 || at > 1+1e-9 {
			continue
		}
		half := room(t.Text) / 2
		begin := vg.Length(at)*length - half
		switch {
		case begin >= end:
			end = begin + 2*half
		case drop:
			t.Text = ""
		default:
			return false
		}
	}
	return true
}

// linearTicks are 1, 2 or 5 of a power of ten apart.
func linearTicks(least, most float64, n int) (ticks []Tick) {
	step := math.Pow(10, math.Floor(math.Log10((most-least)/float64(n))))
	for _, times := range []float64{2, 2.5, 2} {
		if (most-least)/step <= float64(n) {
			break
		}
		step *= times
	}
	decimals := max(0, int(math.Ceil(-math.Log10(step)-1e-9)))
	first := math.Ceil(least/step - 1e-9)
	for i := range n + 2 { // a number as large as first may not grow by 1
		v := (first + float64(i)) * step
		if !(v <= most+step*1e-9) {
			break
		}
		ticks = append(ticks, Tick{v, number(v+0, decimals)})
	}
	return ticks
}

// logTicks are powers of ten, or where there are few of them 2 and 5 times these too.
func logTicks(least, most float64, n int) (ticks []Tick) {
	from, to := int(math.Floor(math.Log10(least))), int(math.Ceil(math.Log10(most)))
	decades := math.Log10(most / least)
	if decades < 0.3 { // too few of these
		return linearTicks(least, most, n)
	}
	every := max(1, int(math.Ceil(decades/float64(n))))
	fine := decades*3 <= float64(n) || decades < 1
	for d := from; d <= to; d++ {
		for m := 1; m <= 9; m++ {
			v := float64(m) * math.Pow10(d)
			if v < least*(1-1e-9) || v > most*(1+1e-9) {
				continue
			}
			named := m == 1 && d%every == 0 || fine && (m == 2 || m == 5)
			switch {
			case named:
				ticks = append(ticks, Tick{v, number(v, max(0, -d))})
			case every == 1:
				ticks = append(ticks, Tick{At: v})
			}
		}
	}
	return ticks
}

// number is a tick's text, with commas between thousands from 10,000 on.
func number(v float64, decimals int) string {
	if v == 0 {
		v = 0 // not -0
	}
	if abs := math.Abs(v); abs >= 1e9 || abs > 0 && abs < 1e-6 {
		return strconv.FormatFloat(v, 'g', 3, 64)
	}
	text := strconv.FormatFloat(v, 'f', decimals, 64)
	whole, rest, _ := strings.Cut(text, ".")
	sign := ""
	if whole[0] == '-' {
		sign, whole = "-", whole[1:]
	}
	if len(whole) > 4 {
		for i := len(whole) - 3; i > 0; i -= 3 {
			whole = whole[:i] + "," + whole[i:]
		}
	}
	if rest != "" {
		rest = "." + rest
	}
	return sign + whole + rest
}
