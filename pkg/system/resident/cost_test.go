// SPDX-License-Identifier: Apache-2.0

package resident

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/host"
)

// A process has taken what the kernel says of it elsewhere.
func TestCost(t *testing.T) {
	of, err := host.Self()
	if err != nil {
		t.Fatal(err)
	}
	self := Process{of}
	for spin := uint64(0); ; spin++ { // until the kernel has counted some of it
		if c, err := self.Cost(); err != nil || c.CPU >= 50*time.Millisecond {
			break
		}
	}
	var before, after unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &before); err != nil {
		t.Fatal(err)
	}
	cost, err := self.Cost()
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Getrusage(unix.RUSAGE_SELF, &after); err != nil {
		t.Fatal(err)
	}
	used := func(r *unix.Rusage) time.Duration { return time.Duration(r.Utime.Nano() + r.Stime.Nano()) }
	// /proc cuts both times to ticks.
	const tick = 10 * time.Millisecond
	if cost.CPU < used(&before)-2*tick || cost.CPU > used(&after)+2*tick {
		t.Errorf("%v of CPU, between %v and %v is right", cost.CPU, used(&before), used(&after))
	}
	// A file that is mapped, as the ring is, is not its own memory.
	const mapped = 64 << 20
	f, err := os.Create(filepath.Join(t.TempDir(), "ring"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(mapped); err != nil {
		t.Fatal(err)
	}
	ring, err := unix.Mmap(int(f.Fd()), 0, mapped, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(ring)
	for i := 0; i < mapped; i += os.Getpagesize() {
		ring[i] = 1
	}
	if cost, err = self.Cost(); err != nil || cost.Age <= 0 || cost.Memory < 1<<20 || cost.Memory >= mapped {
		t.Errorf("%+v, %v; %d bytes are mapped", cost, err, mapped)
	}
	if want := cost.CPU.Seconds() / cost.Age.Seconds(); cost.Share() != want {
		t.Errorf("a share of %v, want %v", cost.Share(), want)
	}
	if _, err := (Process{host.Process{PID: 1 << 30}}).Cost(); err == nil {
		t.Error("a process that is not there has taken something")
	}
}
