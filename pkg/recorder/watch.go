// SPDX-License-Identifier: Apache-2.0

package recorder

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/vnetradar/radar/pkg/answer/assertion"
	"github.com/vnetradar/radar/pkg/host/clock"
	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/vnet/backpack"
)

// met is a time at which a condition was met.
type met struct {
	of       *Condition
	at, last int64  // of the packets that made it so, as T0
	value    string // what there was at first, for people
}

// near is how close to each other moments are one time, ns.
const near = int64(100 * time.Millisecond)

// watch looks whether one condition is met. Its memory is bounded.
type watch struct {
	*Condition
	of packet.Scope

	seen   []met          // of the packets since it was asked last
	times  []int64        // of losses since it was asked last
	recent []loss         // by time: the newest count+1, and more with which one that is known late is compared
	parts  map[int64]part // of latencies, by time
	fresh  bool           // there are latencies that were not looked at
	paths  map[flow]uint64
	seed   maphash.Seed

	held    []heldPromise      // promises
	records *backpack.Recorder // what they are held against
	room    *assertion.Room    // for what they keep of flows
	ending  bool               // no packet comes after those that it has
	notes   []string           // what there is to say, beside what was met
	now     func() int64       // CLOCK_MONOTONIC
}

// parts of a window of latencies, and how many of a flow's paths are remembered.
const (
	windowParts = 20
	mostFlows   = 1 << 16
)

// loss is when a packet was lost. A fresh one was not looked at.
type loss struct {
	at    int64
	fresh bool
}

// moreLosses are remembered beside those that a condition is about.
const moreLosses = 1 << 14

// part counts latencies of a part of the window: how many of them there are of each power of growth.
type part map[int]uint32

// growth is the ratio of neighbouring values that count as different: percentiles are within 1 %.
const growth = 1.01

func newWatch(c *Condition, of *backpack.Decoder) *watch {
	w := &watch{Condition: c, of: of, parts: make(map[int64]part), paths: make(map[flow]uint64), seed: maphash.MakeSeed()}
	w.now = func() int64 { return int64(clock.Monotonic()) }
	w.records, w.room = backpack.NewRecorder(of, false), assertion.NewRoom(mostOfFlows)
	for _, p := range c.promises {
		w.held = append(w.held, heldPromise{promise: p})
	}
	w.checkWindows()
	return w
}

// add takes a packet that has ended.
func (w *watch) add(p *packet.Packet) {
	switch w.kind {
	case losses:
		w.addLosses(p)
	case quantile:
		w.addLatency(p)
	case queue:
		w.addQueue(p)
	case pathChange:
		w.addPath(p)
	case promises:
		w.addPromises(p)
	}
}

// met returns when the condition was met by packets since it was asked last; nil: it was not.
func (w *watch) met() []met {
	switch w.kind {
	case losses:
		w.countLosses()
	case quantile:
		w.compare()
	case promises:
		w.checkWindows()
	}
	seen := w.seen
	w.seen = nil
	slices.SortFunc(seen, func(x, y met) int { return cmp.Compare(x.at, y.at) })
	return seen
}

// meet notes that the condition was met. value says what there was; it is asked once for moments close to each other.
func (w *watch) meet(at int64, value func() string) {
	if n := len(w.seen); n > 0 && w.seen[n-1].at <= at && at <= w.seen[n-1].last+near {
		w.seen[n-1].last = max(w.seen[n-1].last, at)
		return
	}
	w.seen = append(w.seen, met{w.Condition, at, at, value()})
}

// addLosses takes a packet's losses: one for each segment of each copy.
func (w *watch) addLosses(p *packet.Packet) {
	add := func(d *packet.Drop) {
		if !w.isAt(d.Node, d.Port) {
			return
		}
		at := int64(p.T0) + p.LastNs
		if d.AtNs != packet.NoTime {
			at = int64(p.T0) + d.AtNs
		}
		for range min(max(p.Segs, 1), w.count+1) {
			w.times = append(w.times, at)
		}
	}
	for i := range p.Drops {
		if !p.Drops[i].Local {
			add(&p.Drops[i].Drop)
		}
	}
	if len(p.Drops) == 0 && (p.Lost || p.Missing) {
		add(&p.Loss)
	}
}

// isAt reports whether that is the condition's place.
func (w *watch) isAt(node, port uint16) bool {
	return (w.at.Node == "" || w.of.NodeName(node) == w.at.Node) && (w.at.Port == "" || w.of.PortName(port) == w.at.Port)
}

