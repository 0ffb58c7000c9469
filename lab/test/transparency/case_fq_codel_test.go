// SPDX-License-Identifier: Apache-2.0

package transparency

import (
	"regexp"
	"strings"
	"time"
)

// shaped is the line whose link r2 - r3 has a rate, with a discipline that separates
// flows in it.
func shaped(w *World, rate string, args ...string) {
	line(w)
	w.Queue("r2", "eth1", "handle", "1:", "htb", "default", "1")
	w.Run("r2", "tc", "class", "add", "dev", "eth1", "parent", "1:", "classid", "1:1", "htb", "rate", rate, "burst", "2000", "cburst", "2000")
	w.Run("r2", append([]string{"tc", "qdisc", "add", "dev", "eth1", "parent", "1:1", "handle", "10:"}, args...)...)
	w.QueueCounters("r2", "eth1")
	w.Attach("r1", "r2", "r3")
}

// never: its own drops would depend on times.
var never = []string{"target", "10s", "interval", "20s"}

var ceMarks = regexp.MustCompile(`ecn_mark \d+|ce_mark \d+`)

var (
	_ = add(Case{
		Name: "fq_codel/shaped", Point: 7,
		Shows: "every kind of packet through fq_codel below a rate: bytes, order within flows, waits",
		Needs: []string{"fq_codel", "htb"},
		Build: func(w *World) {
			shaped(w, "2mbit", append([]string{"fq_codel"}, never...)...)
			w.Socket("far", "0.0.0.0:7") // in which order flows arrive, only times say
		},
		Send: func(w *World) {
			mixture(w, 12)
			for i := range 20 {
				p := w.UDP("10.0.1.1", "10.0.4.2", 200+i*37)
				p.Sport = 5000 + uint16(i%3)
				w.Send("out", p)
			}
			burst(w)
		},
		Check: func(r *Run) { r.wantWaits("r2", "eth1", time.Millisecond) },
	})
	_ = add(Case{
		Name: "fq_codel/ecn", Point: 7,
		Shows: "CE that fq_codel sets on what waits: arrives, the rest of the byte as sent",
		Needs: []string{"fq_codel", "htb"},
		Build: func(w *World) {
			shaped(w, "2mbit", append([]string{"fq_codel", "ecn", "ce_threshold", "1us"}, never...)...)
			w.Socket("far", "0.0.0.0:7")
			w.Observe("marks of fq_codel", func() []string {
				return ceMarks.FindAllString(w.Run("r2", "tc", "-s", "qdisc", "show", "dev", "eth1"), -1)
			})
		},
		Send: func(w *World) { mixture(w, 12) },
		Check: func(r *Run) {
			if got := strings.Join(r.observed["marks of fq_codel"], " "); !regexp.MustCompile(`ce_mark [1-9]`).MatchString(got) {
				r.T.Errorf("fq_codel marked nothing: %s", got)
			}
		},
	})
	_ = add(trainCase("fq_codel/trains", "trains through fq_codel, alone at its port", []string{"fq_codel"}, true,
		"handle", "1:", "fq_codel"))
	_ = add(trainCase("queues/trains-cake", "trains that CAKE cuts", []string{"cake"}, true,
		"handle", "1:", "cake", "bandwidth", "50mbit", "split-gso", "rtt", "1000s")) // its own drops would depend on times
	_ = add(trainCase("queues/trains-fq", "trains through fq, which paces", []string{"fq"}, true,
		"handle", "1:", "fq", "maxrate", "50mbit"))
)
