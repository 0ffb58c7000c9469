// SPDX-License-Identifier: Apache-2.0

// Package agent is the living part of a domain: the process that renews the
// sources' lease, follows the ring into aggregates, and the topology into roles.
//
// Nothing depends on it but that. A killed agent harms no packet; what the ring
// still holds is counted by the next one, which continues from the snapshot that
// the last one left. There is one agent a domain (agent.lock), found by its pid
// file and told to end by signals; it serves no socket.
//
// An agent has several loops that do not wait for each other, each with a Handle
// of its own: keep (lease, keys), follow (ring, snapshot), watch (topology), addresses
// (which nodes own), ipv6 (whether its programs are needed), marks (rules that use the mark)
// and, which need none, containers (those that start and are wanted in the domain), networks
// (what Docker calls bridges) and switches (processes that forward packets).
package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/vnetradar/radar/pkg/system/resident"
	"github.com/vnetradar/radar/pkg/vnet/datapath"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// End says why Run returned.
type End string

// The ends of Run.
const (
	Interrupted End = "interrupted"        // the context ended: Finish, or leave the domain to a later agent
	HandedOver  End = "handed over"        // another process asked for the domain (HandOver)
	Vanished    End = "domain is gone"     // the domain was detached by another process
	Deserted    End = "its nodes are gone" // and its lease is over
)

// errEnd carries the End out of the loops.
type errEnd struct{ end End }

func (e errEnd) Error() string { return string(e.end) }

// Agent is the agent of one domain. Its methods are for one goroutine.
type Agent struct {
	name    string
	log     *slog.Logger
	reader  *Reader
	handle  *datapath.Handle // for the counters and the end
	life    *resident.Life
	signals chan os.Signal
	// switches learns in which nodes a process forwards packets.
	switches *switches
}

// Open makes the calling process the agent of an attached domain and opens what
// it needs; Run does the work. It returns resident.ErrRunning if there is an agent
// already, domain.ErrNotAttached if there is no domain. The caller closes it.
func Open(name string, log *slog.Logger) (_ *Agent, err error) {
	if _, err := domain.Load(name); err != nil {
		return nil, err
	}
	a := &Agent{name: name, log: log, signals: make(chan os.Signal, 1), switches: newSwitches(name, log)}
	defer func() {
		if err != nil {
			a.Close()
		}
	}()
	// Before the pid file names us: from then on the signal may come.
	signal.Notify(a.signals, HandOver)
	if a.life, err = seat(name).Take(); err != nil {
		return nil, err
	}
	if a.handle, err = openHandle(name); err != nil {
		return nil, err
	}
	var note string
	if a.reader, note, err = OpenReader(name); err != nil {
		return nil, err
	}
	if note != "" {
		log.Warn(note)
	}
	return a, nil
}

// Close gives the domain free for another agent. It does not detach.
func (a *Agent) Close() {
	signal.Stop(a.signals)
	a.closeMaps()
	a.life.Close()
	a.life = nil
}

// closeMaps closes everything of the domain except the claim.
func (a *Agent) closeMaps() {
	if a.reader != nil {
		a.warnIf("close reader", a.reader.Close())
		a.reader = nil
	}
	if a.handle != nil {
		a.warnIf("close domain", a.handle.Close())
		a.handle = nil
	}
}

func (a *Agent) warnIf(what string, err error) {
	if err != nil {
		a.log.Warn(what, "error", err)
	}
}

