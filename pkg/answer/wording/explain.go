// SPDX-License-Identifier: Apache-2.0

package wording

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/vnetradar/radar/pkg/aggregate"
	"github.com/vnetradar/radar/pkg/answer/explain"
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/words"
)

// Explained is why a flow was slow, in one sentence. What the answer lacks and depends on stands first.
func Explained(a *explain.Answer) string {
	text := causeText(a)
	text += exceededText(a)
	if a.Unassembled > 0 && a.LostFragments+a.Lost > 0 {
		text += fmt.Sprintf("; %s could not be put together, since other fragments of them were lost", words.Plural(int(a.Unassembled), "datagram"))
	}
	if a.Kernel != nil && a.Kernel.ByBuffer() {
		text += fmt.Sprintf("; the kernel of %s says that its socket's send buffer held it %s of the time (SO_SNDBUF, tcp_wmem)", a.Kernel.Node, percent(float64(a.Kernel.Whole.BufferNs), float64(a.Kernel.Whole.BusyNs)))
	}
	if r := a.Reset; a.Cause != explain.ByReset && r != nil && r.Broke {
		text += fmt.Sprintf("; then %s reset the connection (RST)%s", orEnd(r.Node, a.Dst), unackedText(r))
	}
	if len(a.DependsOn) == 0 {
		return text
	}
	var lacks []string
	for _, l := range a.DependsOn {
		lacks = append(lacks, dependTexts[l])
	}
	return fmt.Sprintf("as far as is known (%s): %s", strings.Join(lacks, "; "), text)
}

// exceededText says of queues that let more through than they declare.
func exceededText(a *explain.Answer) (text string) {
	for i := range a.Queues {
		q := &a.Queues[i]
		switch {
		case !q.Exceeded:
		case q.BurstBytes > 0 && a.Bytes <= q.BurstBytes:
			text += fmt.Sprintf("; %s did not hold it to its rate of %s: its burst of %s was not used up by %s", q.Name, words.Rate(q.ConfiguredBps), words.Bytes(float64(q.BurstBytes)), words.Bytes(float64(a.Bytes)))
		case q.BurstBytes > 0:
			text += fmt.Sprintf("; %s did not hold it to its rate of %s: a burst of %s passed at once", q.Name, words.Rate(q.ConfiguredBps), words.Bytes(float64(q.BurstBytes)))
		default:
			text += fmt.Sprintf("; %s did not hold it to its rate of %s", q.Name, words.Rate(q.ConfiguredBps))
		}
	}
	return text
}

var dependTexts = map[explain.Lack]string{
	explain.NoTCPFields:  "records lack TCP's header",
	explain.OneDirection: "one direction was not seen",
	explain.Overwritten:  "some of its packets were overwritten",
	explain.NoBeginning:  "its beginning was not seen",
	explain.Incomplete:   "parts of its way were not seen",
	explain.ScaleUnknown: "the window's scale was not seen",
	explain.TooMany:      "there was no room for all of it",
	explain.Strange:      "some sequence numbers fit nothing",
	explain.Outside:      "one end is not attached",
	explain.Between:      "nodes between are not attached",
	explain.Pending:      "packets have not ended, and are taken for lost",
}

// slow begins a sentence about what held a flow.
func slow(a *explain.Answer) string {
	if a.ThroughputBps >= 1e9 {
		return "it carried " + words.Rate(a.ThroughputBps) + ", and no more because "
	}
	return "slow because "
}

func causeText(a *explain.Answer) string {
	if a.NotBegun && a.Loss != nil {
		return "no connection: " + lossText(a)
	}
	switch a.Cause {
	case explain.ByQueue, explain.ByECN, explain.ByLoss, explain.ByFirewall, explain.ByNetfilter, explain.ByMTU, explain.ByDelay, explain.ByReordering,
		explain.ByWindow, explain.ByReceiver, explain.BySender:
		return slow(a) + heldText(a, a.Cause)
	case explain.Refused:
		return refusedText(a)
	case explain.ByReset:
		return resetText(a)
	case explain.Unanswered:
		text := fmt.Sprintf("no connection: %s did not answer %s", orEnd(a.Place, a.Dst), words.Plural(int(a.Syns), "SYN"))
		if a.NoAnswer != nil {
			text += ": " + (*Names)(nil).Cause(a.NoAnswer)
		}
		return text
	case explain.NotEnough:
		return "there is too little to tell why: see the notes"
	}
	return nothingText(a)
}

// heldText is what held a flow.
func heldText(a *explain.Answer, cause explain.Cause) string {
	switch cause {
	case explain.ByQueue, explain.ByECN:
		return queueText(a)
	case explain.ByDelay:
		return delayText(a)
	case explain.ByReordering:
		return orderText(a)
	case explain.ByWindow, explain.ByReceiver:
		return receiverText(a)
	case explain.BySender:
		return senderText(a)
	}
	return lossText(a)
}

