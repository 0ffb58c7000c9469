// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
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

// UntilInterrupt ends ctx at the first Ctrl-C or SIGTERM, for a command that then finishes files. Those that follow end
// nothing, until release is called: whoever is impatient would lose what the command had. The second one says so.
func (k *Kit) UntilInterrupt(ctx context.Context) (_ context.Context, release func()) {
	ctx, stop := context.WithCancel(ctx)
	came, done := make(chan os.Signal, 2), make(chan struct{})
	signal.Notify(came, os.Interrupt, syscall.SIGTERM)
	go func() {
		for n := 0; ; n++ {
			select {
			case <-came:
			case <-done:
				return
			}
			stop()
			if n == 1 {
				fmt.Fprintf(k.Stderr, "radar: the files are being finished; kill -9 %d ends this at once, and loses what they lack\n", os.Getpid())
			}
		}
	}()
	return ctx, func() {
		signal.Stop(came)
		close(done)
		stop()
	}
}
