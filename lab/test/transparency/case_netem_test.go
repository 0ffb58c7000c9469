// SPDX-License-Identifier: Apache-2.0

package transparency

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/record"
)

// delayed is longer than what a queue without delay needs, and shorter than the time
// after which everything counts as arrived.
var delayed = patience * 20 * time.Millisecond

// viaNetem is the line with netem at r2 toward r3.
func viaNetem(w *World, args ...string) {
	line(w)
	w.Queue("r2", "eth1", slices.Concat([]string{"handle", "1:", "netem", "limit", "10000"}, args)...)
	w.Listen("far", "0.0.0.0:7")
	w.QueueCounters("r2", "eth1")
	w.Attach("r1", "r2", "r3")
}

// everySecond is netem's loss by the Gilbert-Elliot model, whose states alternate: the
// first packet passes, the second is lost, and so on.
var everySecond = []string{"loss", "gemodel", "100%", "100%", "100%", "0%"}

var (
	_ = add(Case{
		Name: "netem/delay", Point: 7,
		Shows: "a link that delays (netem): bytes, order, and the delay is the time in the queue",
		Needs: []string{"netem"},
		Build: func(w *World) { viaNetem(w, "delay", fmt.Sprint(delayed.Milliseconds())+"ms") },
		Send:  func(w *World) { mixture(w, 12) },
		Check: func(r *Run) {
			r.wantWaits("r2", "eth1", delayed)
			for _, wait := range r.waits("r2", "eth1") {
				if wait < delayed {
					r.T.Errorf("a wait of %v in a queue that delays by %v", wait, delayed)
				}
			}
		},
	})
	_ = add(Case{
		Name: "netem/loss", Point: 7,
		Shows: "a link that loses every second packet (netem): the same ones, at that queue, counted alike",
		Needs: []string{"netem"},
		Build: func(w *World) { viaNetem(w, everySecond...) },
		Send: func(w *World) {
			for i := range 40 {
				p := w.UDP("10.0.1.1", "10.0.4.2", 60+i)
				p.MayFrag, p.TOS = i%4 > 1, uint8(i%4)
				if s := w.Send("out", p); i%2 == 1 {
					s.Lost("r2", "QDISC_DROP")
				}
			}
		},
		Check: func(r *Run) { r.wantQueueLosses("r2", "eth1", "netem", 20) },
	})
	_ = add(Case{
		Name: "netem/loss-trains", Point: 7,
		Shows: "trains through it: netem loses whole ones, each packet of them is lost",
		Needs: []string{"netem"},
		Build: func(w *World) { viaNetem(w, everySecond...) },
		Send: func(w *World) {
			for i := range 8 {
				p := w.TCP("10.0.1.1", "10.0.4.2", ACK, 1000*(2+i))
				if s := w.SendTrain("out", "eth0", mac("r1", "eth0"), p, 1000); i%2 == 1 {
					s.Lost("r2", "QDISC_DROP")
				}
			}
		},
		Check: func(r *Run) { r.wantQueueLosses("r2", "eth1", "netem", 3+5+7+9) },
	})
	_ = add(Case{
		Name: "netem/duplicate", Point: 7,
		Shows: "a link that sends everything twice (netem): both copies restored, one source",
		Needs: []string{"netem"},
		Build: func(w *World) { viaNetem(w, "duplicate", "100%") },
		Send: func(w *World) {
			for i := range 20 {
				p := w.UDP("10.0.1.1", "10.0.4.2", 60+i)
				p.MayFrag = i%4 == 1
				w.Send("out", p)
			}
		},
		Limits: laterCopy,
	})
	_ = add(Case{
		Name: "netem/reorder", Point: 7,
		Shows: "a link on which each fifth packet overtakes those before it (netem)",
		Needs: []string{"netem"},
		Build: func(w *World) {
			line(w)
			w.Queue("r2", "eth1", "handle", "1:", "netem", "delay", fmt.Sprint(delayed.Milliseconds())+"ms", "reorder", "100%", "gap", "5")
			w.Socket("far", "0.0.0.0:7") // in which order flows arrive, only times say
			w.QueueCounters("r2", "eth1")
			w.Attach("r1", "r2", "r3")
		},
		Send: func(w *World) {
			for i := range 6 { // flows of five packets: the last one comes first
				s := w.Socket("out", fmt.Sprintf("10.0.1.1:%d", 5000+i),
					[3]int{unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO}) // ID 0, else the kernel draws it
				for k := range 5 {
					s.Send("10.0.4.2:7", 60+10*i+k)
				}
			}
		},
		Check: func(r *Run) {
			late := 0
			for _, wait := range r.waits("r2", "eth1") {
				if wait >= delayed {
					late++
				}
			}
			if r.checkTimes && (late > 24 || late < 20) || late == 0 {
				r.T.Errorf("%d packets were delayed, want 24", late)
			}
		},
	})
	_ = add(Case{
		Name: "netem/trains", Point: 7,
		Shows: "trains over a link that delays and sends twice",
		Needs: []string{"netem"},
		Build: func(w *World) {
			viaNetem(w, "delay", fmt.Sprint(delayed.Milliseconds()/2)+"ms", "duplicate", "100%")
		},
		Send: func(w *World) {
			for i := range 5 {
				p := w.TCP("10.0.1.1", "10.0.4.2", ACK, 1000*(2+i*3))
				w.SendTrain("out", "eth0", mac("r1", "eth0"), p, 1000)
			}
		},
		Limits: laterCopy,
	})
)

// laterCopy: one slot has one TTL.
var laterCopy = []Limit{{
	Text:  "duplicates: a copy still on its link when a router has sent another one on gets the TTL that this one has there",
	Match: `differs in ttl 3d/3c|option 2: 61`,
}, {
	Text:  "a copy that a port's queue makes (netem duplicate) has no hop of its own at that port, only where it arrives",
	Match: `passed r2/eth1 out \d+ times, its records say`,
}}

// waits are the times in one port's queue that records have.
func (r *Run) waits(node, port string) (list []time.Duration) {
	for i := range r.Records {
		for _, h := range r.Records[i].Hops {
			if h.Node == node && h.Port == port && h.QueueNs != nil {
				list = append(list, time.Duration(*h.QueueNs))
			}
		}
	}
	return list
}

// wantQueueLosses wants n packets lost in one port's queue, and what tc counts to be the
// number of their skbs.
func (r *Run) wantQueueLosses(node, port, qdisc string, n int) {
	r.T.Helper()
	packets, skbs := 0, 0
	trains := make(map[string]bool)
	for i := range r.Records {
		rec := &r.Records[i]
		if rec.State != record.Lost {
			continue
		}
		if l := rec.Loss; l.Node != node || l.Port != port || l.At != record.AtQueue || l.Qdisc != qdisc {
			r.T.Errorf("lost at %s of %s/%s (%s), want the queue %s of %s/%s", l.At, l.Node, l.Port, l.Qdisc, qdisc, node, port)
		}
		packets += rec.Segs
		if t := tupleOf(rec); !trains[t] {
			trains[t] = true
			skbs++
		}
	}
	if packets != n {
		r.T.Errorf("%d packets are lost, want %d", packets, n)
	}
	want := fmt.Sprintf("(dropped %d,", skbs)
	if got := strings.Join(r.observed["queues of "+node+"/"+port], "\n") + ","; !strings.Contains(got, strings.TrimSuffix(want, ",")) {
		r.T.Errorf("records have %d lost skbs, tc says\n%s", skbs, got)
	}
}
