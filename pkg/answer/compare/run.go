// SPDX-License-Identifier: Apache-2.0

// Package compare says what differs between two runs of a network, and whether it is more than noise
// (docs/verdicts.md).
package compare

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/vnetradar/radar/pkg/answer/stats"
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/words"
)

// Bounds of what is kept of a run.
const (
	placeTimes = 1 << 14 // of each place
	flowTimes  = 1 << 12 // of each Flow
	mostFlows  = 4096    // Flows
	mostExact  = 1 << 17 // flows by their ports, and those of them that lost packets by place
	mostWays   = 16      // paths of each Flow; those of the rest are one
)

// Run is what is known of one run. Its packets are added in the order in which they were sent.
type Run struct {
	Name string
	// Over counts packets of flows for which there was no room.
	Over uint64

	packets, bytes uint64
	first, last    int64 // Unix ns
	places         map[Place]*stats.Series
	passed         map[Place]uint64             // packets
	lostAt         map[LossPlace]*stats.Batches // of all packets, up to the last one that was lost there
	lost           stats.Batches                // of all packets
	flows          map[Flow]*flow
	exact          int
	connections    map[connection]uint32
	hit            map[hit]bool
}

// connection is one flow by its ports.
type connection struct {
	Flow
	exactFlow
}

// hit is a connection that has lost a packet at a place; the zero place: anywhere.
type hit struct {
	place LossPlace
	of    uint32
}

// Place is where packets spend time.
type Place struct {
	Kind string // "node", "queue", "link" or "end to end"
	Name string // "r1", "r1/eth1", "r1/eth1 > r2/eth0", ""
}

func (p Place) String() string {
	if p.Name == "" {
		return p.Kind
	}
	return p.Kind + " " + p.Name
}

// LossPlace is where and why packets are lost.
type LossPlace struct{ Node, Port, At, Reason string }

func (l LossPlace) String() string {
	text := l.Node
	if l.Port != "" {
		text += "/" + l.Port
	}
	text += " (" + l.At
	if l.Reason != "" {
		text += ", " + l.Reason
	}
	return text + ")"
}

// Flow is what flows of two runs are compared by: those of one client's ephemeral ports are one Flow.
type Flow struct {
	Proto, Src, Dst string
	Sport, Dport    int // any: -1
	Type            int // of ICMP; -1: it is none
}

// anyPort stands for an ephemeral port, and where there is none.
const anyPort = -1

func (f Flow) String() string {
	end := func(addr string, port int) string {
		if port == anyPort {
			return addr
		}
		return words.Endpoint(addr, &port)
	}
	text := f.Proto + " " + end(f.Src, f.Sport) + " > " + end(f.Dst, f.Dport)
	if f.Type >= 0 {
		text += " type " + strconv.Itoa(f.Type)
	}
	return text
}

// FlowOf is the Flow of a packet. The server's port is the lower one; of two equal ones both are kept.
func FlowOf(r *record.Record) Flow {
	f := Flow{r.Proto, r.Src, r.Dst, anyPort, anyPort, -1}
	if r.ICMPType != nil {
		f.Type = *r.ICMPType
	}
	if r.Sport == nil || r.Dport == nil {
		return f
	}
	if *r.Sport <= *r.Dport {
		f.Sport = *r.Sport
	}
	if *r.Dport <= *r.Sport {
		f.Dport = *r.Dport
	}
	return f
}

// exactFlow tells the flows of a Flow apart: ports, and the identifier of an echo.
type exactFlow struct{ sport, dport, id int }

func exactOf(r *record.Record) exactFlow {
	of := func(n *int) int {
		if n == nil {
			return anyPort
		}
		return *n
	}
	return exactFlow{of(r.Sport), of(r.Dport), of(r.ICMPID)}
}

