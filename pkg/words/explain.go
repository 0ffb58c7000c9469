// SPDX-License-Identifier: Apache-2.0

package words

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/vnetradar/radar/pkg/answer/explain"
	"github.com/vnetradar/radar/pkg/record"
)

// Explained is why a flow was slow, in one sentence.
func Explained(a *explain.Answer) string {
	if a.NotBegun && a.Loss != nil {
		return "no connection: " + lossText(a)
	}
	switch a.Cause {
	case explain.ByQueue, explain.ByECN:
		return "slow because " + queueText(a)
	case explain.ByLoss, explain.ByFirewall, explain.ByMTU:
		return "slow because " + lossText(a)
	case explain.ByDelay:
		return "slow because " + delayText(a)
	case explain.ByReordering:
		return "slow because " + orderText(a)
	case explain.ByWindow, explain.ByReceiver:
		return "slow because " + receiverText(a)
	case explain.BySender:
		return "slow because " + senderText(a)
	case explain.Refused:
		return refusedText(a)
	case explain.Unanswered:
		return fmt.Sprintf("no connection: %s did not answer %s", orEnd(a.Place, a.Dst), Plural(int(a.Syns), "SYN"))
	case explain.NotEnough:
		return "there is too little to tell why: see the notes"
	}
	return nothingText(a)
}

// orEnd is a place, or an address where the place is not known.
func orEnd(place, addr string) string {
	if place == "" {
		return addr
	}
	return place
}

// onWay says on whose way a place is, where that is not data's.
func onWay(a *explain.Answer) string {
	if a.AckWay {
		return " (on the way of acknowledgements)"
	}
	return ""
}

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
		rate = Rate(q.ConfiguredBps) + " "
	case q.RateBps > 0:
		rate = "queue, which let out " + Rate(q.RateBps) + ","
	}
	text := q.Name + "'s " + rate
	if !strings.HasSuffix(text, ",") {
		text += "queue"
	}
	text += onWay(a)
	if q.Waited > 0 {
		text += fmt.Sprintf(" held packets %s (p50)", Duration(float64(q.Times.P50Ns)))
	}
	of := a.Packets
	if a.AckWay {
		of = a.AckPackets
	}
	if q.Lost > 0 {
		text += joined(q.Waited > 0) + fmt.Sprintf(" dropped %s", percent(float64(q.Lost), float64(of)))
	}
	if a.Cause == explain.ByECN {
		text += fmt.Sprintf(", and %s were marked (ECN) to signal congestion", percent(float64(a.Marked), float64(a.Packets)))
	}
	return text
}

func joined(more bool) string {
	if more {
		return " and"
	}
	return ""
}

// lossText says where packets were lost.
func lossText(a *explain.Answer) string {
	l := a.Loss
	where, what := lossWhere(l), fmt.Sprintf("%s of its packets", Percent(l.Ratio))
	if a.NotBegun {
		what = Plural(int(l.Packets), "packet") + " of its handshake"
	}
	switch a.Cause {
	case explain.ByFirewall:
		text := fmt.Sprintf("a rule in %s dropped %s%s", where, what, onWay(a))
		if !a.NotBegun && a.Partly {
			text += ": it lets the others pass, as a rate limit (policer) does"
		}
		return text + reasonText(l)
	case explain.ByMTU:
		text := fmt.Sprintf("packets of %s and more do not pass %s (MTU): %s were lost there", bytesText(l.SmallestBytes), where, Plural(int(l.Packets), "packet"))
		if a.Unreachable > 0 {
			text += fmt.Sprintf(", and %s was sent back", Plural(int(a.Unreachable), "ICMP error"))
		} else {
			text += ", and no ICMP error came to the sender"
		}
		return text
	}
	if l.AfterDelivery {
		return fmt.Sprintf("%s dropped %s after delivery%s%s", where, what, onWay(a), reasonText(l))
	}
	return fmt.Sprintf("%s were lost at %s%s%s", what, where, onWay(a), reasonText(l))
}

