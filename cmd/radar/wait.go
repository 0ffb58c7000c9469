// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"time"
)

// followEvery is how often new packets are looked for.
const followEvery = 100 * time.Millisecond

// wait waits, and says whether ctx still lives.
func wait(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
