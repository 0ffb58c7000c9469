// SPDX-License-Identifier: Apache-2.0

package backpack

import (
	"math"
	"sync"

	"golang.org/x/sys/unix"
)

// Monotonic returns CLOCK_MONOTONIC in ns: the clock of every stamp.
func Monotonic() uint64 { return uint64(clock(unix.CLOCK_MONOTONIC)) }

func clock(id int32) int64 {
	var ts unix.Timespec
	// Both clocks exist on every kernel; the call cannot fail.
	_ = unix.ClockGettime(id, &ts)
	return ts.Nano()
}

// wallOffset is what turns stamps into Unix time. It is measured once, so that the
// times of one process are consistent when the wall clock is set meanwhile.
var wallOffset = sync.OnceValue(func() int64 {
	var offset int64
	best := int64(math.MaxInt64)
	for range 16 {
		before := clock(unix.CLOCK_MONOTONIC)
		wall := clock(unix.CLOCK_REALTIME)
		after := clock(unix.CLOCK_MONOTONIC)
		// The tightest bracket was disturbed least.
		if width := after - before; width < best {
			best, offset = width, wall-(before+width/2)
		}
	}
	return offset
})
