// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// Service brings devices to what is wanted, and keeps them there. One process is it at a time.
//
// Nothing but files and devices knows where it stands. So it may be killed at any moment: the next one
// asks the devices what they hold, and goes on.
type Service struct {
	Store   *Store
	Drivers map[string]Driver
	// Resolve finds the address of a collector, HOST:PORT.
	Resolve func(ctx context.Context, text string) (netip.AddrPort, error)
	Log     *slog.Logger

	wanted    Wanted
	collector netip.AddrPort
	resolved  string    // what collector is the address of
	asked     time.Time // for the address of asking
	asking    string
	devices   []*device
	plan      *compiled
	stale     bool      // plan is not that of wanted and of what devices can do
	replan    time.Time // when an intent's time is over
	status    Status
	saved     string
	savedAt   time.Time
	settled   bool
	events    []Event
	came      chan connected // connections that were opened
	troubles  map[string]string
}

// How often things are looked at. Tests do it more often.
var (
	lookEvery  = 200 * time.Millisecond // at what is wanted
	holdEvery  = time.Second            // whether devices hold what they were given
	leastWait  = 500 * time.Millisecond // before a device is tried again
	drainQuiet = 200 * time.Millisecond // in which no packet with INT must have passed
)

// How long things may take.
const (
	mostWait    = 10 * time.Second // before a device is tried again
	drainMost   = 5 * time.Second
	connectTime = 10 * time.Second
	applyTime   = 30 * time.Second
	askTime     = 5 * time.Second
	atOnce      = 8 // devices that are asked at the same time
)

// device is one that is to hold something, or has to be cleared.
type device struct {
	Device
	key       string // a device with other options is another one
	driver    Driver
	conn      Conn
	isOpening bool
	abilities *Abilities
	held      *State // nil: nobody knows
	unsure    bool   // its entries may be others
	gives     bool   // packets may get INT there
	leaving   bool
	off       bool // it holds nothing
	state     DeviceState
	since     time.Time
	err       string
	tries     int
	next      time.Time // when it is tried again
	withdrawn time.Time // when its sources were last stopped
	counters  map[string]uint64
	before    *State // what the service before this one has given it
}

// connected is a connection that was opened, or was not.
type connected struct {
	to        *device
	conn      Conn
	held      *State
	abilities Abilities
	err       error
}

func (d *device) set(state DeviceState) {
	if d.state != state {
		d.state, d.since = state, time.Now().UTC()
	}
}

func keyOf(d Device) string {
	b, _ := json.Marshal(d) // maps are written in order
	return string(b)
}

// Run works until ctx ends, which leaves devices as they are, or until INT is not wanted any more and is
// off all devices. ready is called once it has begun.
func (s *Service) Run(ctx context.Context, ready func()) error {
	s.came, s.troubles, s.stale = make(chan connected), make(map[string]string), true
	status, err := s.Store.Status()
	if err != nil {
		return err
	}
	s.status = status
	for _, d := range status.Devices {
		one := &device{Device: d.Device, key: keyOf(d.Device), driver: s.Drivers[d.Driver], before: d.Held, gives: d.Gives, leaving: true, off: d.State == Off}
		one.set(Connecting)
		s.devices = append(s.devices, one)
	}
	inner, stop := context.WithCancel(ctx)
	defer s.close(stop)
	s.eventf("service", "", "the service starts")
	ready()
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	asked := time.Time{}
	for {
		s.look(inner)
		s.connect(inner)
		if time.Since(asked) >= holdEvery {
			s.ask(inner)
			asked = time.Now()
		}
		if s.isSettled() {
			s.save() // what was found, before what may take its time
			s.reconcile(inner)
		}
		s.save()
		if ctx.Err() == nil && !s.wanted.Running && s.isOff() {
			s.eventf("service", "", "INT is off all devices: the service ends")
			s.save()
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case c := <-s.came:
			s.take(c)
		case <-ticker.C:
		}
	}
}

// close lets go of all devices, which keep what they hold.
func (s *Service) close(stop func()) {
	stop()
	for _, d := range s.devices {
		if d.isOpening {
			if c := <-s.came; c.conn != nil {
				c.conn.Close()
			}
		}
	}
	for _, d := range s.devices {
		if d.conn != nil {
			d.conn.Close()
		}
	}
}

func (s *Service) isOff() bool {
	return !slices.ContainsFunc(s.devices, func(d *device) bool { return !d.off })
}

