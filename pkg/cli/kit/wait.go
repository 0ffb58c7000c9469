// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"context"
	"time"
)

// FollowEvery is how often new packets are looked for.
const FollowEvery = 100 * time.Millisecond

// Wait waits, and says whether ctx still lives.
func Wait(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
