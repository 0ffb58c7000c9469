// SPDX-License-Identifier: Apache-2.0

// Package wording makes sentences of answers: of notes, losses, causes and stories, and what nodes and ports are called. What
// it says of numbers and packets is in pkg/words, which knows no answers.
package wording

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/vnetradar/radar/pkg/aggregate"
	"github.com/vnetradar/radar/pkg/answer/note"
	"github.com/vnetradar/radar/pkg/answer/placenow"
	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/system"
	"github.com/vnetradar/radar/pkg/system/resident"
	"github.com/vnetradar/radar/pkg/vnet/domain"
	"github.com/vnetradar/radar/pkg/words"
)

// Sentences makes sentences of the values of answers.
type Sentences struct {
	Location *time.Location // of the times in sentences
	Now      time.Time
	Face     fault.Face // whose users read them
}

// Note is a note in words. With -f it is said once for each key; both are "" of a kind without words.
func (w Sentences) Note(n note.Note) (key, text string) {
	for _, of := range []func(note.Note) (key, text string){w.domainNote, w.emptyNote, w.ringNote, w.rowsNote, w.lossNote, w.replyNote, w.recordingNote, w.reportNote, w.sourcesNote} {
		if key, text = of(n); text != "" {
			return key, w.Face.Render(text)
		}
	}
	return "", ""
}

// Texts are notes in words.
func (w Sentences) Texts(notes []note.Note) (list []string) {
	for _, n := range notes {
		_, text := w.Note(n)
		list = append(list, text)
	}
	return list
}

// Say is a sentence that is said once, whatever its values.
func Say(format string, args ...any) (key, text string) { return format, fmt.Sprintf(format, args...) }

// domainNote has words for what the domain lacks now.
func (w Sentences) domainNote(n note.Note) (key, text string) {
	switch n := n.(type) {
	case note.Warning:
		return Say("warning: %v", n.Err)
	case note.NoNodes:
		return Say("%s", noNodeText(n.Domain))
	case note.NoAgent:
		return Say("%s", noAgentText(n.Lease, n.Domain))
	case note.Doubled: // with -f once for each set of them
		text = doubledText(n.Doubles)
		return text, text
	case note.AgentFails, note.DiskFull:
		text := w.trouble(n)
		return text, text
	case note.NotMeasured:
		var reasons []string
		for _, r := range n.Reasons {
			reasons = append(reasons, r.Name+" "+words.Decimal(r.Packets))
		}
		return Say("%s not measured (%s): «status -o wide»", words.PacketsWere(n.Packets), strings.Join(reasons, ", "))
	case note.EqualUnderWay:
		return Say("key_in_flight: with DF clear (or a TTL below 8) a packet is not measured while an equal one is under way (addresses, ports, IP ID, first bytes of the payload): set DF, or give each packet an IP ID or a payload of its own")
	}
	return "", ""
}

// noAgentText says what it means that the domain has no agent, and how to go on.
func noAgentText(lease note.Lease, name string) string {
	text := "no agent runs, and the lease is over: packets pass untouched and are not recorded"
	switch {
	case !lease.Ends:
		text = "no agent runs: packets are recorded, but nobody counts them before the ring comes round"
	case lease.Valid:
		text = "no agent runs: packets are recorded until the lease ends"
	}
	return text + fmt.Sprintf("; go on with: «attach -d%s»", DomainFlag(name))
}

// noNodeText says how to go on with a domain whose nodes have all gone.
func noNodeText(name string) string {
	return fmt.Sprintf("no node is left: what was measured is still here; end the domain with: «detach%s»", DomainFlag(name))
}

// meantBy says what it means for answers that the agent cannot do something.
var meantBy = map[string]string{
	"follow the topology": "what has come to the domain since then is not in answers",
	"write snapshot":      "what it has counted is lost if it ends",
	resident.RenewLease:   "packets are recorded until the lease ends",
}

// trouble says what the agent cannot do, what that means, and what helps.
func (w Sentences) trouble(n note.Note) string {
	switch n := n.(type) {
	case note.AgentFails:
		return fmt.Sprintf("the agent cannot %s: its log says more, %s", w.troubleText(n.Trouble), domain.File(n.Domain, "agent.log"))
	case note.DiskFull:
		var what []string
		for _, t := range n.Troubles {
			what = append(what, w.troubleText(t))
		}
		return fmt.Sprintf("the agent cannot %s: make room on the disk of %s, it goes on by itself then",
			strings.Join(what, ", nor "), domain.Dir(n.Domain))
	}
	return ""
}

