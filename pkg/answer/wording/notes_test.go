// SPDX-License-Identifier: Apache-2.0

package wording_test

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/vnetradar/radar/pkg/aggregate"
	"github.com/vnetradar/radar/pkg/answer/ends"
	"github.com/vnetradar/radar/pkg/answer/note"
	"github.com/vnetradar/radar/pkg/answer/placenow"
	"github.com/vnetradar/radar/pkg/answer/wording"
	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/store/segments"
	"github.com/vnetradar/radar/pkg/system/resident"
	"github.com/vnetradar/radar/pkg/vnet/domain"
	"github.com/vnetradar/radar/pkg/vnet/topo"
)

// face writes settings and commands as a terminal's users do.
var face = fault.Face{
	Setting: func(name string) string { return "--" + name },
	Command: func(words string) string { return "radar " + words },
}

// Every kind of note has words, and so has every reason of those that have reasons.
func TestEveryNoteHasWords(t *testing.T) {
	for _, n := range note.Kinds {
		if key, text := (wording.Sentences{Location: time.UTC}).Note(n); key == "" || text == "" {
			t.Errorf("%T has no words", n)
		}
	}
	for _, reason := range note.NotMeantReasons {
		if wording.NotMeantTexts[reason] == "" {
			t.Errorf("%q is no explanation for a user", reason)
		}
	}
	if len(wording.NotMeantTexts) != len(note.NotMeantReasons) {
		t.Errorf("%d explanations of %d reasons", len(wording.NotMeantTexts), len(note.NotMeantReasons))
	}
}

