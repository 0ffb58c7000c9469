// SPDX-License-Identifier: Apache-2.0

package outputs

import "time"

// Snapshot gives one to every output, as each tick does.
func (f *Fanout) Snapshot() { f.snapshot(time.Now(), false) }

// Waits reports whether a snapshot waits for an output.
func (f *Fanout) Waits() bool {
	for _, q := range f.queues {
		if q.onWay.Load() {
			return true
		}
	}
	return false
}