// lossWhere is the place of losses: "r1/eth1", "the link behind r1/eth1".
func lossWhere(l *explain.LossRow) string {
	name := l.Name()
	switch {
	case l.At == record.AtLink:
		return "the link behind " + name
	case l.At == record.AtNode:
		return l.Node
	case name == "":
		return "a place that is not known"
	}
	return name
}

// reasonText is " [NETFILTER_DROP, nft_do_chain()]".
func reasonText(l *explain.LossRow) string {
	var list []string
	if l.Reason != "" {
		list = append(list, l.Reason)
	}
	if l.Function != "" {
		list = append(list, l.Function+"()")
	}
	if len(list) == 0 {
		return ""
	}
	return " [" + strings.Join(list, ", ") + "]"
}

func delayText(a *explain.Answer) string {
	p := a.Part
	what := "the link " + p.Name
	switch p.Kind {
	case explain.Node:
		what = "node " + p.Name
	case explain.Queue:
		what = p.Name + "'s queueing discipline"
	}
	if a.Proto != "tcp" {
		return fmt.Sprintf("the way takes %s (p50), of which %s takes %s", Duration(float64(a.RTT.P50Ns)), what, Duration(float64(p.Times.P50Ns)))
	}
	return fmt.Sprintf("the way is long: of a round trip of %s (p50) %s%s takes %s", Duration(float64(a.RTT.P50Ns)), what, onWay(a), Duration(float64(p.Times.P50Ns))) + backText(a)
}

// backText is what acknowledgements wait for in the node that delays data, where that is as long.
func backText(a *explain.Answer) string {
	for i := range a.Parts {
		if p := &a.Parts[i]; p.Way == "ack" && a.Part.Way == "data" && p.Kind == explain.Node && p.Name == a.Part.Name && p.Share > a.Part.Share/2 {
			return ", and " + Duration(float64(p.Times.P50Ns)) + " on the way back"
		}
	}
	return ""
}

func orderText(a *explain.Answer) string {
	text := fmt.Sprintf("%s of its packets arrived behind later ones", percent(float64(a.Reordered), float64(a.Packets)))
	if p := a.Part; p != nil {
		text += fmt.Sprintf(": %s took from %s to %s", p.Name, Duration(float64(p.Times.MinNs)), Duration(float64(p.Times.MaxNs)))
	}
	if n := a.ResentWhy[explain.Overtaken]; n > 0 {
		text += fmt.Sprintf(", and %s sent again for that", PacketsWere(n))
	}
	return text
}

func receiverText(a *explain.Answer) string {
	who := orEnd(a.Place, a.Dst)
	switch {
	case a.Wait == explain.LateAcks:
		return fmt.Sprintf("%s takes %s (p50) to acknowledge data", who, Duration(float64(endNs(a))))
	case a.Wait == explain.NoRoom:
		return fmt.Sprintf("%s had no room for %s of its packets%s", who, Percent(a.Loss.Ratio), reasonText(a.Loss))
	case a.Wait == explain.WindowClosed:
		return fmt.Sprintf("%s reads too slowly: its window was closed %d times, for %s at most, and the sender waited %s of the time",
			who, a.Closings.Count, Duration(float64(a.Closings.MaxNs)), percent(float64(a.Time.Closed+a.Time.Window), float64(timeAll(a.Time))))
	}
	text := fmt.Sprintf("%s offers a window of %s", who, bytesText(int(a.Window.Max)))
	if !a.Window.Known {
		text = fmt.Sprintf("%s offers a window that is used up by %s in flight", who, bytesText(int(a.Window.FlightTo)))
	}
	if a.RTT != nil {
		text += fmt.Sprintf(" for a round trip of %s (p50)", Duration(float64(a.RTT.P50Ns)))
	}
	return text + fmt.Sprintf(": the sender waited for it %s of the time", percent(float64(a.Time.Closed+a.Time.Window), float64(timeAll(a.Time))))
}

func endNs(a *explain.Answer) int64 {
	for i := range a.Parts {
		if a.Parts[i].Kind == explain.End {
			return a.Parts[i].Times.P50Ns
		}
	}
	return 0
}

func timeAll(t *explain.Times) int64 { return t.Network + t.Recovery + t.Window + t.Closed + t.Sender }

