// SPDX-License-Identifier: Apache-2.0

package wording

import (
	"fmt"
	"strings"

	"github.com/vnetradar/radar/pkg/answer/explain"
	"github.com/vnetradar/radar/pkg/words"
)

func queueText(a *explain.Answer) string {
	q := a.Queue
	if q == nil {
		if a.Cause == explain.ByECN {
			return fmt.Sprintf("%s of its packets were marked (ECN) to signal congestion", percent(float64(a.Marked), float64(a.Packets)))
		}
		return fmt.Sprintf("the queue of %s dropped %s of its packets", a.Place, Percent(a.Loss.Ratio))
	}
	rate := ""
	switch {
	case q.ConfiguredBps > 0:
		rate = words.Rate(q.ConfiguredBps) + " "
	case q.RateBps > 0:
		rate = "queue, which let out " + words.Rate(q.RateBps) + ","
	}
	text := q.Name + "'s " + rate
	if !strings.HasSuffix(text, ",") {
		text += "queue"
	}
	text += onWay(a)
	if q.Waited > 0 {
		text += " held packets " + spread(&q.Times)
	}
	of := a.Packets + a.Fragments
	if a.AckWay {
		of = a.AckPackets
	}
	if q.Lost > 0 {
		text += joined(q.Waited > 0) + fmt.Sprintf(" dropped %s", percent(float64(q.Lost), float64(of))) + limitText(q)
	}
	if a.Cause == explain.ByECN {
		text += fmt.Sprintf(", and %s were marked (ECN) to signal congestion", percent(float64(a.Marked), float64(a.Packets)))
	}
	return text + partText(q)
}

// partText says that a queue let out far less of the flow than its rate: then it is not the rate that is too low.
func partText(q *explain.QueueRow) string {
	if q.RateBps == 0 || 2*q.RateBps >= q.ConfiguredBps {
		return ""
	}
	return fmt.Sprintf("; the flow got %s of the %s: others wait in the same queue, or its class has no more", words.Rate(q.RateBps), words.Rate(q.ConfiguredBps))
}

// limitText is what a queue holds, where it has dropped packets.
func limitText(q *explain.QueueRow) string {
	kind := q.Holds
	if kind == "" {
		kind = q.Qdisc
	}
	switch {
	case q.LimitPackets > 0:
		return fmt.Sprintf(" (its %s holds %s)", kind, words.Plural(int(q.LimitPackets), "packet"))
	case q.LimitBytes > 0:
		return fmt.Sprintf(" (its %s holds %s)", kind, words.Bytes(float64(q.LimitBytes)))
	}
	return ""
}
