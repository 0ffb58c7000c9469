// SPDX-License-Identifier: Apache-2.0

package sink

import "time"

// What tests know beside what others do.
const (
	Queued     = queued
	FirstRetry = firstRetry
)

// What is written for a test to compare with.
var (
	Quoted    = quoted
	FlowGroup = flowGroup
)

// Snapshot gives one to every output, as each tick does.
func (f *Fanout) Snapshot() { f.snapshot(time.Now(), false) }

// Waits reports whether a snapshot waits for the output of that name.
func (f *Fanout) Waits(name string) bool {
	for _, q := range f.queues {
		if q.output.Name() == name && q.onWay.Load() {
			return true
		}
	}
	return false
}

// Cancel ends the time that outputs have.
func (f *Fanout) Cancel() { f.cancel() }
