// SPDX-License-Identifier: Apache-2.0

// Package agent is the living part of an INT domain: the process that renews the lease of sources, makes
// telemetry reports of what the programs saw and sends them, and keeps what the programs know of
// interfaces up to date.
//
// The programs do not need it. If it is killed they go on: sources and transits until the lease ends, sinks
// after that, too. What the ring has room for is sent by the next agent.
package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/ringbuf"
	"golang.org/x/sync/errgroup"

	"github.com/vnetradar/radar/pkg/bpfobj"
	"github.com/vnetradar/radar/pkg/host/background"
	"github.com/vnetradar/radar/pkg/host/statedir"
	"github.com/vnetradar/radar/pkg/loader"
	"github.com/vnetradar/radar/pkg/system"
	"github.com/vnetradar/radar/pkg/system/resident"
	"github.com/vnetradar/radar/pkg/telemetry/node"
	"github.com/vnetradar/radar/pkg/telemetry/send"
)

func seat(name string) resident.Seat {
	return resident.Seat{Kind: node.Kind, Domain: name}
}

// Find returns the agent of a domain. None is the zero Process.
func Find(name string) (resident.Process, error) { return seat(name).Find() }

// Ensure starts an agent in the background if there is none.
func Ensure(name string) (background.Started, error) {
	return seat(name).Ensure()
}

// End ends the agent, if there is one: it sends what it has.
func End(ctx context.Context, name string) error { return seat(name).End(ctx) }

const (
	ringEvery = 10 * time.Millisecond // between looks at a ring that has something: each look costs programs a wakeup
	ringMost  = time.Second           // between looks at one that has nothing, and says so
)

// Agent is the agent of one domain.
type Agent struct {
	name    string
	log     *slog.Logger
	life    *resident.Life
	control *node.Control
	watcher *node.Watcher
	hearing *system.Listener // of interfaces; nil: the kernel tells nothing
	heard   <-chan struct{}
	looks   time.Duration // at interfaces, where nothing is heard; 0: as a Keeper does
	reader  *ringbuf.Reader
	ring    *ebpf.Map
	file    statedir.Stamp // of the description
	written []byte         // its state, as others can read it

	mu      sync.Mutex // of what follows
	domain  *node.Domain
	reports *assembler
	sender  *send.Sender
	before  send.Counts // of senders that were closed
	since   time.Time
	lost    uint64 // reports without a socket
	once    resident.Logger
}

// Open makes the calling process the agent of a domain. resident.ErrRunning: there is one. The caller closes it.
func Open(name string, log *slog.Logger) (_ *Agent, err error) {
	a := &Agent{name: name, log: log, watcher: node.NewWatcher(), since: time.Now()}
	defer func() {
		if err != nil {
			a.Close()
		}
	}()
	if _, err := node.Load(name); err != nil {
		return nil, err
	}
	if a.life, err = seat(name).Take(); err != nil {
		return nil, err
	}
	a.once = a.life.Logger(log)
	a.hearing, a.heard, err = system.ListenLinks()
	a.once.Warn("hear of interfaces", err)
	// Whoever attached may have been killed before all was there.
	if _, warnings, err := node.Refresh(name); err != nil && !errors.Is(err, system.ErrDetaching) {
		return nil, err
	} else if len(warnings) > 0 {
		log.Warn("attach", "warnings", warnings)
	}
	if a.control, err = node.OpenControl(name); err != nil {
		return nil, err
	}
	if a.ring, err = node.Kind.OpenMap(name, bpfobj.IntMapReports); err != nil {
		return nil, err
	}
	if a.reader, err = ringbuf.NewReader(a.ring); err != nil {
		return nil, loader.Error("read map "+bpfobj.IntMapReports, err)
	}
	if err := a.reload(); err != nil {
		return nil, err
	}
	return a, nil
}

// Close gives the domain free for another agent. It detaches nothing.
func (a *Agent) Close() {
	if a.reader != nil {
		a.reader.Close()
	}
	if a.ring != nil {
		a.ring.Close()
	}
	if a.control != nil {
		a.control.Close()
	}
	if a.sender != nil {
		a.sender.Close()
	}
	if a.hearing != nil {
		a.hearing.Close()
	}
	a.watcher.Close()
	a.life.Close()
}

// Run works until ctx ends, or the domain is gone. ready is called once everything runs. What is in the
// ring when ctx ends is still sent.
func (a *Agent) Run(ctx context.Context, ready func()) error {
	life, isDeserted := a.lives()
	if err := resident.Renew(a.control.Lease(), life, isDeserted); err != nil && !errors.Is(err, system.ErrDetaching) && !errors.Is(err, resident.ErrDeserted) {
		return err
	}
	if err := a.saveState(); err != nil {
		return err
	}
	group, inner := errgroup.WithContext(ctx)
	group.Go(func() error { return a.keep(inner) })
	group.Go(func() error { return a.send(inner) })
	ready()
	err := group.Wait()
	if errors.Is(err, resident.ErrDeserted) {
		a.log.Info("the lease of a domain without ports is over")
	}
	if ctx.Err() != nil || errors.Is(err, node.ErrNotAttached) || errors.Is(err, resident.ErrDeserted) {
		err = nil
	}
	a.note("write its state", a.saveState())
	return err
}

