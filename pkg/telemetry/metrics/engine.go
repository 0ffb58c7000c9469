// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"slices"
	"time"
)

// Config is what an Engine does.
type Config struct {
	Thresholds [NumMetrics]Threshold
	// Congested is the occupancy above which a queue is congested, until it is below half of
	// that, where reports do not say it themselves; 0: nothing says it then.
	Congested uint64
	Flows     int           // tables hold so many flows, four times as many hops of flows, queues, links
	Series    int           // of queues, and of links, no more than so many; 0: any number
	Age       time.Duration // keys that nobody reports for so long go; 0: never
}

// maxHops is how many nodes of a flow have latencies: what a report costs must not grow with what
// came before. A packet's path is shorter; a flow whose paths change keeps the nodes reported last.
const maxHops = 64

// leastLatency is what a latency must change by to make an event, if nobody says: those of software
// switches are never the same twice.
const leastLatency = uint64(100 * time.Microsecond)

// DefaultConfig is an event for each change of 10 %, and of latencies 100 us, of up to 65,536 flows.
func DefaultConfig() Config {
	c := Config{Flows: 1 << 16, Series: 1 << 14, Age: 5 * time.Minute}
	for m := range c.Thresholds {
		c.Thresholds[m].Permille = 100
		if Metric(m).Nanoseconds() {
			c.Thresholds[m].Absolute = leastLatency
		}
	}
	c.Thresholds[FlowPath], c.Thresholds[QueueCongestion] = Threshold{}, Threshold{}
	return c
}

// ports is how many queues, or links, there may be.
func (c *Config) ports() int {
	if c.Series > 0 {
		return min(c.Series, 4*c.Flows)
	}
	return 4 * c.Flows
}

// Counts are what became of reports.
type Counts struct {
	Reports   uint64      `json:"reports"`
	Unchanged uint64      `json:"unchanged"` // reports without an event
	Events    EventCounts `json:"events"`
	NoNode    uint64      `json:"no_node"`  // hops without a node id: they have no metrics
	Full      uint64      `json:"full"`     // values whose table was full
	Replaced  uint64      `json:"replaced"` // nodes of a flow that went for others: it has room for 64
	Aged      uint64      `json:"aged"`     // keys that nobody reported for long
}

// Event is a value that has changed. Was is the value that was reported last; of a new key 0.
type Event struct {
	Key
	At         int64 // Unix ns, when the report came, or the time that it has
	New        bool
	Value, Was uint64
	Path       []uint32 // of FlowPath; so is WasPath
	WasPath    []uint32
}

// value is one metric's.
type value struct {
	has              bool
	latest, reported uint64
	at, reportedAt   int64
	reports          uint64
}

type flow struct {
	path, latest []uint32 // nil: no report has said it; path is the one that was reported
	pathAt       int64
	pathReported int64
	paths        uint64
	latency      value
	hops         []hop
	seen         int64
	index        uint32 // of its generation
	generation   uint64 // how often its values were reported anew
}

type hop struct {
	node    uint32
	latency value
	heard   uint64 // number of the last report that said it
}

type port struct{ node, port uint32 }

// port is the one that the packet left the node by.
func (h *Hop) port() port {
	if h.Has&HasPort == 0 {
		return port{h.Node, NoPort}
	}
	return port{h.Node, h.Port}
}

type queueOf struct {
	port port
	id   uint32
}

// link is the link at a port.
type link struct {
	value
	index uint32
	seen  int64
}

// crossing is what packets crossed from one node to the next. The other end of one port may be several
// nodes.
type crossing struct {
	from port
	to   uint32
}

func crossingOf(from, to *Hop) crossing { return crossing{from.port(), to.Node} }

func (c *crossing) key() Key {
	return Key{Metric: LinkLatency, Node: c.from.node, Port: c.from.port, To: c.to}
}

// crossed is the latency of a crossing.
type crossed struct {
	value
	seen int64
}

type queue struct {
	index                 uint32
	key                   queueOf
	occupancy, congestion value
	seen                  int64
}

// Engine keeps metrics. It is not safe for use by several goroutines.
type Engine struct {
	Config Config
	Counts Counts
	// Moved, if not nil, is called when the band of a shared value has changed; see Quiet.
	Moved func(index uint32, b Band)
	// Observe, if not nil, is called for each hop latency of a node (HopLatency, its id) and each
	// latency of a flow (FlowLatency, 0) that a report says, in ns: for distributions, which events
	// do not give. It is asked before tables and thresholds, so it misses nothing, and must not wait.
	// For reports that Same takes it is called for the last.
	Observe func(m Metric, node uint32, ns uint64)

	flows  map[Flow]*flow
	queues map[queueOf]*queue
	links  map[port]*link
	// crossings are no more than links are.
	crossings map[crossing]*crossed

	hops   int // of all flows
	most   int // hops of one flow
	shared indices

	path  []uint32
	event Event
	emit  func(*Event)
	sent  int
}

