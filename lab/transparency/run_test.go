// SPDX-License-Identifier: Apache-2.0

package transparency

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/topo/nstest"
)

// Run is one run of a case and what came of it.
type Run struct {
	T        *testing.T
	Mode     Mode
	Records  []record.Record
	Status   *Status
	c        *Case
	world    *World
	captures []*capture
	observed map[string][]string
	topo     *topology

	unmeasured   int // packets that captures saw and no record tells of
	fromInside   int // those that a node in the domain sent to which radar is not attached
	beforeSource int // sightings where nobody looks, under --carry header
}

// Quiet: nothing has been captured for so long, and the kernel has put nothing off, so
// everything has arrived.
var (
	quietFor  = patience * 30 * time.Millisecond
	quietMost = patience * 20 * time.Second
)

// run builds the network, sends, and collects what everybody saw.
func run(t *testing.T, c *Case, mode Mode) *Run {
	t.Helper()
	w := &World{Net: nstest.New(t), T: t, Mode: mode, salt: hash(c.Name), handles: make(map[string]*netlink.Handle)}
	r := &Run{T: t, Mode: mode, c: c, world: w, observed: make(map[string][]string)}
	c.Build(w)
	w.neighbours()
	w.reported()
	var d *domain
	if mode != Without {
		d = w.start(c, mode)
	}
	r.captures = w.listen()
	start := time.Now()
	c.Send(w)
	r.settle()
	if d != nil {
		r.Status = d.settle(t)
		r.Records = d.records(t, start)
		r.topo = d.topo(t)
		r.shorten()
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

// skipped says whether a rule leaves a frame out.
func (r *Run) skipped(s *sighting) bool {
	return slices.ContainsFunc(r.c.rules(), func(rule Rule) bool { return rule.Skip != nil && rule.Skip(s) })
}

// putOff says whether one of these threads has a CPU or waits for one: packets may wait for it.
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

// ksoftirqds are the threads of the kernel that do what softirqs have left over.
var ksoftirqds = sync.OnceValue(func() (list []string) {
	names, _ := filepath.Glob("/proc/[0-9]*/comm")
	for _, name := range names {
		if b, err := os.ReadFile(name); err == nil && bytes.HasPrefix(b, []byte("ksoftirqd/")) {
			list = append(list, filepath.Join(filepath.Dir(name), "stat"))
		}
	}
	return list
})

// caughtUp waits until no packet waits for a CPU, or for very long.
func caughtUp(workers []string) {
	for end := time.Now().Add(quietMost); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if !putOff(ksoftirqds()) && !putOff(workers) {
			return
		}
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

// waitQuiet reads the captures until nothing has come for quietFor, on a machine that had time for
// packets: no queue has any, and each CPU has run a thread, thus done what was due before.
func (r *Run) waitQuiet() {
	r.T.Helper()
	last, end := time.Now(), time.Now().Add(quietMost)
	for {
		if time.Now().After(end) {
			r.T.Fatalf("%s: packets still pass %v after the last one was sent", r.Mode, quietMost)
		}
		time.Sleep(quietFor / 5)
		// In the order in which packets go on: none can pass from one place to another in between.
		enough := time.Since(last) >= quietFor
		busy := enough && r.world.queued()
		if enough {
			onEachCPU(r.T)
		}
		busy = putOff(ksoftirqds()) || putOff(r.world.workers()) || busy
		if r.readCaptures() || busy {
			last = time.Now()
		} else if enough {
			return
		}
	}
}

// readCaptures says whether there was a packet that counts.
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

// onEachCPU runs on each CPU that it may.
func onEachCPU(t testing.TB) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var all unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		t.Fatalf("CPUs of this thread: %v", err)
	}
	for left, cpu := all.Count(), 0; left > 0; cpu++ {
		if !all.IsSet(cpu) {
			continue
		}
		left--
		var one unix.CPUSet
		one.Set(cpu)
		if err := unix.SchedSetaffinity(0, &one); err != nil {
			t.Fatalf("run on CPU %d: %v", cpu, err)
		}
	}
	if err := unix.SchedSetaffinity(0, &all); err != nil {
		t.Fatalf("run on all CPUs: %v", err)
	}
}

// queued says whether packets wait in a queue of a node.
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