// Sentences have the values of their notes, and times of another day their date.
func TestNoteWords(t *testing.T) {
	now := time.Date(2026, 3, 2, 10, 15, 30, 0, time.UTC)
	since, before := now.Add(-time.Minute), now.Add(-24*time.Hour)
	w := wording.Sentences{Location: time.UTC, Now: now, Face: face}
	port := 53
	for want, n := range map[string]note.Note{
		"2 packets are still under way, and in no row: ask again (those that are not seen for 10s have expired)":                                         note.StillUnderWay{Packets: 2, Timeout: 10 * time.Second},
		"nothing was dropped after delivery of 3 packets, nor do the nodes' own counters have any":                                                       note.NothingDropped{Packets: 3, NodesAgree: true},
		"no drop after delivery was seen of 3 packets: what a kernel drops more than 50 ms later, or frees without saying that it drops it, is not seen": note.NothingDropped{Packets: 3},
		"h2 itself counts more drops of what came to it than were seen, of all its traffic since it began: IpInDiscards 2, UdpNoPorts 1 (nobody listens)": note.KernelDrops{Drops: placenow.Drops{
			Node: "h2", Counters: []placenow.Counter{{Name: "IpInDiscards", Count: 2}, {Name: "UdpNoPorts", Count: 1}}}},
		"h2 did not answer in 1s, no time was left for a, b, c, 2 more (2s for all nodes): what nodes say now of links, queues, rules and counters is not all in the answer": note.NodesSilent{Silent: placenow.Silent{
			NoAnswer: []string{"h2"}, NoTime: []string{"a", "b", "c", "d", "e"}}},
		"nothing saw the end of 3 waits in queues: no queue has them, the links behind have them (radar packets --output json: queue_unseen)": note.QueueUnseen{Waits: 3},
		"several nodes have one address, so that packets for one may go to another: 10.0.0.1 on one link: a/e0, b/e0; b: a/e0, b/e0; c: a/e0, b/e0; d: a/e0, b/e0; 1 more": note.Doubled{Doubles: []note.Double{
			{Address: "10.0.0.1", Ports: []string{"a/e0", "b/e0"}, OneLink: true}, {Address: "b", Ports: []string{"a/e0", "b/e0"}},
			{Address: "c", Ports: []string{"a/e0", "b/e0"}}, {Address: "d", Ports: []string{"a/e0", "b/e0"}}, {Address: "e"}}},
		"none of 3 packets passed through a node": note.NoLatency{By: aggregate.ByNode, Packets: 3},
		"not up now: a/e0 (down), a/e1 (no carrier), a/e2 (down), 2 more (radar topo)": note.PortsNotUp{Ports: []placenow.PortState{
			{Port: "a/e0", State: topo.Down}, {Port: "a/e1", State: topo.NoCarrier}, {Port: "a/e2", State: topo.Down}, {Port: "a/e3", State: topo.Down}, {Port: "a/e4", State: topo.Down}}},
		"h1 dropped 1 packet before it was sent: QDISC_DROP (port was down, or without carrier), udp to 10.0.0.1:53": note.Unsent{Node: "h1", Reason: "QDISC_DROP", Packets: 1,
			Flows: []note.UnsentFlow{{Proto: "udp", Dst: "10.0.0.1", Dport: &port, Packets: 1}}},
		"h1 dropped 1 packet before it was sent: QDISC_DROP (queue full, or larger than its burst; h1/e0 has no carrier now, h2/e0 is down now), udp to 10.0.0.1:53": note.Unsent{Node: "h1", Reason: "QDISC_DROP", Packets: 1, Queue: "tbf",
			Flows: []note.UnsentFlow{{Proto: "udp", Dst: "10.0.0.1", Dport: &port, Packets: 1}},
			NotUp: []placenow.PortState{{Port: "h1/e0", State: topo.NoCarrier}, {Port: "h2/e0", State: topo.Down}}},
		"a recorder (process 7) is at work in run: what it has not finished yet is not read":                                   note.RecordingUnfinished{Path: "run", Unfinished: segments.Unfinished{PID: 7, Files: []string{"h/.packets-1.tmp"}}},
		"a recorder (process 7) has kept nothing in run yet":                                                                   note.RecordingUnfinished{Path: "run", Unfinished: segments.Unfinished{PID: 7, Nothing: true}},
		"nothing was kept in run: a lock alone is there, and nobody is seen to record":                                         note.RecordingUnfinished{Path: "run", Unfinished: segments.Unfinished{Nothing: true}},
		"a file was not finished, and is not read: run/h/.packets-1.tmp; nobody is seen to record there":                       note.RecordingUnfinished{Path: "run", Unfinished: segments.Unfinished{Files: []string{"h/.packets-1.tmp"}}},
		"2 files of run were not finished, and are not read; nobody is seen to record there":                                   note.RecordingUnfinished{Path: "run", Unfinished: segments.Unfinished{Files: []string{"a", "b"}}},
		"the recording run has no end: its recorder was ended by force, and what it had not finished is missing":               note.RecordingWithoutEnd{Path: "run", Recorders: 1},
		"the recording run lacks the ends of 2 recorders: they were ended by force, and what they had not finished is missing": note.RecordingWithoutEnd{Path: "run", Recorders: 2},
		"warning: gone": note.Warning{Err: errors.New("gone")},
		"no agent runs: packets are recorded until the lease ends; go on with: radar attach -d --domain d":                      note.NoAgent{Domain: "d", Lease: note.Lease{Ends: true, Valid: true}},
		"no agent runs, and the lease is over: packets pass untouched and are not recorded; go on with: radar attach -d":        note.NoAgent{Domain: "default", Lease: note.Lease{Ends: true}},
		"no agent runs: packets are recorded, but nobody counts them before the ring comes round; go on with: radar attach -d":  note.NoAgent{Domain: "default", Lease: note.Lease{Valid: true}},
		"no packet was measured since 2026-03-01 10:15:30":                                                                      note.NothingMeasured{Since: before},
		"no packet matches; 1 packet measured since 10:14:30":                                                                   note.NothingMatches{Measured: 1, Since: since},
		"2 packets are under way: in no answer before they have ended (not seen for 10s, they have expired)":                    note.UnderWay{Packets: 2, Timeout: 10 * time.Second},
		"what matches but for --state: 2 lost (expired is what nobody saw again; a packet whose TTL was used up is lost)":       note.OtherStates{Packets: map[record.State]int{record.Lost: 2}, Expired: true},
		"what matches but for --state: 2 left":                                                                                  note.OtherStates{Packets: map[record.State]int{record.Left: 2}, Expired: true},
		"what matches but for --state: 1 left, 2 lost":                                                                          note.OtherStates{Packets: map[record.State]int{record.Lost: 2, record.Left: 1}},
		"1 packet was not measured: of IPv6, which the domain does not measure (--ipv6 off), or did not yet":                    note.NotMeant{Reason: note.IPv6, Packets: 1},
		"the ring remembers packets from 2026-03-01T10:15:30Z on; older ones are not in this answer (attach with more --slots)": note.OlderMissing{From: before},
		"of 1 row only the newest 300 seconds with traffic are kept: from 10:14:30 on all have theirs":                          note.SecondsKept{Rows: 1, Seconds: 300, From: since},
		"5 packets are of places and reasons beyond the first 8192, which are not kept apart":                                   note.TableFull{Table: note.Places, Packets: 5, Limit: 8192},
		"9 packets expired (not seen for the timeout), last seen in a (5 in by e0, 2 out by e1), b (2 out by e0), 3 more nodes: radar packets --state expired": note.Expired{
			Packets: 9, More: 3, LastSeen: []ends.Seen{
				{Node: "a", Packets: 7, Ports: []ends.Port{{Port: "e0", Packets: 5}, {Port: "e1", Out: true, Packets: 2}}},
				{Node: "b", Packets: 2, Ports: []ends.Port{{Port: "e0", Out: true, Packets: 2}}},
			}},
		"2 packets were lost in a routing loop: r1 > r2 > r1 > ... (radar trace --last --state lost)": note.RoutingLoop{Path: "r1 > r2 > r1", Packets: 2},
		"h1 dropped 1 packet before it was sent: NEIGH_FAILED (no ARP answer), udp to 10.0.1.9:53": note.Unsent{
			Node: "h1", Reason: "NEIGH_FAILED", Packets: 1, Flows: []note.UnsentFlow{{Proto: "udp", Dst: "10.0.1.9", Dport: &port, Packets: 1}}},
		"h1 dropped 2 packets before they were sent: NETFILTER_DROP (firewall rule), icmp to a (since attach)": note.Unsent{
			Node: "h1", Reason: "NETFILTER_DROP", Function: "nft_do_chain", Packets: 2, SinceAttach: true, Flows: []note.UnsentFlow{{Proto: "icmp", Dst: "a", Packets: 2}}},
		"h1 dropped 4 packets before they were sent: f(), icmp to a (1), icmp to b (1), icmp to c (1), 1 more flow": note.Unsent{
			Node: "h1", Function: "f", Packets: 4, Flows: []note.UnsentFlow{
				{Proto: "icmp", Dst: "a", Packets: 1}, {Proto: "icmp", Dst: "b", Packets: 1}, {Proto: "icmp", Dst: "c", Packets: 1}, {Proto: "icmp", Dst: "d", Packets: 1}}},
		"the agent cannot follow the topology since 10:14:30 (no; what has come to the domain since then is not in answers): its log says more, " + domain.File("d", "agent.log"): note.AgentFails{
			Domain: "d", Trouble: resident.Trouble{What: "follow the topology", Error: "no", Since: since}},
		"the agent cannot a since 10:14:30 (x), nor b since 10:14:30 (y): make room on the disk of " + domain.Dir("d") + ", it goes on by itself then": note.DiskFull{
			Domain: "d", Troubles: []resident.Trouble{{What: "a", Error: "x", Since: since}, {What: "b", Error: "y", Since: since}}},
		"of 10 datagrams with reports the newest 4 are kept (radar collect --keep)":               note.ReportsKept{Datagrams: 10, Kept: 4},
		"the monitor has nothing on latencies: it counts":                                         note.CannotAnswer{Source: "the monitor", What: "latencies", Why: "it counts"},
		"links, rules and sockets of nodes are left out: the answer is of several domains (a, b)": note.SeveralDomains{Domains: []string{"a", "b"}},
		"--last 5: so many packets of each domain":                                                note.LastOfEachDomain{Last: 5},
		"no packet matches; 2 reports collected since 10:14:30":                                   note.NoReportMatches{Reports: 2, Since: since},
	} {
		if _, text := w.Note(n); text != want {
			t.Errorf("%T says\n%s, want\n%s", n, text, want)
		}
	}
}