// New makes an engine.
func New(c Config) *Engine {
	return &Engine{Config: c, most: maxHops, shared: indices{most: uint32(c.MaxShared())}, flows: make(map[Flow]*flow), queues: make(map[queueOf]*queue), links: make(map[port]*link), crossings: make(map[crossing]*crossed)}
}

// Add takes a report and returns how many events it raised. emit is called for each; what it gets
// is valid until it returns.
func (e *Engine) Add(r *Report, emit func(*Event)) int {
	e.emit, e.sent = emit, 0
	e.Counts.Reports++
	var f *flow
	if r.HasFlow {
		f = e.flow(r)
	}
	was := e.ofFlows()
	for i := range r.Hops {
		if h := &r.Hops[i]; h.Has&HasNode == 0 {
			e.Counts.NoNode++
		} else {
			e.hop(r, f, i, h)
		}
	}
	e.across(r)
	e.along(r, f)
	e.renew(f, was)
	if e.sent == 0 {
		e.Counts.Unchanged++
	}
	return e.sent
}

// Joined takes the whole path of a packet, with its flow, whose nodes have reported it one by one: Add
// has had what they say of themselves. It returns how many events the path and the latency raised.
func (e *Engine) Joined(r *Report, emit func(*Event)) int {
	e.emit, e.sent = emit, 0
	f := e.flow(r)
	was := e.ofFlows()
	e.across(r)
	e.along(r, f)
	e.renew(f, was)
	return e.sent
}

// along takes what a report says of the whole path, if it does; f is nil if there was no room for its
// flow.
func (e *Engine) along(r *Report, f *flow) {
	if !r.WholePath || len(r.Hops) == 0 {
		return
	}
	named, whole, sum := true, true, uint64(0)
	e.path = e.path[:0]
	for i := range r.Hops {
		h := &r.Hops[i]
		named, whole = named && h.Has&HasNode != 0, whole && h.Has&HasLatency != 0
		sum += h.LatencyNs
		e.path = append(e.path, h.Node)
	}
	if r.HasThrough {
		sum, whole = r.ThroughNs, true
	}
	if f != nil && named && !r.Unordered {
		e.takePath(r, f)
	}
	if r.HasFlow && whole && e.Observe != nil {
		e.Observe(FlowLatency, 0, sum)
	}
	if f != nil && whole {
		e.change(&f.latency, r.when(), sum, Key{Metric: FlowLatency, Flow: r.Flow})
	}
}

// across takes the latencies of links.
func (e *Engine) across(r *Report) {
	for i := 1; i < len(r.Hops); i++ {
		from, h := &r.Hops[i-1], &r.Hops[i]
		if h.Has&HasLink == 0 || h.Has&from.Has&HasNode == 0 {
			continue
		}
		between := crossingOf(from, h)
		l := e.crossings[between]
		if l == nil {
			if len(e.crossings) >= e.Config.ports() {
				e.Counts.Full++
				continue
			}
			l = &crossed{}
			e.crossings[between] = l
		}
		l.seen = r.At
		e.change(&l.value, r.when(), h.LinkNs, between.key())
	}
}

// renew makes whoever knows what a flow said ask again, if it has said something since.
func (e *Engine) renew(f *flow, was uint64) {
	if f != nil && e.ofFlows() != was {
		f.generation++
		e.moved(f.index, f.band())
	}
}

// ofFlows is how many events flows have raised.
func (e *Engine) ofFlows() uint64 {
	c := &e.Counts.Events
	return c[FlowPath] + c[FlowLatency] + c[HopLatency]
}

// flow is the flow's entry, nil if there is no room for it.
func (e *Engine) flow(r *Report) *flow {
	f := e.flows[r.Flow]
	if f == nil {
		if len(e.flows) >= e.Config.Flows {
			e.Counts.Full++
			return nil
		}
		f = &flow{index: e.shared.take(r.At - int64(e.Config.Age))}
		e.flows[r.Flow] = f
		e.moved(f.index, f.band())
	}
	f.seen = r.At
	return f
}