func (s *Service) eventf(kind, of, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	s.events = append(s.events, Event{Time: time.Now().UTC(), Kind: kind, Of: of, Text: text})
	s.Log.Info(text)
}

// trouble logs what fails again and again once; err is nil if it has worked.
func (s *Service) trouble(what string, err error) {
	switch was := s.troubles[what]; {
	case err == nil && was != "":
		delete(s.troubles, what)
		s.Log.Info("it works again: " + what)
	case err != nil && err.Error() != was:
		s.troubles[what] = err.Error()
		s.Log.Warn("cannot "+what, "error", err)
	}
}

// look reads what is wanted, and works out what each device is to hold if that has changed.
func (s *Service) look(ctx context.Context) {
	w, err := s.Store.Wanted()
	s.trouble("read what is wanted", err)
	if err == nil && (w.Generation != s.wanted.Generation || s.plan == nil) {
		s.wanted, s.stale = w, true
		s.adopt()
	}
	s.resolve(ctx)
	now := time.Now()
	if !s.stale && (s.replan.IsZero() || now.Before(s.replan)) {
		return
	}
	abilities := make(map[string]Abilities)
	for _, d := range s.devices {
		if d.abilities != nil && !d.leaving {
			abilities[d.Name] = *d.abilities
		}
	}
	effective := s.wanted
	if s.status.Mark != "" { // until no packet bears the one before
		effective.Config.Mark = s.status.Mark
	} else {
		s.status.Mark = s.wanted.Config.Full().Mark
	}
	s.plan, s.stale = compile(&effective, abilities, s.collector, now), false
	s.replan = time.Time{}
	for _, i := range s.wanted.Intents {
		if !i.Expires.IsZero() && i.Expires.After(now) && (s.replan.IsZero() || i.Expires.Before(s.replan)) {
			s.replan = i.Expires
		}
	}
}

// resolve finds the collector's address.
func (s *Service) resolve(ctx context.Context) {
	text := s.wanted.Config.Full().Collector
	if text == s.resolved && s.collector.IsValid() || time.Since(s.asked) < mostWait && text == s.asking {
		return // a name that is not known takes its time each time
	}
	s.asked, s.asking = time.Now(), text
	inner, stop := context.WithTimeout(ctx, askTime)
	defer stop()
	to, err := s.Resolve(inner, text)
	s.trouble("find the collector "+text, err)
	if err == nil {
		s.collector, s.resolved, s.stale = to, text, true
	}
}

// adopt makes the list of devices that of the topology. What is there no more has to be cleared.
func (s *Service) adopt() {
	wanted := make(map[string]Device)
	var order []string
	if s.wanted.Running {
		for i := range s.wanted.Topology.Nodes {
			if n := &s.wanted.Topology.Nodes[i]; n.IsDevice() {
				wanted[keyOf(n.Device)] = n.Device
				order = append(order, keyOf(n.Device))
			}
		}
	}
	for _, d := range s.devices {
		_, is := wanted[d.key]
		if is && d.leaving && d.off {
			d.off, d.held = false, nil
		}
		d.leaving, d.next = !is, time.Time{} // what has failed may work now
		delete(wanted, d.key)
	}
	for _, key := range order {
		if to, isNew := wanted[key]; isNew {
			d := &device{Device: to, key: key, driver: s.Drivers[to.Driver]}
			d.set(Connecting)
			s.devices = append(s.devices, d)
		}
	}
}

// isBlocked reports whether another device of that name, or at that place, has to be cleared first.
func (s *Service) isBlocked(d *device) bool {
	return slices.ContainsFunc(s.devices, func(o *device) bool {
		return o != d && o.leaving && !o.off && !d.leaving && (o.Name == d.Name || o.Driver == d.Driver && o.Spec == d.Spec)
	})
}

// connect opens devices that have no connection, each by itself: one that does not answer holds up no other.
func (s *Service) connect(ctx context.Context) {
	for _, d := range s.devices {
		if d.conn != nil || d.isOpening || d.off && d.leaving || time.Now().Before(d.next) || s.isBlocked(d) {
			continue
		}
		d.isOpening = true
		before := d.before
		go func() {
			c := connected{to: d}
			inner, stop := context.WithTimeout(ctx, connectTime)
			defer stop()
			c.conn, c.held, c.abilities, c.err = open(inner, d.Device, d.driver, before)
			s.came <- c // close takes it, if nobody else does
		}()
	}
}

