// SPDX-License-Identifier: Apache-2.0

package explain

import "math"

// relation is how two numbers of the same things go together.
type relation struct {
	n, x, y, xx, yy, xy float64
}

func (r *relation) add(x, y float64) {
	r.n++
	r.x += x
	r.y += y
	r.xx += x * x
	r.yy += y * y
	r.xy += x * y
}

// linear reports whether y grows with x, and by more than noise.
func (r *relation) linear() bool {
	if r.n < 20 {
		return false
	}
	covariance := r.xy - r.x*r.y/r.n
	vx, vy := r.xx-r.x*r.x/r.n, r.yy-r.y*r.y/r.n
	if vx <= 0 || vy <= 0 || math.Sqrt(vy/r.n) < 0.1*r.y/r.n {
		return false
	}
	return covariance/math.Sqrt(vx*vy) >= 0.7 // Pearson's coefficient
}