// Run works until ctx ends, another process takes over, or the domain is gone.
// ready, if not nil, is called once everything runs. When Run returns, the
// snapshot is written (unless the domain is gone).
func (a *Agent) Run(ctx context.Context, ready func()) (End, error) {
	garbage := resident.NewGarbage()
	marks, err := newMarks(a.name, a.log, a.life.Troubles) // before the lease is renewed
	if err != nil {
		return "", err
	}
	defer marks.close()
	keeper, err := newKeeper(a.name, a.log, a.life.Troubles)
	if err != nil {
		return "", err
	}
	defer keeper.close()
	addresses, err := newAddresses(a.name, a.log, a.life.Troubles) // before watch tells the programs what has changed
	if err != nil {
		return "", err
	}
	defer addresses.close()
	ipv6, err := newIPv6(a.name, a.log, a.life.Troubles, addresses.wide6)
	if err != nil {
		return "", err
	}
	defer ipv6.close()
	watch, err := newWatch(a.name, a.log, a.life.Troubles, marks.watcher)
	if err != nil {
		return "", err
	}
	defer watch.close()

	group, inner := errgroup.WithContext(ctx)
	wakes := new(resident.Pulse)
	group.Go(func() error { return a.await(inner) })
	group.Go(func() error { return keeper.run(inner, wakes) })
	group.Go(func() error { return watch.run(inner, wakes) })
	group.Go(func() error { return addresses.run(inner, wakes) })
	group.Go(func() error { return ipv6.run(inner, wakes) })
	group.Go(func() error { return marks.run(inner, wakes) })
	group.Go(func() error { return newContainers(a.name, a.log).run(inner, wakes) })
	group.Go(func() error { return newNetworks(a.name, a.log).run(inner, wakes) })
	group.Go(func() error { return a.switches.run(inner) })
	group.Go(func() error { return a.follow(inner, wakes, garbage) })
	group.Go(func() error { return wakes.Run(inner) })
	if ready != nil {
		ready()
	}
	err = group.Wait()
	var ended errEnd
	switch {
	case errors.As(err, &ended):
		return ended.end, nil
	case err != nil && ctx.Err() == nil:
		return "", err
	}
	return Interrupted, nil
}

// await ends the loops when another process wants the domain.
func (a *Agent) await(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-a.signals:
		return errEnd{HandedOver}
	}
}

// Intervals of the loops.
const (
	pollMost  = 100 * time.Millisecond // ring, while it moves slowly; at rest resident.QuickEvery
	pollLeast = time.Millisecond
)

// follow turns the ring into aggregates until ctx ends.
func (a *Agent) follow(ctx context.Context, p *resident.Pulse, garbage *resident.Garbage) error {
	var (
		pace          = pacer{slots: uint64(a.reader.Domain.Options.Slots)}
		once          = resident.Logger{Log: a.log, Troubles: a.life.Troubles}
		quick, second = p.Quick(), p.Second()
		soon          = time.After(0) // nil: the next beat is soon enough
		save          = true
	)
	for {
		select {
		case <-ctx.Done():
			once.Warn("write snapshot", a.save())
			return nil
		case <-soon:
		case <-second:
			save = true
			if soon != nil {
				continue // the look that is due soon writes it: one at once would find few packets
			}
		case <-quick:
			if soon != nil {
				continue
			}
		}
		once.Warn("follow the ring", a.reader.Collector.Poll())
		cursor := a.reader.Maps.Cursor()
		p.Moved(cursor)
		soon = nil
		if interval := pace.next(cursor, time.Now()); interval < resident.QuickEvery {
			soon = time.After(interval)
		}
		if !save {
			continue
		}
		save = false
		err := a.reader.Update()
		if errors.Is(err, domain.ErrNotAttached) {
			return errEnd{Vanished}
		}
		once.Warn("read the domain's description", err)
		once.Warn("write snapshot", a.reader.Collector.Save())
		a.switches.put(a.reader.Decoder.TakeForwarders())
		garbage.Adjust()
	}
}

// save writes the snapshot if the domain is still there: a state directory that
// was removed must not come back.
func (a *Agent) save() error {
	if err := a.reader.Update(); errors.Is(err, domain.ErrNotAttached) {
		return nil
	}
	return a.reader.Collector.Save()
}

// pacer chooses when to look at the ring again: often enough that a fast ring
// does not come round unseen, else seldom.
type pacer struct {
	slots uint64
	last  uint64    // cursor at the last look
	when  time.Time // of the last look
}

// burst is how fast a ring at rest must be expected to start, in positions a
// second: the interval is chosen so that it gets half a round at most. One that
// moves gets a quarter.
const burst = 2_000_000

// next returns the time until the next look, with the ring at cursor now.
func (p *pacer) next(cursor uint64, now time.Time) time.Duration {
	rate, most, part := float64(burst), pollMost, 4
	if cursor == p.last && !p.when.IsZero() {
		most, part = resident.QuickEvery, 2
	}
	if since := now.Sub(p.when).Seconds(); !p.when.IsZero() && since > 0 {
		rate = max(rate, float64(cursor-p.last)/since)
	}
	p.last, p.when = cursor, now
	seconds := float64(p.slots) / float64(part) / rate
	return min(max(time.Duration(seconds*float64(time.Second)), pollLeast), most)
}

// openHandle opens a handle for one loop.
func openHandle(name string) (*datapath.Handle, error) {
	h, err := datapath.Open(name)
	if err != nil {
		return nil, fmt.Errorf("open domain: %w", err)
	}
	return h, nil
}