// open opens a device, and finds out whether it holds what it was given before.
func open(ctx context.Context, d Device, driver Driver, before *State) (conn Conn, held *State, a Abilities, err error) {
	if driver == nil {
		return nil, nil, a, fmt.Errorf("there is no driver %q here", d.Driver)
	}
	if err := driver.Check(d); err != nil {
		return nil, nil, a, err
	}
	if conn, err = driver.Connect(ctx, d); err != nil {
		return nil, nil, a, err
	}
	if before != nil {
		// Applied once more it changes nothing, and the connection knows what the device is to hold.
		if lines, err := conn.Plan(ctx, *before); err == nil && len(lines) == 0 && conn.Apply(ctx, *before) == nil {
			held = before
		}
	}
	return conn, held, conn.Abilities(), nil
}

// take takes a connection that was opened.
func (s *Service) take(c connected) {
	d := c.to
	d.isOpening = false
	if c.err != nil {
		d.gone(c.err)
		s.failed(d, Unreachable, c.err)
		return
	}
	d.conn, d.held, d.abilities, d.unsure = c.conn, c.held, &c.abilities, false
	d.err, d.tries, d.next = "", 0, time.Time{}
	d.gives = d.held == nil && d.gives || d.held != nil && d.held.gives()
	d.set(Applying)
	s.stale = true
	s.eventf("device", d.Name, "device %s answers", d.Name)
	s.look(context.Background())
}

// failed keeps why something did not work, and when the device is tried again.
func (s *Service) failed(d *device, state DeviceState, err error) {
	if d.state != state || d.err != err.Error() {
		s.eventf("device", d.Name, "device %s: %s: %v", d.Name, state, err)
	}
	d.set(state)
	d.err = err.Error()
	d.tries++
	d.next = time.Now().Add(backoff(d.tries))
}

// backoff is how long a device is left alone that has failed so often.
func backoff(tries int) time.Duration { return min(mostWait, leastWait<<min(tries-1, 10)) }

// lost lets go of a device that does not answer any more.
func (s *Service) lost(d *device, err error) {
	d.conn.Close()
	if d.held != nil {
		d.before = d.held // it may still hold that when it comes back
	}
	d.conn, d.held = nil, nil
	d.gone(err)
	s.failed(d, Unreachable, err)
}

// gone forgets what a device holds if it is there no more.
func (d *device) gone(err error) {
	if errors.Is(err, ErrGone) {
		d.gives, d.before, d.off = false, nil, d.leaving
	}
}

// each calls f for devices, a few at a time, and waits for all. f is given a time to be done in.
func each(ctx context.Context, list []*device, most time.Duration, f func(context.Context, *device) error) []error {
	errs := make([]error, len(list))
	var group sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	for i, d := range list {
		group.Add(1)
		slots <- struct{}{}
		go func() {
			defer group.Done()
			defer func() { <-slots }()
			inner, stop := context.WithTimeout(ctx, most)
			defer stop()
			errs[i] = f(inner, d)
		}()
	}
	group.Wait()
	return errs
}

// ask asks all devices whether they hold what they were given, and what they have counted.
func (s *Service) ask(ctx context.Context) {
	list := slices.DeleteFunc(slices.Clone(s.devices), func(d *device) bool { return d.conn == nil || d.off })
	holds := make([]bool, len(list))
	errs := each(ctx, list, askTime, func(ctx context.Context, d *device) (err error) {
		i := slices.Index(list, d)
		if holds[i], err = d.conn.Holds(ctx); err != nil {
			return err
		}
		if counters, err := d.conn.Counters(ctx); err == nil {
			d.counters = counters
		}
		return nil
	})
	for i, d := range list {
		switch {
		case ctx.Err() != nil:
			return
		case errs[i] != nil:
			s.lost(d, errs[i])
		case d.held != nil && !holds[i]:
			s.eventf("device", d.Name, "device %s does not hold any more what it was given", d.Name)
			d.before, d.held = d.held, nil
			d.set(Applying)
		}
	}
}

// isSettled reports whether all devices that were there at the beginning have been asked. Until then nobody
// knows what they hold, and entries stay as they are.
func (s *Service) isSettled() bool {
	s.settled = s.settled || !slices.ContainsFunc(s.devices, func(d *device) bool {
		return d.conn == nil && d.tries == 0 && !d.off && !s.isBlocked(d) // what is blocked was not there
	})
	return s.settled
}