// hop takes what the report says of its ith hop.
func (e *Engine) hop(r *Report, f *flow, i int, h *Hop) {
	if h.Has&HasLatency != 0 && e.Observe != nil {
		e.Observe(HopLatency, h.Node, h.LatencyNs)
	}
	if h.Has&HasLatency != 0 && f != nil {
		if hop := e.hopOf(f, i, h.Node); hop != nil {
			hop.heard = e.Counts.Reports
			e.change(&hop.latency, r.when(), h.LatencyNs, Key{Metric: HopLatency, Flow: r.Flow, Node: h.Node})
		}
	}
	at := h.port()
	if h.Has&HasQueue != 0 && h.Has&(HasOccupancy|HasFlag) != 0 {
		if q := e.queue(queueOf{at, h.Queue}, r.At); q != nil {
			e.inQueue(r, q, h)
		}
	}
	if h.Has&HasCongestion != 0 {
		if q := e.queue(queueOf{at, h.CongestionQueue}, r.At); q != nil {
			e.congestion(r, q, h.Congestion != 0)
		}
	}
	if h.Has&HasUtilization != 0 {
		l := e.links[at]
		if l == nil {
			if len(e.links) >= e.Config.ports() {
				e.Counts.Full++
				return
			}
			l = &link{index: e.shared.take(r.At - int64(e.Config.Age))}
			e.links[at] = l
		}
		l.seen = r.At
		if e.change(&l.value, r.when(), h.Utilization, Key{Metric: LinkUtilization, Node: at.node, Port: at.port}) {
			e.moved(l.index, e.linkBand(l))
		}
	}
}

// hopOf is what a flow has of a node; nil if there is no room. A new node takes the place of the one
// that was not reported for the longest, if the flow has no other, but none of the same report's.
func (e *Engine) hopOf(f *flow, i int, node uint32) *hop {
	if h := f.at(i, node); h != nil {
		return h
	}
	if len(f.hops) >= e.most {
		oldest := &f.hops[0]
		for i := range f.hops {
			if f.hops[i].heard < oldest.heard {
				oldest = &f.hops[i]
			}
		}
		if oldest.heard == e.Counts.Reports {
			e.Counts.Full++
			return nil
		}
		e.Counts.Replaced++
		*oldest = hop{node: node}
		return oldest
	}
	if e.hops >= 4*e.Config.Flows {
		e.Counts.Full++
		return nil
	}
	e.hops++
	f.hops = append(f.hops, hop{node: node})
	return &f.hops[len(f.hops)-1]
}

// queue is a queue's entry, nil if there is no room for it.
func (e *Engine) queue(key queueOf, at int64) *queue {
	q := e.queues[key]
	if q == nil {
		if len(e.queues) >= e.Config.ports() {
			e.Counts.Full++
			return nil
		}
		q = &queue{key: key, index: e.shared.take(at - int64(e.Config.Age))}
		e.queues[key] = q
	}
	return q
}

// inQueue takes what a report says of the packet's queue.
func (e *Engine) inQueue(r *Report, q *queue, h *Hop) {
	q.seen = r.At
	if h.Has&HasOccupancy != 0 {
		if e.change(&q.occupancy, r.when(), h.Occupancy, q.of(QueueOccupancy)) {
			e.moved(q.index, e.queueBand(q))
		}
	}
	was := q.isCongested()
	switch high := e.Config.Congested; {
	case h.Has&HasFlag != 0 && h.Flag:
		e.congestion(r, q, true)
	case high > 0 && h.Has&HasOccupancy != 0:
		e.congestion(r, q, h.Occupancy > high || was && 2*h.Occupancy >= high)
	case h.Has&HasFlag != 0 && was: // of a queue that never was congested, a flag that is not set says little
		e.congestion(r, q, false)
	}
}

// congestion takes whether a queue is congested.
func (e *Engine) congestion(r *Report, q *queue, congested bool) {
	q.seen = r.At
	n := uint64(0)
	if congested {
		n = 1
	}
	if e.change(&q.congestion, r.when(), n, q.of(QueueCongestion)) {
		e.moved(q.index, e.queueBand(q))
	}
}

func (q *queue) isCongested() bool { return q.congestion.has && q.congestion.reported != 0 }

func (q *queue) of(m Metric) Key {
	return Key{Metric: m, Node: q.key.port.node, Port: q.key.port.port, Queue: q.key.id}
}

// change takes a value, raises an event if it has changed enough, and reports whether it has.
func (e *Engine) change(v *value, at int64, n uint64, k Key) bool {
	v.reports++
	v.latest, v.at = n, at
	isNew := !v.has
	if !isNew && !e.Config.Thresholds[k.Metric].exceeded(n, v.reported) {
		return false
	}
	e.raise(Event{Key: k, At: at, New: isNew, Value: n, Was: v.reported})
	v.has, v.reported, v.reportedAt = true, n, at
	return true
}

// takePath takes the nodes of a packet's path.
func (e *Engine) takePath(r *Report, f *flow) {
	f.paths++
	f.latest, f.pathAt = append(f.latest[:0], e.path...), r.when()
	isNew := f.path == nil
	if !isNew && slices.Equal(f.path, e.path) {
		return
	}
	e.raise(Event{Key: Key{Metric: FlowPath, Flow: r.Flow}, At: r.when(), New: isNew, Path: e.path, WasPath: f.path})
	f.path, f.pathReported = append(f.path[:0], e.path...), r.when()
}

func (e *Engine) raise(event Event) {
	e.sent++
	e.Counts.Events[event.Metric]++
	if e.emit != nil {
		e.event = event
		e.emit(&e.event)
	}
}
