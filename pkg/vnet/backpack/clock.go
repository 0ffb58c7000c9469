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

// clockSet is the least change of the offset that means that the wall clock was set,
// and not that it was measured badly.
const clockSet = int64(100 * time.Microsecond)

// chooseOffset returns the offset that was stored at attach, so that a packet has the
// same time whoever asks, unless the wall clock was set since: then what a process
// measures itself agrees with the clock that its user sees.
func chooseOffset(stored, measured int64) int64 {
	if d := stored - measured; -clockSet < d && d < clockSet {
		return stored
	}
	return measured
}
