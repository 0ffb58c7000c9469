// SPDX-License-Identifier: Apache-2.0

package kernels

import (
	"os"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/pkg/host/clock"
	"github.com/vnetradar/radar/pkg/vnet/datapath/program"
)

// ownMachine is set where nobody else needs the clock: by lab/test/kernels/init.sh.
const ownMachine = "RADAR_OWN_MACHINE"

// TestClockSet sets the wall clock to and fro, by an hour, while packets are measured under
// a lease: neither stories nor the lease may know of it.
func TestClockSet(t *testing.T) {
	need.AsRoot(t)
	if os.Getenv(ownMachine) == "" {
		need.Lack(t, need.Kernel, "a machine whose clock the test may set (make kernels)")
	}
	offset := clock.WallOffset()
	var times atomic.Int64
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for n := int64(1); ; n++ {
			select {
			case <-stop:
				setClock(t, offset)
				return
			case <-time.After(20 * time.Millisecond):
				setClock(t, offset+int64([]time.Duration{time.Hour, -time.Hour}[n%2]))
				times.Store(n)
			}
		}
	}()
	defer func() { // also where the test ends early
		close(stop)
		<-done
	}()
	o := program.DefaultOptions()
	o.Slots, o.Hook, o.Lease = 1<<16, program.HookClsact, 30*time.Minute
	// One is enough, unless the goroutine that sets the clock got no CPU meanwhile.
	for times.Load() < 10 && !t.Failed() {
		measure(t, newNetwork(t), o, program.Probe())
	}
}

// setClock lets the wall clock be so many ns later than the monotonic one.
func setClock(t *testing.T, offset int64) {
	ts := unix.NsecToTimespec(int64(clock.Monotonic()) + offset)
	if err := unix.ClockSettime(unix.CLOCK_REALTIME, &ts); err != nil {
		t.Errorf("set the clock: %v", err)
	}
}