// flow is what is known of a Flow.
type flow struct {
	packets, bytes uint64
	lost           stats.Batches
	times          stats.Series
	rate           bins
	lostAt         map[LossPlace]float64
	paths          map[exactFlow]map[string]uint64 // packets that arrived, by path
	ways           map[string]*stats.Batches       // the same of all flows, in order, up to the last one that took it
	arrived        uint64
}

// NewRun returns a run without packets.
func NewRun(name string) *Run {
	return &Run{
		Name: name, places: make(map[Place]*stats.Series), passed: make(map[Place]uint64),
		lostAt: make(map[LossPlace]*stats.Batches), flows: make(map[Flow]*flow),
		connections: make(map[connection]uint32), hit: make(map[hit]bool),
	}
}

// Packets is how many were added that have ended.
func (r *Run) Packets() uint64 { return r.packets }

// Add takes a packet. One that has not ended is left out.
func (r *Run) Add(p *record.Record) {
	if p.State == record.InFlight {
		return
	}
	n := uint64(p.Segs)
	if r.packets == 0 {
		r.first, r.last = p.TNs, p.TNs
	}
	r.first, r.last = min(r.first, p.TNs), max(r.last, p.TNs)
	r.packets, r.bytes = r.packets+n, r.bytes+uint64(p.Len)
	lost := p.State == record.Lost || p.State == record.Expired && p.Loss != nil
	of := r.connection(p)
	if lost && p.Loss != nil {
		place := lossPlace(p.Loss)
		addLost(r.lossesAt(place, r.packets-n), n, r.firstHit(place, of))
	}
	first := lost && r.firstHit(LossPlace{}, of)
	if lost {
		addLost(&r.lost, n, first)
	} else {
		r.lost.Add(false, n)
	}
	r.addTimes(p, of)
	r.addFlow(p, of, lost, first)
}

func lossPlace(l *record.Loss) LossPlace { return LossPlace{l.Node, l.Port, string(l.At), l.Reason} }

func addLost(b *stats.Batches, n uint64, first bool) {
	if first {
		b.AddFirst(n)
		return
	}
	b.Add(true, n)
}

// manyConnections is the number of all for which there is no room: they count as one.
const manyConnections = math.MaxUint32

// connection is the number of a packet's connection; 0: nothing tells it.
func (r *Run) connection(p *record.Record) uint32 {
	of := connection{FlowOf(p), exactOf(p)}
	if of.exactFlow == (exactFlow{anyPort, anyPort, anyPort}) {
		return 0
	}
	number, is := r.connections[of]
	if !is {
		if len(r.connections) >= mostExact {
			return manyConnections
		}
		number = uint32(len(r.connections) + 1)
		r.connections[of] = number
	}
	return number
}

// firstHit reports whether a packet is the first one of its connection that is lost at a place.
func (r *Run) firstHit(place LossPlace, of uint32) bool {
	key := hit{place, of}
	if of == 0 {
		return true
	}
	if r.hit[key] || len(r.hit) >= mostExact {
		return false
	}
	r.hit[key] = true
	return true
}

// lossesAt are losses at a place among the first packets of the run, which are so many.
func (r *Run) lossesAt(place LossPlace, packets uint64) *stats.Batches {
	at := r.lostAt[place]
	if at == nil {
		at = &stats.Batches{}
		r.lostAt[place] = at
	}
	at.Add(false, packets-uint64(at.N))
	return at
}

func (r *Run) addTimes(p *record.Record, of uint32) {
	add := func(kind, name string, ns *int64) {
		if ns == nil {
			return
		}
		place := Place{kind, name}
		s := r.places[place]
		if s == nil {
			s = &stats.Series{Most: placeTimes}
			r.places[place] = s
		}
		s.AddOf(float64(*ns), of)
		r.passed[place] += uint64(p.Segs)
	}
	if arrived(p) {
		add("end to end", "", p.LatencyNs)
	}
	for i := range p.Hops {
		h := &p.Hops[i]
		add("node", h.Node, h.NodeNs)
		add("queue", h.Node+"/"+h.Port, h.QueueNs)
		if prev := p.PrevOf(i); prev >= 0 {
			add("link", p.Hops[prev].Node+"/"+p.Hops[prev].Port+" > "+h.Node+"/"+h.InPort, h.LinkNs)
		}
	}
}

