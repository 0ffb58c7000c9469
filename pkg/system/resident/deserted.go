// SPDX-License-Identifier: Apache-2.0

package resident

import (
	"errors"

	"github.com/vnetradar/radar/pkg/system"
)

// ErrDeserted says that all ports of a domain are gone: its lease is renewed no more, and its agent ends with it. Until
// then a port that comes back is found as ever.
var ErrDeserted = errors.New("all of its ports are gone; the agent ends when the lease does")

// HasEnded reports whether err is ErrDeserted, and the lease that was not renewed is over. Of a domain that somebody detaches,
// or attaches just now, it is not: that one goes on.
func HasEnded(err error, lease system.Lease) bool {
	left, ends := lease.Left()
	return errors.Is(err, ErrDeserted) && ends && left <= 0 && !lease.IsDetaching() && !lease.IsNone()
}
