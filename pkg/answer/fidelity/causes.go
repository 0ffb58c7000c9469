// SPDX-License-Identifier: Apache-2.0

package fidelity

import (
	"fmt"

	"github.com/vnetradar/radar/pkg/words"
)

// Shares from which on something is named as a cause.
const (
	muchWaiting = 0.1
	muchSteal   = 0.02
	manyTrains  = 0.01
	manyBehind  = 0.05
)

// causes are what can have made a value untrue, the likeliest first.
func (j *judge) causes(what Property, declared, measured float64) (list []string) {
	say := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	n := j.port.Netem
	if what == Delay || what == Jitter {
		if late := j.least() - declared; what == Delay && late > j.o.LeastTime {
			say("late timers: no packet left earlier than %s after its time", words.Duration(late))
		}
		j.starved(say)
	}
	if trains := j.of.shareOf(func(_ int, p *passage) bool { return p.trains }); trains > manyTrains {
		say("GSO trains: %s of the buffers are several packets, which the queue treats as one", part(trains))
	}
	if behind := j.of.shareOf(func(i int, _ *passage) bool { return j.waited[i] }); behind > manyBehind && what != Rate {
		if len(j.of.flows) > 1 {
			say("a shared queue: %d flows, and %s of the packets waited behind others", len(j.of.flows), part(behind))
		} else {
			say("bursts: %s of the packets waited behind others of their flow", part(behind))
		}
	}
	if what == Loss && n != nil && measured > declared {
		if held := j.held(); held > 0.9*float64(n.Limit) {
			say("a short queue: up to %.0f packets were in it at once, its limit is %d", held, n.Limit)
		}
	}
	if what == Rate && measured < declared {
		j.starved(say)
	}
	if len(list) == 0 {
		say("nothing that radar knows of: look at the rules of the node, and at other disciplines of the port")
	}
	return list
}

// starved says that processors were not there when they were needed.
func (j *judge) starved(say func(string, ...any)) {
	m := j.machine
	over := "of the last minute"
	if m.OverNs > 0 {
		over = "of the time"
	}
	if m.Waiting != nil && *m.Waiting > muchWaiting {
		say("starved processors: in %s %s some task waited for one (pressure)", part(*m.Waiting), over)
	}
	if m.Steal > muchSteal {
		say("the hypervisor took %s of the processors' time (steal)", part(m.Steal))
	}
	if m.OverNs > 0 && m.Squeeze > 0 {
		say("the kernel put packets off %d times, since it had too many at once (softnet)", m.Squeeze)
	}
}

func part(share float64) string { return fmt.Sprintf("%.3g %%", share*100) }

// least is the least wait.
func (j *judge) least() float64 {
	if len(j.of.list) == 0 {
		return 0
	}
	least := j.of.list[0].wait
	for i := range j.of.list {
		least = min(least, j.of.list[i].wait)
	}
	return float64(least)
}

// held is how many packets were in the queue at once, at most.
func (j *judge) held() float64 {
	most, first := 0, 0
	for i := range j.of.list {
		for j.of.list[first].left() < j.of.list[i].enqueued {
			first++
		}
		most = max(most, i-first+1)
	}
	return float64(most)
}