// troubleText is "follow the topology since 10:15:04 (no space left on device; ...)".
func (w Sentences) troubleText(t resident.Trouble) string {
	text := fmt.Sprintf("%s since %s (%s", t.What, w.clock(t.Since), t.Error)
	if means := meantBy[t.What]; means != "" {
		text += "; " + means
	}
	return text + ")"
}

// NotMeantTexts explain reasons of note.NotMeant.
var NotMeantTexts = map[string]string{
	note.Watch:     "the domain's ‹watch› does not match them",
	note.IPv6:      "of IPv6, which the domain does not measure (‹ipv6› off), or did not yet",
	note.Leaseless: "no agent renewed the lease then",
}

// emptyNote has words for why an answer is empty. Where they are said with -f, other values are said anew.
func (w Sentences) emptyNote(n note.Note) (key, text string) {
	switch n := n.(type) {
	case note.NothingMeasured:
		return Say("no packet was measured since %s", w.clock(n.Since))
	case note.NothingMatches:
		return Say("no packet matches; %s measured since %s", words.Plural(int(n.Measured), "packet"), w.clock(n.Since))
	case note.UnderWay:
		text = fmt.Sprintf("%s under way: in no answer before they have ended (not seen for %v, they have expired)", packetsAre(n.Packets), n.Timeout)
	case note.OtherStates:
		var ended []string
		for state, packets := range n.Packets {
			ended = append(ended, fmt.Sprintf("%d %s", packets, state))
		}
		slices.Sort(ended)
		text = "what matches but for ‹state›: " + strings.Join(ended, ", ")
		if n.Expired && n.Packets[record.Lost] > 0 {
			text += " (expired is what nobody saw again; a packet whose TTL was used up is lost)"
		}
	case note.Forgotten:
		text = fmt.Sprintf("the ring remembers packets from %s on; older ones are forgotten (attach with more ‹slots›)", w.clock(n.From))
	case note.MayBeMissing:
		text = fmt.Sprintf("%s: what is asked for may be among what they lack (attach with more ‹max-hops›)", incompleteText(n.Packets))
	case note.NotMeant:
		text = words.PacketsWere(n.Packets) + " not measured: " + cmp.Or(NotMeantTexts[n.Reason], n.Reason)
	}
	return text, text
}

// ringNote has words for what reading the ring found.
func (w Sentences) ringNote(n note.Note) (key, text string) {
	switch n := n.(type) {
	case note.SnapshotUnused:
		return Say("warning: %s", n.Why)
	case note.OlderMissing:
		return Say("the ring remembers packets from %s on; older ones are not in this answer (attach with more ‹slots›)", n.From.In(w.Location).Format(time.RFC3339))
	case note.Overwritten:
		return Say("%d packets were overwritten while they were read", n.Packets)
	case note.Unread:
		return Say("up to %d packets were overwritten before they could be read (attach with more ‹slots›)", n.Packets)
	case note.Incomplete:
		return Say("%s: more happened than a record has room for (attach anew, with more ‹max-hops›), or it was partly overwritten", incompleteText(n.Packets))
	}
	return "", ""
}

// noLatencyTexts say what no packet did, so that a group has no latencies.
var noLatencyTexts = map[aggregate.By]string{
	aggregate.ByNode:  "passed through a node",
	aggregate.ByLink:  "was seen at both ends of a link",
	aggregate.ByQueue: "was seen to wait in a port's queue",
}

// rowsNote has words for what rows lack.
func (w Sentences) rowsNote(n note.Note) (key, text string) {
	switch n := n.(type) {
	case note.TableFull:
		what := string(n.Table)
		if n.Table == note.Places {
			what = "places and reasons"
		}
		return Say("%d packets are of %s beyond the first %d, which are not kept apart", n.Packets, what, n.Limit)
	case note.NoRoom:
		return Say("%d packets passed nodes, ports or links for which there was no room: they are not in all rows", n.Packets)
	case note.Unordered:
		return Say("jitter and reordering lack %d packets: they became known too late to be put in order", n.Packets)
	case note.Inexact:
		return Say("there was no room for all latencies: percentiles of %s count %d packets with the nearest that there was room for (inexact, with -o json)", words.Plural(n.Flows, "flow"), n.Packets)
	case note.NoLatency:
		return Say("none of %s %s", words.Plural(int(n.Packets), "packet"), cmp.Or(noLatencyTexts[n.By], "has arrived: only what was delivered, or left the domain, has a latency"))
	case note.MoreFlows:
		return Say("%s (‹top› 0 shows all)", words.Plural(n.Flows, "more flow"))
	case note.SecondsKept:
		return Say("of %s only the newest %d seconds with traffic are kept: from %s on all have theirs", words.Plural(n.Rows, "row"), n.Seconds, w.clock(n.From))
	case note.SecondsShown:
		return Say("only so many seconds are shown: those from %s on", w.clock(n.From))
	}
	return "", ""
}

