// SPDX-License-Identifier: Apache-2.0

package transparency

import (
	"regexp"
	"slices"
	"strings"
	"time"
)

// line is chain without IPv6.
func line(w *World) {
	w.Nodes("out", "r1", "r2", "r3", "far")
	w.Link("out", "eth0", "10.0.1.1/24", "r1", "eth0", "10.0.1.2/24")
	w.Link("r1", "eth1", "10.0.2.1/24", "r2", "eth0", "10.0.2.2/24")
	w.Link("r2", "eth1", "10.0.3.1/24", "r3", "eth0", "10.0.3.2/24")
	w.Link("r3", "eth1", "10.0.4.1/24", "far", "eth0", "10.0.4.2/24")
	w.Forward("r1", "r2", "r3")
	w.Route("out", "default", "10.0.1.2")
	w.Route("far", "default", "10.0.4.1")
	w.Route("r1", "10.0.4.0/24", "10.0.2.2")
	w.Route("r2", "10.0.4.0/24", "10.0.3.2")
	w.Route("r2", "10.0.1.0/24", "10.0.2.1")
	w.Route("r3", "10.0.1.0/24", "10.0.3.1")
}

// Queue gives a port a queueing discipline: "tc qdisc add dev PORT root ARGS".
func (w *World) Queue(node, port string, args ...string) {
	w.T.Helper()
	w.Run(node, slices.Concat([]string{"tc", "qdisc", "add", "dev", port, "root"}, args)...)
}

// sentBy are the lines of "tc -s" that count packets, without what follows from times.
var sentBy = regexp.MustCompile(`^(qdisc|class) .*|Sent \d+ bytes \d+ pkt \(dropped \d+`)

// QueueCounters observes what the queues of a port have sent and dropped.
func (w *World) QueueCounters(node, port string) {
	w.Observe("queues of "+node+"/"+port, func() []string { return w.queueCounters(node, port) })
}

func (w *World) queueCounters(node, port string) (lines []string) {
	for _, what := range []string{"qdisc", "class"} {
		ours := false
		for _, line := range strings.Split(w.Run(node, "tc", "-s", what, "show", "dev", port), "\n") {
			s := sentBy.FindString(strings.TrimSpace(line))
			if strings.HasPrefix(s, what) {
				ours = strings.Contains(s, "clsact") // where there is no TCX; it has counters, too
			}
			if s != "" && !ours {
				lines = append(lines, s)
			}
		}
	}
	return lines
}

// Where times are checked: how far the median of radar's ends of waits may lie from the
// captures', and which part of the waits may be missing. (Kernels of some virtual machines
// call no tracing program while a thread of process 1 is current.)
const (
	waitMedian = 20 * time.Microsecond
	waitUnseen = 5 // one in
)

// wantWaits checks the times in the queue of one port, and that no other has any. A
// capture sees a packet as it leaves the queue; compared are those with ports of their
// own. None may end behind its capture. Where times are checked, so is how near to it they end,
// and that the longest is as long as that.
func (r *Run) wantWaits(node, port string, longest time.Duration) {
	r.T.Helper()
	left, times := make(map[string]time.Time), make(map[string]int)
	for _, c := range r.captures {
		for _, s := range c.seen {
			if s.decoded != nil && c.node == node && c.port == port && s.dir == out {
				left[s.tuple()] = s.at
				times[s.tuple()]++
			}
		}
	}
	var off []time.Duration
	var most time.Duration
	unseen := 0
	passable := slices.Contains(r.c.Needs, "fq_codel") // an empty one lets packets pass it by
	for i := range r.Records {
		rec := &r.Records[i]
		src, dst := rec.Src, rec.Dst
		for i, h := range rec.Hops {
			if h.Node != node || h.Port != port {
				if h.QueueNs != nil {
					r.T.Errorf("a wait of %v at %s/%s, which has no queue", time.Duration(*h.QueueNs), h.Node, h.Port)
				}
				if h.QueueUnseen {
					r.T.Errorf("an unseen wait at %s/%s, which has no queue", h.Node, h.Port)
				}
				continue
			}
			tuple := recordTuple(rec, src, dst, deref(rec.Sport), deref(rec.Dport))
			at := left[tuple]
			switch {
			case times[tuple] != 1: // lost there, or one of several of a flow
			case h.QueueNs == nil:
				unseen++
				// Where all packets are queued, the record says so.
				if !h.QueueUnseen && i+1 < len(rec.Hops) && !passable {
					r.T.Errorf("nothing is said of the wait at %s/%s\n  record %s", node, port, show(rec))
				}
			default:
				wait := time.Duration(*h.QueueNs)
				most = max(most, wait)
				late := at.Sub(time.Unix(0, rec.TNs+*h.AtNs)) - wait
				if off = append(off, late); late < -clockError || wait < 0 {
					r.T.Errorf("a wait of %v at %s/%s ends %v behind the capture of what left the queue\n  record %s", wait, node, port, -late, show(rec))
				}
			}
		}
	}
	slices.Sort(off)
	if len(off) == 0 || r.checkTimes && unseen*waitUnseen > len(off)+unseen {
		r.T.Errorf("%d waits at %s/%s are known, %d are not", len(off), node, port, unseen)
		return
	}
	median := off[len(off)/2]
	r.T.Logf("%d waits at %s/%s, %d unseen, longest %v; capture - radar: median %v, most %v", len(off), node, port, unseen, most, median, off[len(off)-1])
	if r.checkTimes && median.Abs() > patience*waitMedian {
		r.T.Errorf("waits at %s/%s: their ends lie %v before the captures, in the median", node, port, median)
	}
	if r.checkTimes && most < longest {
		r.T.Errorf("the longest wait at %s/%s is %v, want %v at least", node, port, most, longest)
	}
}