func senderText(a *explain.Answer) string {
	who := orEnd(a.Place, a.Src)
	if a.Packets == 0 {
		return who + " sent no data"
	}
	if a.Proto != "tcp" {
		return fmt.Sprintf("%s sent no more: nothing was lost, and nothing waited", who)
	}
	share := percent(float64(a.Time.Sender), float64(timeAll(a.Time)))
	switch {
	case a.Wait == explain.ForPeer:
		return fmt.Sprintf("the sender waits for %s to send something, %s of the time", who, share)
	case a.Wait == explain.Gaps && a.Gaps != nil:
		return fmt.Sprintf("%s had nothing to send %s of the time: %d gaps of %s (p50) with nothing in flight", who, share, a.Gaps.Count, Duration(float64(a.Gaps.P50Ns)))
	}
	return fmt.Sprintf("%s had nothing more to send %s of the time", who, share)
}

func refusedText(a *explain.Answer) string {
	what := "no connection: %s refused it (RST)"
	if !a.NotBegun {
		what = "%s reset the connection (RST) before it acknowledged any data"
	}
	return fmt.Sprintf(what, orEnd(a.Place, a.Dst))
}

func nothingText(a *explain.Answer) string {
	text := "nothing held it"
	if a.ThroughputBps > 0 {
		text += fmt.Sprintf(": it carried %s", Rate(a.ThroughputBps))
	}
	if a.RTT != nil && a.Proto == "tcp" {
		text += fmt.Sprintf(" with a round trip of %s (p50)", Duration(float64(a.RTT.P50Ns)))
	}
	return text + ", and neither queues, losses nor windows made it wait"
}

// Percent is a share in per cent.
func Percent(r float64) string { return percent(r, 1) }

func percent(n, of float64) string {
	if of == 0 {
		return "0 %"
	}
	v := 100 * n / of
	digits := 1
	switch {
	case v >= 10:
		digits = 0
	case v > 0 && v < 0.1:
		digits = 3
	}
	return strconv.FormatFloat(v, 'f', digits, 64) + " %"
}

func bytesText(n int) string { return Plural(n, "byte") }

// Lacks say what evidence is missing, and what to do.
func Lacks(list []explain.Lack) (texts []string) {
	for _, l := range list {
		texts = append(texts, lackTexts[l])
	}
	return texts
}

var lackTexts = map[explain.Lack]string{
	explain.NoTCPFields:  "the records lack TCP's header (they are of an older radar, or of another source): retransmissions, windows and the round trip are not known",
	explain.OneDirection: "packets of one direction only were seen: the round trip and what was acknowledged are not known. Attach the nodes that the other direction passes",
	explain.Overwritten:  "packets are missing of which others speak: the ring has overwritten them. Attach with more ‹slots›, or ask for a later part with ‹since›",
	explain.NoBeginning:  "the beginning of the connection is not in the records: the ring has overwritten it, or nobody measured yet. To have it, attach before with more ‹slots›, or record",
	explain.Incomplete:   "some records lack a part of their way",
	explain.ScaleUnknown: "the window's scale was not seen (it stands in the first packets): the least that fits is used",
	explain.TooMany:      "there were more packets or places at a time than there is room for: the oldest are left out",
	explain.Strange:      "some sequence numbers fit nothing: those packets are left out",
}

// WhyAgain is why data was sent again.
func WhyAgain(why explain.Why) string { return whyAgain[why] }

var whyAgain = map[explain.Why]string{
	explain.WasLost:    "lost",
	explain.WasDropped: "dropped by the receiver's node",
	explain.Overtaken:  "spurious: overtaken by later packets",
	explain.WasSlow:    "spurious: it was still under way",
	explain.AckLost:    "spurious: its acknowledgement was lost",
	explain.AckSlow:    "spurious: its acknowledgement was under way",
	explain.NoAck:      "spurious: the receiver had not acknowledged it yet",
	explain.BehindLoss: "spurious: sent again with an earlier one that was lost",
	explain.TooLate:    "spurious: its acknowledgement came just then",
	explain.NotKnown:   "not known what became of the first",
	explain.NotThere:   "no record of the first",
}
