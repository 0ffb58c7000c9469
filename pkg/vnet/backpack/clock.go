// SPDX-License-Identifier: Apache-2.0

package backpack

import (
	"sync"
	"time"

	"github.com/vnetradar/radar/pkg/host/clock"
)

// processOffset is measured once, so that the times of one process are consistent
// when the wall clock is set meanwhile.
var processOffset = sync.OnceValue(clock.WallOffset)

// clockSet is the least change of the offset that means that the wall clock was set. A
// smaller one is an error of measurement.
const clockSet = int64(100 * time.Microsecond)

// chooseOffset returns the offset that was stored at attach, so that every process shows
// the same time for a packet. If the wall clock was set since, it returns the measured one,
// which agrees with the clock that the user sees.
func chooseOffset(stored, measured int64) int64 {
	if d := stored - measured; -clockSet < d && d < clockSet {
		return stored
	}
	return measured
}