func resetText(a *explain.Answer) string {
	if u := a.Untranslated; u != nil && a.Reset.Stray {
		return fmt.Sprintf("%s passed %s untranslated: %s came to %s from %s, and %s reset the connection (RST) after %s", u.Node,
			words.Plural(int(u.Packets), "packet"), itOrThey(u.Packets), u.At, u.Src, u.At, bytesText(int(a.PayloadBytes)))
	}
	text := fmt.Sprintf("%s reset the connection (RST) after %s%s", orEnd(a.Place, a.Dst), bytesText(int(a.PayloadBytes)), unackedText(a.Reset))
	if a.Held != "" {
		text += ". What it waited for most: " + heldText(a, a.Held)
	}
	return text
}

func itOrThey(n uint64) string {
	if n == 1 {
		return "it"
	}
	return "they"
}

// unackedText says that the sender was not done.
func unackedText(r *explain.Reset) string {
	switch {
	case r.Unacked == 0 && r.Full:
		return ", with its window used up"
	case r.Unacked == 0:
		return ", and nobody had said that it was done (FIN)"
	}
	return fmt.Sprintf(", with %s not acknowledged", bytesText(int(r.Unacked)))
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

// spread is how long something took: where it comes in spikes, half of the packets do not say so.
func spread(q *aggregate.Quantiles) string {
	text := words.Duration(float64(q.P50Ns)) + " (p50)"
	if q.P99Ns > 3*q.P50Ns {
		text += ", " + words.Duration(float64(q.P99Ns)) + " (p99)"
	}
	if q.MaxNs > 10*q.P50Ns && q.MaxNs > 2*q.P99Ns {
		text += ", " + words.Duration(float64(q.MaxNs)) + " at most"
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
	late := ""
	switch {
	case a.NotBegun:
		what = words.Plural(int(l.Packets), "packet") + " of its handshake"
	case l.Syns == l.Packets && l.Way == "data":
		what, late = fmt.Sprintf("%d of its %s", l.Syns, words.Plural(int(a.Syns), "SYN")), ", so that it began after "+words.Duration(float64(a.SetupNs))
	case l.Syns == l.Packets:
		what, late = words.Plural(int(l.Syns), "answer")+" to its SYNs", ", so that it began after "+words.Duration(float64(a.SetupNs))
	}
	switch a.Cause {
	case explain.ByFirewall:
		text := fmt.Sprintf("a rule in %s dropped %s%s", where, what, onWay(a))
		if !a.NotBegun && a.Partly {
			text += ": it lets the others pass, as a rate limit (policer) does"
		}
		return text + late + reasonText(l)
	case explain.ByNetfilter:
		why := strings.TrimPrefix((*Names)(nil).LossWhy(l.LossPlace(), &l.Place), "netfilter: ")
		return fmt.Sprintf("netfilter in %s dropped %s%s%s: %s%s", where, what, onWay(a), late, why, reasonText(l))
	case explain.ByMTU:
		passed := ""
		if a.Largest > 0 && a.Largest < l.SmallestBytes {
			passed = fmt.Sprintf(", those of %d do", a.Largest)
		}
		text := fmt.Sprintf("packets of %s and more do not pass %s (MTU)%s: %s lost there", bytesText(l.SmallestBytes), where, passed, words.PacketsWere(l.Packets))
		if a.Unreachable == 1 {
			text += ", and 1 ICMP error was sent back"
		} else if a.Unreachable > 1 {
			text += fmt.Sprintf(", and %s were sent back", words.Plural(int(a.Unreachable), "ICMP error"))
		} else {
			text += ", and no ICMP error came to the sender"
		}
		return text
	}
	if l.AfterDelivery {
		text := fmt.Sprintf("%s dropped %s after delivery%s%s%s", where, what, onWay(a), late, reasonText(l))
		if why := Reasons[l.Reason]; why != "" && (strings.HasSuffix(l.Reason, "_CSUM") || l.Reason == "NO_SOCKET") {
			text += ": " + why
		}
		return text
	}
	if l.Pending > 0 && 2*l.Pending >= l.Packets {
		return fmt.Sprintf("%s were not seen again behind %s%s%s", what, l.Name(), onWay(a), late)
	}
	return fmt.Sprintf("%s were lost at %s%s%s%s", what, where, onWay(a), late, reasonText(l))
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
	case explain.Gap:
		what = "the part " + p.Name + ", which is not attached,"
	case explain.End:
		what = "what lies " + p.Name + ", which is not attached,"
	}
	if a.RTT == nil { // all round trips were those of data that was sent twice
		return fmt.Sprintf("the way is long at times: %s%s takes %s", what, onWay(a), spread(&p.Times))
	}
	if a.Proto != "tcp" {
		return fmt.Sprintf("the way takes %s, of which %s takes %s", spread(a.RTT), what, spread(&p.Times))
	}
	if spread(&p.Times) != words.Duration(float64(p.Times.P50Ns))+" (p50)" {
		return fmt.Sprintf("the way is long at times: of a round trip of %s %s%s takes %s", spread(a.RTT), what, onWay(a), spread(&p.Times)) + backText(a)
	}
	return fmt.Sprintf("the way is long: of a round trip of %s (p50) %s%s takes %s", words.Duration(float64(a.RTT.P50Ns)), what, onWay(a), words.Duration(float64(p.Times.P50Ns))) + backText(a)
}

// backText is what acknowledgements wait for in the node that delays data, where that is as long.
func backText(a *explain.Answer) string {
	for i := range a.Parts {
		if p := &a.Parts[i]; p.Way == "ack" && a.Part.Way == "data" && p.Kind == explain.Node && p.Name == a.Part.Name && p.Share > a.Part.Share/2 {
			return ", and " + words.Duration(float64(p.Times.P50Ns)) + " on the way back"
		}
	}
	return ""
}

func orderText(a *explain.Answer) string {
	text := fmt.Sprintf("%s of its packets arrived behind later ones", percent(float64(a.Reordered), float64(a.Packets)))
	if a.Forks {
		text += fmt.Sprintf(": %s sends them by different ways", a.Place)
	}
	if p := a.Part; p != nil {
		text += fmt.Sprintf(": %s took from %s to %s", p.Name, words.Duration(float64(p.Times.MinNs)), words.Duration(float64(p.Times.MaxNs)))
	}
	if n := a.ResentWhy[explain.Overtaken]; n > 0 {
		text += fmt.Sprintf(", and %s sent again for that", words.PacketsWere(n))
	}
	return text
}

func receiverText(a *explain.Answer) string {
	who := orEnd(a.Place, a.Dst)
	switch {
	case a.Wait == explain.LateAcks:
		return fmt.Sprintf("%s takes %s (p50) to acknowledge data", who, words.Duration(float64(endNs(a))))
	case a.Wait == explain.NoRoom:
		return fmt.Sprintf("%s had no room for %s of its packets%s", who, Percent(a.Loss.Ratio), reasonText(a.Loss))
	case a.Wait == explain.WindowClosed:
		return fmt.Sprintf("%s reads too slowly: its window was closed %d times, for %s at most, and the sender waited %s of the time",
			who, a.Closings.Count, words.Duration(float64(a.Closings.MaxNs)), percent(float64(a.Time.Closed+a.Time.Window), float64(timeAll(a.Time))))
	}
	text := fmt.Sprintf("%s offers a window of %s", who, bytesText(int(a.Window.Max)))
	if !a.Window.Known {
		text = fmt.Sprintf("%s offers a window that is used up by %s in flight", who, bytesText(int(a.Window.FlightTo)))
	}
	if a.RTT != nil {
		text += fmt.Sprintf(" for a round trip of %s (p50)", words.Duration(float64(a.RTT.P50Ns)))
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
	if a.Time == nil {
		return who + " sent no more"
	}
	share := percent(float64(a.Time.Sender), float64(timeAll(a.Time)))
	switch {
	case a.Wait == explain.ForPeer:
		return fmt.Sprintf("the sender waits for %s to send something, %s of the time", who, share)
	case a.Wait == explain.Gaps && a.Gaps != nil && a.Gaps.Count == 1:
		return fmt.Sprintf("%s had nothing to send %s of the time: %s with nothing in flight", who, share, words.Duration(float64(a.GapsNs)))
	case a.Wait == explain.Gaps && a.Gaps != nil:
		return fmt.Sprintf("%s had nothing to send %s of the time: %s with nothing in flight, in %d gaps, the longest of %s", who, share, words.Duration(float64(a.GapsNs)), a.Gaps.Count, words.Duration(float64(a.Gaps.MaxNs)))
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
	if a.Held != "" {
		text = "nothing in the network held it"
	}
	if a.ThroughputBps > 0 {
		text += fmt.Sprintf(": it carried %s", words.Rate(a.ThroughputBps))
	}
	if a.RTT != nil && a.Proto == "tcp" {
		text += fmt.Sprintf(" with a round trip of %s (p50)", words.Duration(float64(a.RTT.P50Ns)))
	}
	if a.Held != "" {
		return text + ". What it waited for most: " + heldText(a, a.Held)
	}
	if a.Dropped == 0 {
		text += ", and neither queues, losses nor windows made it wait"
	} else {
		text += fmt.Sprintf(", and neither queues nor windows made it wait. %s dropped %s after delivery", orEnd(a.Receiver, a.Dst), words.Plural(int(a.Dropped), "packet"))
	}
	if a.Proto == "udp" && a.AckPackets == 0 {
		text += ". Between these addresses and ports nothing came back"
	}
	return text
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

func bytesText(n int) string { return words.Plural(n, "byte") }

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
	explain.Outside:      "one end of the flow is not attached: what happens beyond the last attached node is not seen. Attach it to know",
	explain.Between:      "nodes between those that are attached are not attached: what happens in them is not seen. Attach them to know",
	explain.Pending:      "some packets have not ended: they were not seen again for much longer than others take, so they are taken for lost. When they have timed out, the answer is surer",
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