// lossNote has words for what there is to say beside losses.
func (w Sentences) lossNote(n note.Note) (key, text string) {
	switch n := n.(type) {
	case note.NothingLost:
		return nothingLost(n)
	case note.StillUnderWay:
		return Say("%s still under way, and in no row: ask again (those that are not seen for %v have expired)", packetsAre(n.Packets), n.Timeout)
	case note.NothingDropped:
		if n.NodesAgree {
			return Say("nothing was dropped after delivery of %s, nor do the nodes' own counters have any", words.Plural(int(n.Packets), "packet"))
		}
		return Say("no drop after delivery was seen of %s: what a kernel drops more than 50 ms later, or frees without saying that it drops it, is not seen",
			words.Plural(int(n.Packets), "packet"))
	case note.KernelDrops: // with -f once for each set of counters
		text = kernelDropsText(&n)
		return text, text
	case note.AlsoDropped:
		return Say("besides, after delivery %s dropped (rules, full buffers, no socket): «loss ‹after-delivery›»", words.PacketsWere(n.Packets))
	case note.Expired:
		return Say("%s expired (not seen for the timeout)%s: «packets ‹state› expired»", words.Plural(int(n.Packets), "packet"), lastSeenText(n))
	case note.QueueUnseen:
		return Say("nothing saw the end of %s in queues: no queue has them, the links behind have them («packets ‹output› json»: queue_unseen)", words.Plural(int(n.Waits), "wait"))
	case note.MovedAddress:
		return Say("%s of these came to a node just as it got their address, or lost it: whether they were delivered is not known", words.Plural(int(n.Packets), "packet"))
	case note.RoutingLoop:
		return "loop " + n.Path, fmt.Sprintf("%s lost in a routing loop: %s > ... («trace ‹last› ‹state› lost»)", words.PacketsWere(n.Packets), n.Path)
	case note.Unsent: // with -f once for each node and reason
		return "unsent " + n.Node + " " + n.Reason + " " + n.Function, unsentText(&n)
	case note.PortsNotUp: // with -f once for each set of ports
		text = portsNotUpText(n.Ports)
		return text, text
	case note.NodesSilent: // with -f once for each set of nodes
		text = nodesSilentText(&n)
		return text, text
	case note.UnsentFull:
		return Say("%d more packets were dropped by nodes before they were sent: of too many flows to be told apart", n.Packets)
	}
	return "", ""
}

// nothingLost says what was dropped after delivery where no loss was reported.
func nothingLost(n note.NothingLost) (key, text string) {
	onTheWay := ""
	if !n.Expired {
		onTheWay = fmt.Sprintf("nothing was lost on the way of %s; ", words.Plural(int(n.Packets), "packet"))
	}
	own := fmt.Sprintf("%s freed by TCP itself (old data, connection closed)", words.Decimal(n.Freed))
	switch {
	case n.Drops > 0 && n.Freed > 0:
		return Say("%safter delivery %s dropped (rules, full buffers, no socket), and %s: «loss ‹after-delivery›»", onTheWay, words.PacketsWere(n.Drops), own)
	case n.Drops > 0:
		return Say("%safter delivery %s dropped (rules, full buffers, no socket): «loss ‹after-delivery›»", onTheWay, words.PacketsWere(n.Drops))
	case n.Freed > 0:
		return Say("%safter delivery only %s, which is no fault", onTheWay, own)
	}
	return Say("nothing was lost on the way of %s", words.Plural(int(n.Packets), "packet"))
}

