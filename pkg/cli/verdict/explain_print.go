// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/vnetradar/radar/pkg/aggregate"
	"github.com/vnetradar/radar/pkg/answer/explain"
	"github.com/vnetradar/radar/pkg/answer/wording"
	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/words"
)

// printExplained prints an answer; list is all that was asked for, the flow of the answer first.
func printExplained(k *kit.Kit, a *explain.Answer, list []explain.Candidate) error {
	if k.Output.Raw() {
		return kit.PrintJSON(k.Out, a)
	}
	fmt.Fprintln(k.Out, kit.Bold.Paint(k.Colored(), a.Summary))
	printFacts(k.Out, a)
	steps := []func(*kit.Kit, *explain.Answer) error{printTimes, printKernel, printParts, printQueues, printLosses, printResends, printOthers}
	for _, step := range steps {
		if err := step(k, a); err != nil {
			return err
		}
	}
	noteOthers(k, list)
	return nil
}

// maxOthers is how many other flows are explained.
const maxOthers = 5

// printOthers prints what held the next flows.
func printOthers(k *kit.Kit, a *explain.Answer) error {
	table := kit.NewTable(kit.Column{Title: "ALSO"}, kit.Column{Title: "FLOW"}, kit.Column{Title: "PACKETS", Right: true}, kit.Column{Title: "CAUSE"}, kit.Column{Title: "WHY"})
	for i := range a.Others {
		o := &a.Others[i]
		table.Add(o.Proto, o.Flow, words.Decimal(o.Packets), string(o.Cause), o.Summary)
	}
	return section(k, table)
}

// noteOthers says which flow was explained, of how many.
func noteOthers(k *kit.Kit, list []explain.Candidate) {
	if len(list) < 2 {
		return
	}
	more := ""
	if n := len(list) - 1 - maxOthers; n > 0 {
		more = fmt.Sprintf("; %d more are not", n)
	}
	k.Notef("%s is explained, as it has most bytes; what held %s stands below%s", flowText(list[0].Src, list[0].Dst), words.Plural(min(len(list)-1, maxOthers), "other"), more)
}

func flowText(src, dst explain.Endpoint) string {
	return words.Endpoint(src.Addr, &src.Port) + "-" + words.Endpoint(dst.Addr, &dst.Port)
}

// printFacts prints what the flow was in numbers.
func printFacts(w io.Writer, a *explain.Answer) {
	ends := ""
	if a.Sender != "" && a.Receiver != "" {
		ends = fmt.Sprintf(" (%s > %s)", a.Sender, a.Receiver)
	}
	fmt.Fprintf(w, "\n%s %s%s: %s, %s in %s", a.Proto,
		flowText(explain.Endpoint{Addr: a.Src, Port: a.Sport}, explain.Endpoint{Addr: a.Dst, Port: a.Dport}), ends,
		words.Plural(int(a.Packets), "packet"), words.Plural(int(a.PayloadBytes), "byte"), words.Duration(float64(a.DurationNs)))
	if a.ThroughputBps > 0 {
		fmt.Fprintf(w, ", %s", words.Rate(a.ThroughputBps))
	}
	fmt.Fprintln(w)
	var facts []string
	add := func(n uint64, ratio float64, what string) {
		if n > 0 {
			facts = append(facts, fmt.Sprintf("%s %d (%s)", what, n, wording.Percent(ratio)))
		}
	}
	of := float64(max(a.Packets, 1))
	add(a.Lost, a.LostRatio, "lost")
	add(a.Dropped, float64(a.Dropped)/of, "dropped after delivery")
	add(a.Resent, a.ResentRatio, "sent again")
	add(a.Reordered, float64(a.Reordered)/of, "reordered")
	add(a.Marked, float64(a.Marked)/of, "marked CE")
	if len(facts) > 0 {
		fmt.Fprintln(w, strings.Join(facts, ", "))
	}
	if win := a.Window; win != nil {
		atLeast := ""
		if !win.Known {
			atLeast = "at least "
		}
		fmt.Fprintf(w, "in flight %d bytes (p50), %d at most; window %s%d bytes (p50), %d to %d; segments of %d\n",
			win.Flight, win.FlightTo, atLeast, win.P50, win.Min, win.Max, win.MSS)
	}
	printBeginning(w, a)
}

// printBeginning prints how the connection began, where that is worth a line, and how it was cut off.
func printBeginning(w io.Writer, a *explain.Answer) {
	if a.Connections > 1 {
		fmt.Fprintf(w, "%d connections between these ends, one after the other: this is the one with most data\n", a.Connections)
	}
	if a.Syns > 1 || a.NotBegun && a.Syns > 0 {
		fmt.Fprintf(w, "%s, %s in answer\n", words.Plural(int(a.Syns), "SYN"), words.Plural(int(a.SynAcks), "SYN-ACK"))
	}
	if a.Reset != nil {
		fmt.Fprintf(w, "%s sent a RST\n", a.Reset.Node)
	}
	if a.Unreachable > 0 {
		fmt.Fprintf(w, "%s (unreachable, or packet too big) to its ends\n", words.Plural(int(a.Unreachable), "ICMP error"))
	}
}

