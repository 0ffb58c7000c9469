// SPDX-License-Identifier: Apache-2.0

package forward

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// DefaultQueue is how many frames wait in one direction, at most.
const DefaultQueue = 4096

// Config says what becomes of a frame, the same in both directions.
type Config struct {
	A, B    string  // the two interfaces
	Tap     bool    // make A and B, as taps that go with the forwarder
	Delay   Dist    // between arrival and departure
	Loss    float64 // the share of frames lost, 0 to 1
	Rate    int64   // bits a second that a direction lets through; 0: no limit
	Reorder bool    // a frame with a shorter delay overtakes; else it waits for the one before
	Queue   int     // frames in one direction; 0: DefaultQueue
	Seed    uint64  // of the random numbers
}

// check refuses what makes no sense and fills in the default.
func (c *Config) check() error {
	switch {
	case c.A == "" || c.B == "" || c.A == c.B:
		return fmt.Errorf("forward between %q and %q: name two interfaces", c.A, c.B)
	case !(c.Loss >= 0 && c.Loss <= 1):
		return fmt.Errorf("loss %v: use a share from 0 to 1", c.Loss)
	case c.Rate < 0:
		return fmt.Errorf("rate %d: use bits a second, 0 for no limit", c.Rate)
	case c.Queue < 0:
		return fmt.Errorf("queue of %d frames: use 1 or more", c.Queue)
	}
	if c.Queue == 0 {
		c.Queue = DefaultQueue
	}
	return nil
}

// Forwarder joins two interfaces while Run runs. Counts may be called at any
// time from any goroutine; the other methods are for one goroutine.
type Forwarder struct {
	cfg   Config
	ports [2]*port
	dirs  [2]*direction
	wake  int // eventfd that ends a wait
	buf   []byte
}

// Open opens both interfaces, or makes them, in the network namespace of the
// calling thread. From then on frames are kept for Run. The caller closes it.
func Open(cfg Config) (*Forwarder, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	open := openPort
	if cfg.Tap {
		open = openTap
	}
	f := &Forwarder{cfg: cfg, wake: -1, buf: make([]byte, maxFrame+vlanLen)}
	var err error
	for i, name := range []string{cfg.A, cfg.B} {
		if f.ports[i], err = open(name); err != nil {
			return nil, errors.Join(err, f.Close())
		}
	}
	if f.wake, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return nil, errors.Join(fmt.Errorf("make eventfd: %w", err), f.Close())
	}
	for i := range f.dirs {
		f.dirs[i] = &direction{
			from: f.ports[i], to: f.ports[1-i], cfg: &f.cfg,
			rand: newRand(cfg.Seed, i),
		}
	}
	return f, nil
}

// newRand makes the random numbers of direction i.
func newRand(seed uint64, i int) *rand.Rand { return rand.New(rand.NewPCG(seed, uint64(i))) }

// Close closes the interfaces. Taps are gone then.
func (f *Forwarder) Close() error {
	var errs []error
	for i, p := range f.ports {
		if p != nil {
			errs = append(errs, p.close())
			f.ports[i] = nil
		}
	}
	if f.wake >= 0 {
		errs = append(errs, unix.Close(f.wake))
		f.wake = -1
	}
	return errors.Join(errs...)
}

// Counts of both directions, A to B first. Overruns are as of the last second.
func (f *Forwarder) Counts() []Counts {
	return []Counts{f.dirs[0].counts(), f.dirs[1].counts()}
}

// Waits longer than spin sleep until spin before the frame is due: waking up
// takes about that long.
const spin = 60 * time.Microsecond

// Run forwards until ctx ends, which is no error, or an interface is gone. Frames
// that wait then are not sent.
func (f *Forwarder) Run(ctx context.Context) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	// The kernel may wake a thread 50 us late otherwise. 0 is its default.
	if err := unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0); err == nil {
		defer unix.Prctl(unix.PR_SET_TIMERSLACK, 0, 0, 0, 0)
	}
	woken := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(woken)
		unix.Write(f.wake, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	})
	defer func() {
		if !stop() {
			<-woken // the descriptor may be closed from now on
		}
	}()
	f.readOverruns()
	defer f.readOverruns()
	second := time.Now()
	for ctx.Err() == nil {
		wait, err := f.turn()
		if err != nil {
			return err
		}
		if now := time.Now(); now.Sub(second) > time.Second {
			second = now
			f.readOverruns()
			if err := f.stillThere(); err != nil {
				return err
			}
		}
		if err := f.sleep(wait); err != nil {
			return err
		}
	}
	return nil
}

// turn does what can be done now and says how long nothing will have to be.
func (f *Forwarder) turn() (time.Duration, error) {
	wait := time.Second
	for _, d := range f.dirs {
		if err := d.receive(f.buf); err != nil {
			return 0, err
		}
		if next, waits := d.send(); waits {
			wait = min(wait, time.Until(next))
		}
	}
	return wait, nil
}

// sleep until a frame arrives, ctx ends, or the time is nearly over. The rest of
// the time is for trying again.
func (f *Forwarder) sleep(wait time.Duration) error {
	wait -= spin
	if wait <= 0 {
		return nil
	}
	fds := []unix.PollFd{
		{Fd: int32(f.ports[0].fd), Events: unix.POLLIN},
		{Fd: int32(f.ports[1].fd), Events: unix.POLLIN},
		{Fd: int32(f.wake), Events: unix.POLLIN},
	}
	timeout := unix.NsecToTimespec(int64(wait))
	if _, err := unix.Ppoll(fds, &timeout, nil); err != nil && !errors.Is(err, unix.EINTR) {
		return fmt.Errorf("wait for frames: %w", err)
	}
	return nil
}

// stillThere finds out whether an interface has gone: its socket only says that
// it is down.
func (f *Forwarder) stillThere() error {
	for _, p := range f.ports {
		if p.isTap { // is this process's own
			continue
		}
		if index, err := p.index(); err != nil || index != p.ifindex {
			return fmt.Errorf("interface %s is gone", p.name)
		}
	}
	return nil
}

func (f *Forwarder) readOverruns() {
	for _, d := range f.dirs {
		d.overrun.Store(d.from.overruns())
	}
}
