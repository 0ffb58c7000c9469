// SPDX-License-Identifier: Apache-2.0

package transparency

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/vnetradar/radar/lab/test/e2e/quiet"
	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/host/clock"
	"github.com/vnetradar/radar/pkg/record"
)

// Run is one run of a case and what came of it.
type Run struct {
	T        testing.TB
	Mode     Mode
	Records  []record.Record
	Status   *Status
	c        *Case
	world    *World
	captures []*capture
	observed map[string][]string
	topo     *topology

	end        time.Time // nothing was stamped later
	checkTimes bool      // also where only a busy machine makes the difference

	unmeasured   int // packets that captures saw and that have no record
	fromInside   int // those that a node in the domain sent to which radar is not attached
	beforeSource int // sightings where nobody looks, under --carry header
}

// quietFor: nothing has been captured for so long, and nothing waits for a CPU, so everything
// has arrived.
var quietFor = patience * 30 * time.Millisecond

// run builds the network, sends, and collects what everybody saw.
func run(t testing.TB, c *Case, mode Mode) *Run {
	t.Helper()
	w := &World{Net: nstest.New(t), T: t, Mode: mode, salt: hash(c.Name), handles: make(map[string]*netlink.Handle), cpu: cpuFor(t, c.Name)}
	var err error
	if w.barrier, err = quiet.NewBarrier(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.barrier.Close() })
	r := &Run{T: t, Mode: mode, c: c, world: w, observed: make(map[string][]string), checkTimes: need.IsNightly(t)}
	c.Build(w)
	w.neighbours()
	w.reported()
	var d *domain
	if mode != Without {
		d = w.start(c, mode)
	}
	r.captures = w.listen()
	start, offset := time.Now(), clock.WallOffset()
	c.Send(w)
	r.settle()
	if d != nil {
		r.Status = d.settle(t)
		r.Records = d.records(t, start)
		r.topo = d.topo(t)
		r.shorten()
	}
	r.end = time.Now()
	if set := clock.WallOffset() - offset; max(set, -set) > int64(clockError) {
		t.Fatalf("somebody set the wall clock by %v: captures and records cannot be compared", time.Duration(set))
	}
	for _, o := range w.watchers {
		r.observed[o.name] = o.see()
	}
	return r
}

// shorten gives nodes that radar found by itself the names of the case.
func (r *Run) shorten() {
	prefix := r.world.Name("")
	for i := range r.Records {
		rec := &r.Records[i]
		for j := range rec.Hops {
			rec.Hops[j].Node = strings.TrimPrefix(rec.Hops[j].Node, prefix)
		}
		for j := range rec.Losses {
			rec.Losses[j].Node = strings.TrimPrefix(rec.Losses[j].Node, prefix)
		}
		if rec.Loss != nil {
			rec.Loss.Node = strings.TrimPrefix(rec.Loss.Node, prefix)
		}
	}
	for i := range r.topo.Nodes {
		r.topo.Nodes[i].Name = strings.TrimPrefix(r.topo.Nodes[i].Name, prefix)
	}
}

// skipped reports whether a rule leaves a frame out.
func (r *Run) skipped(s *sighting) bool {
	return slices.ContainsFunc(r.c.rules(), func(rule Rule) bool { return rule.Skip != nil && rule.Skip(s) })
}

// putOff reports whether one of these threads has a CPU or waits for one: packets may wait for it.
func putOff(threads []string) bool {
	return slices.ContainsFunc(threads, func(stat string) bool {
		b, err := os.ReadFile(stat)
		return err == nil && bytes.Contains(b, []byte(") R "))
	})
}

// workers are the threads of processes that packets go through.
func (w *World) workers() (list []string) {
	for _, pid := range w.functions {
		threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		list = append(list, threads...)
	}
	return list
}

// mostLinks is how many links, one behind the other, a packet passes at most.
const mostLinks = 12

// caughtUp waits until no packet waits for a CPU.
func (w *World) caughtUp() {
	w.T.Helper()
	for range mostLinks {
		w.pass()
	}
	nstest.WaitFor(w.T, "processes that packets go through", func() bool { return !putOff(w.workers()) })
}

// pass has every CPU carry on the packets that wait for it.
func (w *World) pass() {
	w.T.Helper()
	if err := w.barrier.Pass(); err != nil {
		w.T.Fatal(err)
	}
}

// settle reads the captures until nothing comes any more, and virtual machines hold
// nothing back.
func (r *Run) settle() {
	r.T.Helper()
	r.waitQuiet()
	for i := 0; i < nudges && r.world.nudge(); i++ {
		r.waitQuiet()
	}
}

// waitQuiet reads the captures until nothing has come for quietFor though every CPU has carried
// on what waited for it, and no queue has any packet.
func (r *Run) waitQuiet() {
	r.T.Helper()
	last := time.Now()
	for end := last.Add(mostWait); time.Now().Before(end); {
		time.Sleep(quietFor / 5)
		// In the order in which packets go on: none can pass from one place to another in between.
		enough := time.Since(last) >= quietFor
		busy := enough && (r.world.queued() || putOff(kworkers()) && time.Since(last) < kworkersMost)
		if enough {
			r.world.pass()
		}
		atWork := putOff(r.world.workers())
		if r.readCaptures() || atWork {
			last = time.Now()
		} else if enough && !busy {
			return
		}
	}
	r.T.Fatalf("%s: packets still pass %v after the last one was sent", r.Mode, mostWait)
}

// kworkersMost is how long a packet may wait for one of the kernel's workers, which carry those
// of some devices (macvlan, WireGuard). They work for others, too, and may never be idle.
const kworkersMost = 5 * time.Second

// kworkers are these threads.
func kworkers() (list []string) {
	names, _ := filepath.Glob("/proc/[0-9]*/comm")
	for _, name := range names {
		if b, err := os.ReadFile(name); err == nil && bytes.HasPrefix(b, []byte("kworker/")) {
			list = append(list, filepath.Join(filepath.Dir(name), "stat"))
		}
	}
	return list
}

// readCaptures reports whether there was a packet that counts.
func (r *Run) readCaptures() (some bool) {
	r.T.Helper()
	for _, c := range r.captures {
		n, err := c.read()
		if err != nil {
			r.T.Fatal(err)
		}
		for _, s := range c.seen[len(c.seen)-min(n, len(c.seen)):] {
			some = some || s.decoded != nil
		}
	}
	return some
}

// queued reports whether packets wait in a queue of a node.
func (w *World) queued() bool {
	w.T.Helper()
	for _, node := range w.nodes {
		list, err := w.Handle(node).QdiscList(nil)
		if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
			w.T.Fatalf("queues of %s: %v", node, err)
		}
		for _, q := range list {
			if s := q.Attrs().Statistics; s != nil && s.Queue != nil && s.Queue.Qlen > 0 {
				return true
			}
		}
	}
	return false
}