// countLosses looks whether count+1 losses lie close enough together of which one is new. A loss that is known late
// counts among those of its time.
func (w *watch) countLosses() {
	if len(w.times) == 0 {
		return
	}
	first := slices.Min(w.times)
	for _, at := range w.times {
		w.recent = append(w.recent, loss{at, true})
	}
	w.times = w.times[:0]
	slices.SortFunc(w.recent, func(x, y loss) int { return cmp.Compare(x.at, y.at) })
	from, _ := slices.BinarySearchFunc(w.recent, first, func(l loss, at int64) int { return cmp.Compare(l.at, at) })
	newest := -1
	for i := from; i < len(w.recent); i++ {
		if w.recent[i].fresh {
			w.recent[i].fresh, newest = false, i
		}
		begin := i - w.count
		if begin < 0 || newest < begin {
			continue
		}
		if took := w.recent[i].at - w.recent[begin].at; took <= int64(w.within) {
			w.meet(w.recent[i].at, func() string { return fmt.Sprintf("%d in %v", w.count+1, time.Duration(took)) })
		}
	}
	if most := w.count + 1 + moreLosses; len(w.recent) > most {
		w.recent = slices.Delete(w.recent, 0, len(w.recent)-most)
	}
}

// addLatency takes the packet's times on the link.
func (w *watch) addLatency(p *packet.Packet) {
	for i := range p.Hops {
		prev := p.Prev(i)
		if prev < 0 || !w.isEnd(w.from, p.Hops[prev].Node, p.Hops[prev].Out) || !w.isEnd(w.to, p.Hops[i].Node, p.Hops[i].In) {
			continue
		}
		if ns := p.LinkNs(i); ns != packet.NoTime {
			at := (int64(p.T0) + p.StampNs(i)) / w.step()
			if w.parts[at] == nil {
				w.parts[at] = make(part)
			}
			w.parts[at][bucket(ns)] += uint32(max(p.Segs, 1))
			w.fresh = true
		}
	}
}

func (w *watch) isEnd(e end, node, port uint16) bool {
	return w.of.NodeName(node) == e.Node && (e.Port == "" || w.of.PortName(port) == e.Port)
}

// step is how long a part of the window is, ns.
func (w *watch) step() int64 { return max(int64(w.within)/windowParts, 1) }

// bucket is of a latency; its greatest one is growth to the power of it.
func bucket(ns int64) int { return int(math.Ceil(math.Log(float64(max(ns, 1))) / math.Log(growth))) }

// compare looks at the window that ends with the newest packet, and forgets what lies before.
func (w *watch) compare() {
	if !w.fresh {
		return
	}
	w.fresh = false
	newest := int64(math.MinInt64)
	for at := range w.parts {
		newest = max(newest, at)
	}
	all, total := make(part), uint64(0)
	for at, of := range w.parts {
		if at <= newest-windowParts {
			delete(w.parts, at)
			continue
		}
		for b, n := range of {
			all[b] += n
			total += uint64(n)
		}
	}
	if total == 0 {
		return
	}
	rank, buckets := uint64(math.Ceil(w.quantile*float64(total))), make([]int, 0, len(all))
	for b := range all {
		buckets = append(buckets, b)
	}
	slices.Sort(buckets)
	for _, b := range buckets {
		if n := uint64(all[b]); n < rank {
			rank -= n
			continue
		}
		if ns := time.Duration(math.Pow(growth, float64(b))); ns > w.limit {
			w.meet(newest*w.step(), func() string { return fmt.Sprintf("%v of %d packets", ns, total) })
		}
		return
	}
}

// addQueue takes the packet's waits at the port.
func (w *watch) addQueue(p *packet.Packet) {
	for i := range p.Hops {
		h := &p.Hops[i]
		if ns := h.QueueNs(); ns > int64(w.limit) && w.isEnd(w.at, h.Node, h.Out) {
			w.meet(int64(p.T0)+h.DequeueNs, time.Duration(ns).String)
		}
	}
}

// flow is one direction of addresses, protocol and ports.
type flow struct {
	packet.Tuple
	proto uint8
}

// addPath compares the packet's path with that of its flow's packet before. One whose record is not complete, that
// did not arrive, or of which there are copies, shows nothing of its flow's path.
func (w *watch) addPath(p *packet.Packet) {
	if !p.HasTuple || p.Later || p.Tree || p.Truncated || p.State != record.Delivered && p.State != record.Left {
		return
	}
	f := flow{p.Tuple, p.Proto}
	if p.IsEcho() {
		f.DstPort = 0 // its sequence number
	} else if !p.HasPorts() {
		f.SrcPort, f.DstPort = 0, 0
	}
	var h maphash.Hash
	h.SetSeed(w.seed)
	for i := range p.Hops {
		maphash.WriteComparable(&h, [3]uint16{p.Hops[i].Node, p.Hops[i].In, p.Hops[i].Out})
	}
	path := h.Sum64()
	before, known := w.paths[f]
	switch {
	case known && before != path:
		w.meet(int64(p.T0), func() string {
			return fmt.Sprintf("%s to %s takes %s", f.Src.Text(p.IPv6), f.Dst.Text(p.IPv6), w.pathText(p))
		})
	case !known && len(w.paths) >= mostFlows:
		clear(w.paths) // to begin anew is better than to watch old flows for ever
	}
	w.paths[f] = path
}

func (w *watch) pathText(p *packet.Packet) string {
	var names []string
	for i := range p.Hops {
		names = append(names, w.of.NodeName(p.Hops[i].Node))
	}
	return strings.Join(names, " > ")
}