// lastSeenText is ", last seen in f (827 out by eth0, 618 in by eth1)".
func lastSeenText(n note.Expired) string {
	var texts []string
	for _, node := range n.LastSeen {
		var ports []string
		for _, p := range node.Ports {
			way := " in by "
			if p.Out {
				way = " out by "
			}
			ports = append(ports, words.Decimal(p.Packets)+way+p.Port)
		}
		texts = append(texts, fmt.Sprintf("%s (%s)", node.Node, strings.Join(ports, ", ")))
	}
	if n.More > 0 {
		texts = append(texts, words.Plural(n.More, "more node"))
	}
	if len(texts) == 0 {
		return ""
	}
	return ", last seen in " + strings.Join(texts, ", ")
}

// counterWords say in a few words what nodes count.
var counterWords = map[string]string{
	"TcpExtListenOverflows": "too many new connections",
	"TcpExtTCPReqQFullDrop": "too many new connections",
	"TcpExtTCPBacklogDrop":  "socket full",
	"TcpExtTCPRcvQDrop":     "socket full",
	"TcpExtTCPOFODrop":      "socket full",
	"TcpExtRcvPruned":       "socket full",
	"UdpRcvbufErrors":       "socket full",
	"Udp6RcvbufErrors":      "socket full",
	"UdpNoPorts":            "nobody listens",
	"Udp6NoPorts":           "nobody listens",
	"IpReasmFails":          "fragments missing",
	"Ip6ReasmFails":         "fragments missing",
}

// kernelDropsText is "h2 itself counts more drops than were seen, of all its traffic since attach: ...".
func kernelDropsText(n *note.KernelDrops) string {
	var list []string
	for _, c := range n.Counters {
		text := fmt.Sprintf("%s %d", c.Name, c.Count)
		if words := counterWords[c.Name]; words != "" {
			text += " (" + words + ")"
		}
		list = append(list, text)
	}
	since := "since it began"
	if n.SinceAttach {
		since = "since attach"
	}
	return fmt.Sprintf("%s itself counts more drops of what came to it than were seen, of all its traffic %s: %s", n.Node, since, strings.Join(list, ", "))
}

// nodesSilentText is "h2 did not answer in 1s: what they say now of ... is not in the answer".
func nodesSilentText(n *note.NodesSilent) string {
	var texts []string
	if len(n.NoAnswer) > 0 {
		texts = append(texts, fmt.Sprintf("%s did not answer in %v", namesText(n.NoAnswer), placenow.OneNode))
	}
	if len(n.NoTime) > 0 {
		texts = append(texts, fmt.Sprintf("no time was left for %s (%v for all nodes)", namesText(n.NoTime), placenow.AllNodes))
	}
	return strings.Join(texts, ", ") + ": what nodes say now of links, queues, rules and counters is not all in the answer"
}

// maxDoubles is how many addresses a note names.
const maxDoubles = 4

// doubledText is "several nodes have one address: 10.0.0.5 on one link: a/e0, b/e0; 2 more (...)".
func doubledText(doubles []note.Double) string {
	var texts []string
	for _, d := range doubles[:min(len(doubles), maxDoubles)] {
		text := d.Address
		if d.OneLink {
			text += " on one link"
		}
		texts = append(texts, text+": "+namesText(d.Ports))
	}
	if more := len(doubles) - len(texts); more > 0 {
		texts = append(texts, fmt.Sprintf("%d more", more))
	}
	return "several nodes have one address, so that packets for one may go to another: " + strings.Join(texts, "; ")
}

// namesText is "h1, h2, h3, 2 more".
func namesText(names []string) string {
	if len(names) > maxNotUp+1 {
		return fmt.Sprintf("%s, %d more", strings.Join(names[:maxNotUp], ", "), len(names)-maxNotUp)
	}
	return strings.Join(names, ", ")
}

// maxUnsentFlows is how many flows a note names.
const maxUnsentFlows = 3

// portsNotUpText is "not up now: h1/eth0 (down), r1/eth0 (no carrier), 2 more".
func portsNotUpText(list []placenow.PortState) string {
	var texts []string
	for i, p := range list {
		if i == maxNotUp && len(list) > maxNotUp+1 {
			texts = append(texts, fmt.Sprintf("%d more", len(list)-i))
			break
		}
		texts = append(texts, p.Port+" ("+words.State(p.State)+")")
	}
	return "not up now: " + strings.Join(texts, ", ") + " («topo»)"
}

