// SPDX-License-Identifier: Apache-2.0

package figure

import (
	"fmt"
	"strconv"
	"strings"

	"gonum.org/v1/plot/vg"
)

// Size of a figure, and of its text.
type Size struct {
	Width, Height vg.Length
	Text          vg.Length // of labels; 0: 8 points
}

// Sizes by name. The columns are those of two-column papers (ACM, IEEE, USENIX), the slide is of 16 to 9.
var Sizes = map[string]Size{
	"column": {84 * vg.Millimeter, 60 * vg.Millimeter, 8},
	"page":   {177 * vg.Millimeter, 75 * vg.Millimeter, 8},
	"slide":  {254 * vg.Millimeter, 143 * vg.Millimeter, 14},
}

// Bounds of a side.
const (
	least = 20 * vg.Millimeter
	most  = 2000 * vg.Millimeter
)

// ParseLength reads a length with its unit: 84mm, 8.4cm, 3.3in, 240pt.
func ParseLength(s string) (vg.Length, error) {
	for unit, points := range map[string]vg.Length{"mm": vg.Millimeter, "cm": vg.Centimeter, "in": vg.Inch, "pt": 1} {
		text, ok := strings.CutSuffix(s, unit)
		if !ok {
			continue
		}
		v, err := strconv.ParseFloat(text, 64)
		if err != nil || !(v > 0) {
			break
		}
		if l := vg.Length(v) * points; l >= least && l <= most {
			return l, nil
		}
		return 0, fmt.Errorf("%q: a side is from 20mm to 2000mm long", s)
	}
	return 0, fmt.Errorf("%q is no length: use a number with mm, cm, in or pt, such as 84mm", s)
}
