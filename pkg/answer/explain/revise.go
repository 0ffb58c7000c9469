// SPDX-License-Identifier: Apache-2.0

package explain

import "github.com/vnetradar/radar/pkg/record"

// notSlow takes back a cause of a flow that was not slow, if that is one of its ends: something always has to be the
// slowest. What the network did to its packets stays.
func (d *decision) notSlow() {
	held := d.Cause
	switch held {
	case BySender:
	case ByWindow:
		if d.Mean >= shortRTT {
			return
		}
	case ByReceiver:
		if d.Wait != WindowClosed {
			return
		}
	case ByReordering: // processors of one machine do that to each fast flow
		if ratio(d.Reordered, d.Packets) >= 10*fewLate || ratio(d.ResentWhy[Overtaken], d.Packets) >= muchLost {
			return
		}
	default:
		return
	}
	short := held != ByReordering && d.Proto == "tcp" && d.Packets > 0 && d.h.last-d.h.begun < shortFlow && d.h.una >= d.h.nxt
	if d.ThroughputBps < fastBps && !short {
		return
	}
	d.Cause, d.Held = Nothing, held
	d.byReset()
}

// dependsOn finds out of what is missing the cause depends on. What packets were seen to meet stays so, whatever is missing.
func (d *decision) dependsOn() {
	for _, l := range d.Lacks {
		depends := false
		switch l {
		case NoTCPFields, OneDirection, Overwritten, Incomplete, TooMany, Strange, Outside:
			depends = d.Loss == nil && d.Queue == nil && d.Cause != Refused
		case NoBeginning:
			depends = d.Cause == Nothing || d.Cause == Unanswered
		case ScaleUnknown:
			depends = d.Cause == ByWindow || d.Held == ByWindow
		case Between:
			depends = d.Loss == nil && d.Queue == nil && d.Cause != Refused || d.Cause == ByLoss && d.Loss.of.reason == record.NotSeen
		case Pending:
			depends = d.Loss == nil || d.Loss.Pending > 0
		}
		if depends {
			d.DependsOn = append(d.DependsOn, l)
		}
	}
}