// With -f a sentence is said once, whatever its values; one about a cause is said anew if they change.
func TestNoteKeys(t *testing.T) {
	w := wording.Sentences{Location: time.UTC, Face: face}
	key := func(n note.Note) string {
		key, _ := w.Note(n)
		return key
	}
	for _, c := range []struct {
		a, b note.Note
		same bool
	}{
		{note.Overwritten{Packets: 1}, note.Overwritten{Packets: 2}, true},
		{note.Warning{Err: errors.New("a")}, note.Warning{Err: errors.New("b")}, true},
		{note.UnderWay{Packets: 1}, note.UnderWay{Packets: 2}, false},
		{note.RoutingLoop{Path: "a", Packets: 1}, note.RoutingLoop{Path: "a", Packets: 2}, true},
		{note.RoutingLoop{Path: "a"}, note.RoutingLoop{Path: "b"}, false},
		{note.Unsent{Node: "a", Reason: "x", Packets: 1}, note.Unsent{Node: "a", Reason: "x", Packets: 2}, true},
		{note.NothingLost{Packets: 1}, note.NothingLost{Packets: 1, Drops: 1}, false},
	} {
		if got := key(c.a) == key(c.b); got != c.same {
			t.Errorf("%+v and %+v (%s): said once %v, want %v", c.a, c.b, reflect.TypeOf(c.a), got, c.same)
		}
	}
}