func arrived(p *record.Record) bool { return p.State == record.Delivered || p.State == record.Left }

func (r *Run) addFlow(p *record.Record, of uint32, lost, first bool) {
	key := FlowOf(p)
	f := r.flows[key]
	if f == nil {
		if len(r.flows) >= mostFlows {
			r.Over += uint64(p.Segs)
			return
		}
		f = &flow{times: stats.Series{Most: flowTimes}, lostAt: make(map[LossPlace]float64), paths: make(map[exactFlow]map[string]uint64), ways: make(map[string]*stats.Batches)}
		r.flows[key] = f
	}
	f.packets, f.bytes = f.packets+uint64(p.Segs), f.bytes+uint64(p.Len)
	if lost {
		addLost(&f.lost, uint64(p.Segs), first)
	} else {
		f.lost.Add(false, uint64(p.Segs))
	}
	if lost && p.Loss != nil {
		f.lostAt[lossPlace(p.Loss)] += float64(p.Segs)
	}
	f.rate.add(p.TNs, float64(p.Len)*8)
	if !arrived(p) {
		return
	}
	if p.LatencyNs != nil {
		f.times.AddOf(float64(*p.LatencyNs), of)
	}
	exact := exactOf(p)
	if f.paths[exact] == nil {
		if r.exact >= mostExact {
			return
		}
		r.exact++
		f.paths[exact] = make(map[string]uint64)
	}
	path := words.Path(p)
	if f.ways[path] == nil && len(f.ways) >= mostWays {
		path = otherPaths
	}
	f.paths[exact][path] += uint64(p.Segs)
	f.way(path).Add(true, uint64(p.Segs))
	f.arrived += uint64(p.Segs)
}

// otherPaths stands for paths for which there was no room.
const otherPaths = "other paths"

// way are the packets of a path among those that arrived until now.
func (f *flow) way(path string) *stats.Batches {
	w := f.ways[path]
	if w == nil {
		w = &stats.Batches{}
		f.ways[path] = w
	}
	w.Add(false, f.arrived-uint64(w.N))
	return w
}

// byPath is how many flows of a Flow took each path with most of their packets.
func (f *flow) byPath() map[string]float64 {
	counts := make(map[string]float64)
	for _, paths := range f.paths {
		counts[mostTaken(paths)]++
	}
	return counts
}

// mostTaken is the path that most packets of a flow took.
func mostTaken(paths map[string]uint64) string {
	names := slices.Sorted(maps.Keys(paths))
	return slices.MaxFunc(names, func(a, b string) int { return cmp.Compare(paths[a], paths[b]) })
}

// bins are bits by time, in bounded memory: when there are too many, two become one.
type bins struct {
	from, width int64
	list        []float64
}

const (
	firstWidth = int64(10e6) // ns
	mostBins   = 400
)

func (b *bins) add(at int64, bits float64) {
	if b.width == 0 {
		b.from, b.width = at, firstWidth
	}
	i := int(max(0, at-b.from) / b.width)
	for i >= mostBins {
		half := make([]float64, (len(b.list)+1)/2)
		for j, v := range b.list {
			half[j/2] += v
		}
		b.list, b.width = half, b.width*2
		i = int((at - b.from) / b.width)
	}
	for len(b.list) <= i {
		b.list = append(b.list, 0)
	}
	b.list[i] += bits
}

// rates are bits a second by bin, without the last one, which has not ended.
func (b *bins) rates() []float64 {
	if len(b.list) < 2 {
		return nil
	}
	list := make([]float64, len(b.list)-1)
	for i := range list {
		list[i] = b.list[i] / (float64(b.width) / 1e9)
	}
	return list
}