// keep is the loop that renews the lease and looks at interfaces.
func (a *Agent) keep(ctx context.Context) error {
	k := resident.Keeper{Lease: a.control.Lease(), State: a.lives, Heard: a.heard, Looks: a.looks, Warn: a.note, Look: func() error {
		if err := a.look(); err != nil {
			return err
		}
		a.note("write its state", a.saveState())
		return nil
	}}
	return k.Run(ctx)
}

// lives says for how long the lease is renewed, and whether all ports are gone. It takes over that the wall clock was set.
func (a *Agent) lives() (life time.Duration, isDeserted bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.reports.wall = a.control.SetWall()
	return a.domain.Options.Lease, a.domain.IsDeserted()
}

// look reads the description again if it has changed, and brings up to date what programs know.
func (a *Agent) look() error {
	path := node.File(a.name, "domain.json")
	err := a.file.IfChanged(path, func() error {
		if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
			return node.ErrNotAttached
		}
		return a.reload()
	})
	if errors.Is(err, node.ErrNotAttached) {
		return err
	}
	a.note("read the description", err)
	a.mu.Lock()
	d := a.domain
	a.mu.Unlock()
	changed, err := a.watcher.Look(d)
	a.note("look at interfaces", err)
	if changed {
		a.note("attach ports that came back", a.refresh())
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.sender == nil {
		a.once.Warn("send reports", a.dial())
	}
	return nil
}

// refresh attaches ports that have come back.
func (a *Agent) refresh() error {
	d, warnings, err := node.Refresh(a.name)
	for _, text := range warnings {
		a.log.Warn(text)
	}
	if errors.Is(err, system.ErrDetaching) || errors.Is(err, node.ErrNotAttached) {
		return nil
	}
	if d != nil {
		a.log.Info("ports have changed")
	}
	return errors.Join(err, a.reload())
}

// reload reads the description, and opens what sends reports anew if that has changed.
func (a *Agent) reload() error {
	d, err := node.Load(a.name)
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	was := a.domain
	a.domain = d
	if a.hearing != nil {
		a.once.Warn("hear of interfaces", a.hearing.NumberAll(d.Places()...))
	}
	if a.reports == nil || was.Options.Report != d.Options.Report {
		if a.reports != nil {
			a.reports.flushAll()
		}
		a.reports = newAssembler(d.Options.Report, a.emit)
		a.reports.wall = a.control.SetWall()
	}
	if was != nil && (was.Options.Address != d.Options.Address || was.Via != d.Via) && a.sender != nil {
		a.reports.flushAll()
		a.sender.Close()
		a.before = a.counts()
		a.sender = nil
	}
	if a.sender == nil {
		// Its failure is no reason not to renew the lease: it is tried again, and told.
		a.once.Warn("send reports", a.dial())
	}
	return nil
}

// dial opens the socket that reports are sent by. The caller holds mu.
func (a *Agent) dial() (err error) {
	a.sender, err = a.domain.Dial()
	return err
}

// emit sends a datagram. The caller holds mu.
func (a *Agent) emit(b []byte) {
	if a.sender == nil {
		a.lost++
		return
	}
	a.sender.Send(b)
}

// counts are those of all senders. The caller holds mu.
func (a *Agent) counts() send.Counts {
	c := a.before
	if a.sender == nil {
		return c
	}
	now := a.sender.Counts()
	c.Sent, c.Refused, c.Failed = c.Sent+now.Sent, c.Refused+now.Refused, c.Failed+now.Failed
	c.LastRefused = max(c.LastRefused, now.LastRefused)
	errs := make(map[string]uint64)
	for _, m := range []map[string]uint64{a.before.Errors, now.Errors} {
		for text, n := range m {
			errs[text] += n
		}
	}
	c.Errors = errs
	return c
}

// send reads the ring and sends reports, until ctx ends and the ring is empty.
func (a *Agent) send(ctx context.Context) error {
	var record ringbuf.Record
	stop := context.AfterFunc(ctx, func() { _ = a.reader.Flush() }) // it waits in the reader
	defer stop()
	wait := ringMost
	for end := false; ; {
		n, err := a.drain(&record, wait)
		a.mu.Lock()
		if end {
			a.reports.flushAll()
		} else {
			a.reports.flushUntil(time.Now().Add(-mostAge))
		}
		wait = ringMost
		if a.reports.waits() {
			wait = ringEvery
		}
		a.mu.Unlock()
		if err != nil || end && n < drainMost {
			return err
		}
		if n > 0 {
			select {
			case <-ctx.Done():
			case <-time.After(ringEvery):
			}
		}
		if ctx.Err() != nil {
			end, wait = true, 0 // once more: what was told until now is sent
		}
	}
}

// drainMost is how many reports are taken before others have waited long enough.
const drainMost = 4096

// drain waits until there is something in the ring, for that time at most, and takes it: n reports.
func (a *Agent) drain(record *ringbuf.Record, wait time.Duration) (n int, err error) {
	a.reader.SetDeadline(time.Now().Add(wait))
	for n < drainMost && (n == 0 || a.reader.AvailableBytes() > 0) {
		err := a.reader.ReadInto(record)
		if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, ringbuf.ErrFlushed) {
			return n, nil
		}
		if err != nil {
			return n, fmt.Errorf("read reports: %w", err)
		}
		n++
		a.mu.Lock()
		err = a.reports.add(record.RawSample, time.Now())
		if err != nil {
			a.once.Warn("make a report", err)
		}
		a.mu.Unlock()
	}
	return n, nil
}