func share(n, of int64) string {
	if of <= 0 {
		return "0%"
	}
	return fmt.Sprintf("%.0f%%", 100*float64(n)/float64(of))
}

func printTimes(k *kit.Kit, a *explain.Answer) error {
	t := a.Time
	if t == nil {
		return nil
	}
	all := t.Network + t.Recovery + t.Window + t.Closed + t.Sender
	if all == 0 {
		return nil
	}
	table := kit.NewTable(kit.Column{Title: "WAITED FOR"}, kit.Column{Title: "TIME", Right: true}, kit.Column{Title: "SHARE", Right: true})
	for _, row := range []struct {
		what string
		ns   int64
	}{{"the network", t.Network}, {"what was lost", t.Recovery}, {"the receiver's window, which was used up", t.Window},
		{"the receiver's window, which was closed", t.Closed}, {"the sender's application", t.Sender}} {
		if row.ns > 0 {
			table.Add(row.what, words.Duration(float64(row.ns)), share(row.ns, all))
		}
	}
	return section(k, table)
}

// printKernel prints what the sending socket says.
func printKernel(k *kit.Kit, a *explain.Answer) error {
	v := a.Kernel
	if v == nil {
		return nil
	}
	table := kit.NewTable(kit.Column{Title: "KERNEL OF " + v.Node}, kit.Column{Title: "SINCE IT BEGAN", Right: true}, kit.Column{Title: "SHARE", Right: true},
		kit.Column{Title: "LAST " + words.Duration(float64(v.OverNs)), Right: true})
	add := func(what string, whole, of, recent int64) {
		table.Add(what, words.Duration(float64(whole)), share(whole, of), words.Duration(float64(recent)))
	}
	add("busy sending", v.Whole.BusyNs, v.Whole.BusyNs, v.Recent.BusyNs)
	add("of that: receiver's window", v.Whole.WindowNs, v.Whole.BusyNs, v.Recent.WindowNs)
	add("of that: its send buffer", v.Whole.BufferNs, v.Whole.BusyNs, v.Recent.BufferNs)
	if err := section(k, table); err != nil {
		return err
	}
	limited := ""
	if v.AppLimited {
		limited = " (its application had too little)"
	}
	_, err := fmt.Fprintf(k.Out, "congestion window %d to %d segments of %d, round trip %s (smoothed), %s at least, %d sent again, %d bytes wait in the socket, delivers %s%s\n",
		v.CwndMin, v.CwndMax, v.MSS, words.Duration(float64(v.RTTNs)), words.Duration(float64(v.LeastRTTNs)), v.Resent, v.NotSent, words.Rate(v.DeliveredBps), limited)
	return err
}

// section prints a table behind an empty line.
func section(k *kit.Kit, t *kit.Table) error {
	if t.Empty() {
		return nil
	}
	fmt.Fprintln(k.Out)
	return t.Flush(k.Out)
}

var wayText = map[string]string{"data": "data", "ack": "ack", "end": "receiver"}

func printParts(k *kit.Kit, a *explain.Answer) error {
	if a.RTT == nil {
		return printLeftOut(k, a)
	}
	table := kit.NewTable(kit.Column{Title: "WAY"}, kit.Column{Title: "PART"}, kit.Column{Title: "P50", Right: true}, kit.Column{Title: "P99", Right: true},
		kit.Column{Title: "MEAN", Right: true}, kit.Column{Title: "SHARE", Right: true})
	add := func(way, part string, q *aggregate.Quantiles, mean int64, s float64) {
		table.Add(way, part, words.Duration(float64(q.P50Ns)), words.Duration(float64(q.P99Ns)), words.Duration(float64(mean)), fmt.Sprintf("%.0f%%", 100*s))
	}
	hidden := 0
	for i := range a.Parts {
		p := &a.Parts[i]
		if k.Output != kit.FormatWide && p.Share < 0.01 && len(a.Parts) > 12 {
			hidden++
			continue
		}
		add(wayText[p.Way], string(p.Kind)+" "+p.Name, &p.Times, p.Mean, p.Share)
	}
	if hidden > 0 {
		table.Add("", fmt.Sprintf("%d parts below 1%%: -o wide", hidden))
	}
	table.Add("", "all parts", "", "", words.Duration(float64(a.Summed)), share(a.Summed, a.Mean))
	what := "round trip"
	if a.Proto != "tcp" {
		what = "way"
	}
	add("", what, a.RTT, a.Mean, 1)
	if err := section(k, table); err != nil {
		return err
	}
	return printLeftOut(k, a)
}

// printLeftOut says how many round trips are in none of the parts.
func printLeftOut(k *kit.Kit, a *explain.Answer) error {
	if a.LeftOut == 0 {
		return nil
	}
	above := ""
	if a.RTT == nil {
		above = "\nno round trip can be divided\n"
	}
	_, err := fmt.Fprintf(k.Out, "%s%s left out: during loss recovery, or of data that was sent twice\n", above, words.Plural(int(a.LeftOut), "round trip"))
	return err
}

