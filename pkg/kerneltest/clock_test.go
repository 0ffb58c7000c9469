// SPDX-License-Identifier: Apache-2.0

package kerneltest

import (
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/clock"
	"github.com/vnetradar/radar/pkg/datapath"
)

// ownMachine is set where nobody else needs the clock: by lab/kernels/init.sh.
const ownMachine = "RADAR_OWN_MACHINE"

// TestClockSet sets the wall clock to and fro, by an hour, while packets are measured under
// a lease: neither stories nor the lease may know of it.
func TestClockSet(t *testing.T) {
	needRoot(t)
	if os.Getenv(ownMachine) == "" {
		t.Skip("sets the machine's clock: runs where the machine is the test's own (make kernels)")
	}
	offset := clock.WallOffset()
	stop, done := make(chan struct{}), make(chan int)
	go func() {
		for n := 0; ; n++ {
			select {
			case <-stop:
				setClock(t, offset)
				done <- n
				return
			case <-time.After(20 * time.Millisecond):
				setClock(t, offset+int64([]time.Duration{time.Hour, -time.Hour}[n%2]))
			}
		}
	}()
	defer func() { // also where the test ends early
		close(stop)
		if n := <-done; n < 10 {
			t.Errorf("the clock was set %d times only", n)
		}
	}()
	o := datapath.DefaultOptions()
	o.Slots, o.Hook, o.Lease = 1<<16, datapath.HookClsact, 30*time.Minute
	measure(t, newNetwork(t), o, datapath.Probe())
}

// setClock lets the wall clock be so many ns later than the monotonic one.
func setClock(t *testing.T, offset int64) {
	ts := unix.NsecToTimespec(int64(clock.Monotonic()) + offset)
	if err := unix.ClockSettime(unix.CLOCK_REALTIME, &ts); err != nil {
		t.Errorf("set the clock: %v", err)
	}
}