// unsentText is "h1 dropped 2 packets before they were sent: NEIGH_FAILED (no ARP answer), icmp to 10.0.1.9".
func unsentText(u *note.Unsent) string {
	place := aggregate.LossPlace{Node: u.Node, At: record.AtEgress, Reason: u.Reason, Function: u.Function, Qdisc: u.Queue}
	why := cmp.Or(u.Reason, u.Function+"()")
	if u.Reason == "NOT_SPECIFIED" && u.Function != "" {
		why = u.Function + "()"
	}
	reason := (*Names)(nil).LossWhy(&place, &placenow.Place{NotUp: u.NotUp, Netfilter: u.Netfilter, Causes: u.Causes})
	if reason != "" {
		why += " (" + reason + ")"
	}
	var flows []string
	for i, f := range u.Flows {
		if i == maxUnsentFlows {
			flows = append(flows, words.Plural(len(u.Flows)-i, "more flow"))
			break
		}
		name := f.String()
		if len(u.Flows) > 1 {
			name += " (" + strconv.FormatUint(f.Packets, 10) + ")"
		}
		flows = append(flows, name)
	}
	were := "before they were sent"
	if u.Packets == 1 {
		were = "before it was sent"
	}
	since := ""
	if u.SinceAttach {
		since = " (since attach)"
	}
	return fmt.Sprintf("%s dropped %s %s: %s, %s%s", u.Node, words.Plural(int(u.Packets), "packet"), were, why, strings.Join(flows, ", "), since)
}

// reportNote has words for what there is to say about reports that were kept.
func (w Sentences) reportNote(n note.Note) (key, text string) {
	switch n := n.(type) {
	case note.ReportsDamaged:
		return Say("warning: without the reports of switches: %v", n.Err)
	case note.ReportsKept:
		return Say("of %d datagrams with reports the newest %d are kept («collect ‹keep›»)", n.Datagrams, n.Kept)
	case note.ReportsUnchanged:
		return Say("%s without an event are no packets here («collect ‹all›» keeps them)", words.Plural(int(n.Reports), "report"))
	case note.ReportsMissing:
		return Say("%s that sources have numbered did not come", words.Plural(int(n.Reports), "report"))
	case note.Undated:
		return Say("of %s it is known only when a report came: flows have no reordering and no jitter, and a rate from 1 s on («collect ‹source›» ADDRESS=PROFILE,clock=shared says that the nodes have one clock)", words.Plural(int(n.Packets), "reported packet"))
	case note.NoArrival:
		return Say("at %s of reports the time of arrival was lost (it is 0): no hop latency there", words.Plural(int(n.Hops), "hop"))
	case note.Unnamed:
		return Say("%d visits of nodes or ports of reports are without a name here: there were too many", n.Visits)
	case note.LastOfEach:
		return Say("‹last› %d: so many of radar's own packets, and of those that switches reported", n.Last)
	case note.NoReportMatches:
		return Say("no packet matches; %s collected since %s", words.Plural(int(n.Reports), "report"), n.Since.In(w.Location).Format(time.TimeOnly))
	}
	return "", ""
}

// sourcesNote has words for what there is to say of several sources.
func (w Sentences) sourcesNote(n note.Note) (key, text string) {
	switch n := n.(type) {
	case note.CannotAnswer:
		return Say("%s has nothing on %s: %s", n.Source, n.What, n.Why)
	case note.SeveralDomains:
		return Say("links, rules and sockets of nodes are left out: the answer is of several domains (%s)", strings.Join(n.Domains, ", "))
	case note.LastOfEachDomain:
		return Say("‹last› %d: so many packets of each domain", n.Last)
	}
	return "", ""
}

// clock is a time of today, or with its date.
func (w Sentences) clock(t time.Time) string {
	t = t.In(w.Location)
	if t.Format(time.DateOnly) != w.Now.In(w.Location).Format(time.DateOnly) {
		return t.Format(time.DateTime)
	}
	return t.Format(time.TimeOnly)
}

func packetsAre(n int) string {
	if n == 1 {
		return "1 packet is"
	}
	return words.Plural(n, "packet") + " are"
}

// incompleteText says that records are not complete.
func incompleteText(n uint64) string {
	if n == 1 {
		return "1 packet has an incomplete record"
	}
	return words.Decimal(n) + " packets have incomplete records"
}

// DomainFlag is what a command needs to mean this domain.
func DomainFlag(name string) string {
	if name == system.DefaultName {
		return ""
	}
	return " ‹domain› " + name
}
