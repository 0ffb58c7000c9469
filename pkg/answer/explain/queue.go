// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"slices"

	"github.com/vnetradar/radar/pkg/aggregate"
	"github.com/vnetradar/radar/pkg/record"
)

// queue is what packets of one direction met in the queue of a port.
type queue struct {
	dir    direction
	name   string
	waits  aggregate.Distribution // of all that went out by the port since the first one waited
	waited uint64
	lost   uint64 // packets
	kind   string // of the queueing discipline, as losses tell, or as it is now; "": not known
	now    Configured
	most   int // packets of the flow that were in it at once

	lastIn, lastOut int64 // of the packet before
	busyUntil       int64
	busy            int64 // ns in which a packet of the flow was in the queue

	pairs, spread     uint64 // that lay in it together; of these those that it has spread
	pairBytes, pairNs int64  // of all pairs: how fast it let them out
	spreadNs          int64

	inside  []leaving // what lay in it when the last packet came, oldest first
	content int64     // bytes of those
	load    relation  // of what lay in it when a packet came, and how long that one waited
}

// Configured is what a port's queueing discipline declares.
type Configured struct {
	Kind         string // of the root discipline; "": not known
	RateBps      uint64
	BurstBytes   uint64 // that pass at once, whatever the rate is
	Holds        string // the kind of the queue in which packets wait
	LimitPackets uint64 // that it holds at most; 0: not known, or it counts bytes
	LimitBytes   uint64
}

// leaving is when a packet left a queue.
type leaving struct {
	out   int64
	bytes int
}

// maxInside is how many packets of a flow are known to lie in a queue.
const maxInside = 1 << 13

// near is what two packets may lie apart without a queue that spreads them, ns.
const near = 10_000

// add notes that a packet came at in, and went at out.
func (q *queue) add(in, out int64, bytes int) {
	wait := out - in
	q.waits.Add(wait)
	q.weigh(in, out, bytes)
	if wait > 0 {
		q.waited++
		q.busy += max(0, out-max(in, q.busyUntil))
		q.busyUntil = max(q.busyUntil, out)
	}
	if q.lastOut > 0 && in < q.lastOut && out >= q.lastOut && in >= q.lastIn {
		apart, came := out-q.lastOut, in-q.lastIn
		q.pairs++
		q.pairBytes += int64(bytes)
		q.pairNs += apart
		if apart > 2*came+near {
			q.spread++
			q.spreadNs += apart
		}
	}
	q.lastIn, q.lastOut = in, out
}

// weigh compares how long a packet waited with what lay before it.
func (q *queue) weigh(in, out int64, bytes int) {
	gone := 0
	for gone < len(q.inside) && q.inside[gone].out <= in {
		q.content -= int64(q.inside[gone].bytes)
		gone++
	}
	q.inside = q.inside[gone:]
	q.load.add(float64(q.content), float64(out-in))
	if out > in && len(q.inside) < maxInside {
		q.inside = append(q.inside, leaving{out, bytes})
		q.content += int64(bytes)
		q.most = max(q.most, len(q.inside))
	}
}

// limits reports whether the queue is one that lets out so many bits a second. In such a one packets wait for what lies
// before them, and leave it apart though they came together. What only delays packets does neither.
func (q *queue) limits() bool {
	switch {
	case q.kind == "netem":
		return false
	case slices.Contains(shapers, q.kind):
		return q.waited > 0
	case q.pairs < 10:
		return false
	}
	return q.spread*20 >= q.pairs && q.spreadNs*5 >= q.busy || q.load.linear()
}

// shapers are the queueing disciplines that are there to limit a rate.
var shapers = []string{"tbf", "htb", "hfsc", "cake"}

// rate is how fast the queue let packets of the flow out while it had some, bits/s; 0: not known.
func (q *queue) rate() uint64 {
	if !q.limits() || q.pairNs <= 0 {
		return 0
	}
	return uint64(float64(q.pairBytes) * 8e9 / float64(q.pairNs))
}

type queueKey struct {
	dir  direction
	name string
}

// queues are those that packets of a flow have waited in, or were dropped by.
type queues map[queueKey]*queue

// maxQueues is how many are told apart.
const maxQueues = 64

func (qs queues) get(dir direction, name string) *queue {
	key := queueKey{dir, name}
	q := qs[key]
	if q == nil && len(qs) < maxQueues {
		q = &queue{dir: dir, name: name}
		qs[key] = q
	}
	return q
}

// add notes what a packet met.
func (qs queues) add(r *record.Record, dir direction) {
	for i := range r.Hops {
		h := &r.Hops[i]
		if h.Port == "" || h.AtNs == nil || *h.AtNs < 0 || *h.AtNs >= longest {
			continue
		}
		name, wait := place(h.Node, h.Port), int64(0)
		if h.QueueNs == nil {
			q := qs[queueKey{dir, name}] // of a port where nothing waits there is no queue
			if q == nil || i == len(r.Hops)-1 {
				continue
			}
			q.add(r.TNs+*h.AtNs, r.TNs+*h.AtNs, r.Len)
			continue
		}
		if wait = *h.QueueNs; wait < 0 || wait >= longest {
			continue
		}
		if q := qs.get(dir, name); q != nil {
			q.add(r.TNs+*h.AtNs, r.TNs+*h.AtNs+wait, r.Len)
		}
	}
	qs.lose(r, dir)
}

// lose notes that a queue has dropped a packet.
func (qs queues) lose(r *record.Record, dir direction) {
	if l := r.Loss; l != nil && l.At == record.AtQueue {
		if q := qs.get(dir, place(l.Node, l.Port)); q != nil {
			q.lost += uint64(max(r.Segs, 1))
			q.kind = l.Qdisc
		}
	}
}