func printQueues(k *kit.Kit, a *explain.Answer) error {
	table := kit.NewTable(kit.Column{Title: "WAY"}, kit.Column{Title: "QUEUE"}, kit.Column{Title: "QDISC"}, kit.Column{Title: "CONFIGURED", Right: true}, kit.Column{Title: "BURST", Right: true}, kit.Column{Title: "LIMIT", Right: true},
		kit.Column{Title: "LET OUT", Right: true}, kit.Column{Title: "P50", Right: true}, kit.Column{Title: "P99", Right: true}, kit.Column{Title: "BUSY", Right: true}, kit.Column{Title: "LOST", Right: true})
	rate := func(bps uint64) string {
		if bps == 0 {
			return ""
		}
		return words.Rate(bps)
	}
	for i := range a.Queues {
		q := &a.Queues[i]
		qdisc := q.Qdisc
		if q.Holds != "" && q.Holds != qdisc {
			qdisc += ", " + q.Holds
		}
		limit := ""
		switch {
		case q.LimitPackets > 0:
			limit = words.Decimal(q.LimitPackets)
		case q.LimitBytes > 0:
			limit = words.Bytes(float64(q.LimitBytes))
		}
		burst := ""
		if q.BurstBytes > 0 {
			burst = words.Bytes(float64(q.BurstBytes))
		}
		table.Add(wayText[q.Way], q.Name, qdisc, rate(q.ConfiguredBps), burst, limit, rate(q.RateBps), words.Duration(float64(q.Times.P50Ns)), words.Duration(float64(q.Times.P99Ns)),
			fmt.Sprintf("%.0f%%", 100*q.Busy), words.Decimal(q.Lost))
	}
	return section(k, table)
}

func printLosses(k *kit.Kit, a *explain.Answer) error {
	table := kit.NewTable(kit.Column{Title: "WAY"}, kit.Column{Title: "LOST AT"}, kit.Column{Title: "PLACE"}, kit.Column{Title: "PACKETS", Right: true},
		kit.Column{Title: "REASON"}, kit.Column{Title: "WHY"})
	for i := range a.Losses {
		l := &a.Losses[i]
		at := string(l.At)
		if l.AfterDelivery {
			at = "after delivery"
		}
		table.Add(wayText[l.Way], l.Name(), at, words.Decimal(l.Packets), cmp.Or(l.Reason, l.Function), k.Shown.LossWhy(l.LossPlace(), &l.Place))
	}
	return section(k, table)
}

// printResends prints why data was sent again: how often, or, with -o wide, each time.
func printResends(k *kit.Kit, a *explain.Answer) error {
	table := kit.NewTable(kit.Column{Title: "SENT AGAIN", Right: true}, kit.Column{Title: "WHY"})
	whys := slices.SortedFunc(maps.Keys(a.ResentWhy), func(x, y explain.Why) int {
		return cmp.Or(cmp.Compare(a.ResentWhy[y], a.ResentWhy[x]), cmp.Compare(x, y))
	})
	for _, why := range whys {
		table.Add(words.Decimal(a.ResentWhy[why]), wording.WhyAgain(why))
	}
	if err := section(k, table); err != nil || k.Output != kit.FormatWide {
		return err
	}
	each := kit.NewTable(kit.Column{Title: "TIME"}, kit.Column{Title: "ID"}, kit.Column{Title: "SEQ", Right: true}, kit.Column{Title: "BYTES", Right: true},
		kit.Column{Title: "AFTER", Right: true}, kit.Column{Title: "FIRST"}, kit.Column{Title: "WHY"})
	for i := range a.Resends {
		r := &a.Resends[i]
		each.Add(time.Unix(0, r.TNs).In(k.Location).Format("15:04:05.000000"), r.ID, strconv.FormatInt(r.Seq, 10), strconv.Itoa(r.Bytes),
			words.Duration(float64(r.AfterNs)), firstText(r), resendText(r))
	}
	if a.MoreResent > 0 {
		k.Notef("%d more were sent again: only the first ones are listed", a.MoreResent)
	}
	return section(k, each)
}

func firstText(r *explain.ResendRow) string {
	if len(r.Originals) > 1 {
		return fmt.Sprintf("%s and %d more", r.Originals[0], len(r.Originals)-1)
	}
	return strings.Join(r.Originals, "")
}

// resendText is why one piece of data was sent again.
func resendText(r *explain.ResendRow) string {
	text := wording.WhyAgain(r.Why)
	if l := r.Loss; l != nil {
		at := l.Node
		if l.Port != "" {
			at += "/" + l.Port
		}
		text += " at " + strings.TrimSpace(at+" "+string(l.At))
		if reason := cmp.Or(l.Reason, l.Function); reason != "" {
			text += " (" + reason + ")"
		}
	}
	if r.Ack != "" {
		text += ", " + r.Ack
	}
	if r.TookNs != nil && r.Where != "" && (r.Why == explain.WasSlow || r.Why == explain.Overtaken || r.Why == explain.AckSlow) {
		text += fmt.Sprintf(": %s, of which %s took %s", words.Duration(float64(*r.TookNs)), r.Where, words.Duration(float64(r.WhereNs)))
	}
	return text
}
