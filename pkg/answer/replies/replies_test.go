// SPDX-License-Identifier: Apache-2.0

package replies_test

import (
	"net/netip"
	"testing"

	"github.com/vnetradar/radar/pkg/aggregate"
	"github.com/vnetradar/radar/pkg/answer/replies"
)

func ptr(n int) *int { return &n }

func path(text string, lost uint64, nodes ...string) aggregate.PathRow {
	p := aggregate.PathRow{Path: text, Delivered: 1, Lost: lost}
	for _, n := range nodes {
		p.Hops = append(p.Hops, aggregate.PathHop{Node: n, InPort: "e0"})
	}
	return p
}

func echo(src, dst string, kind, id int, delivered uint64, way string) aggregate.FlowRow {
	return aggregate.FlowRow{Flow: aggregate.Flow{Proto: "icmp", Src: src, Dst: dst, ICMPType: ptr(kind), ICMPID: ptr(id)},
		Packets: delivered, Delivered: delivered, PathList: []aggregate.FlowPath{{Path: way, Packets: delivered}}}
}

func udp(proto, src string, sport int, dst string, dport int, way string) aggregate.FlowRow {
	return aggregate.FlowRow{Flow: aggregate.Flow{Proto: proto, Src: src, Dst: dst, Sport: ptr(sport), Dport: ptr(dport)},
		Packets: 2, Delivered: 2, PathList: []aggregate.FlowPath{{Path: way, Packets: 2}}}
}

// A request is answered by what goes the other way round, as its receiver saw it; what is translated on the way is the same
// connection.
func TestAnswered(t *testing.T) {
	t.Parallel()
	there, back := path("a > r > b", 0, "a", "r", "b"), path("b > r > a", 0, "b", "r", "a")
	translated := udp("tcp", "10.1.0.1", 4000, "10.1.0.254", 80, there.Path)
	translated.NATDst, translated.NATSrc, translated.NATSport = "10.2.0.1", "10.2.0.254", ptr(61000)
	echoed := echo("10.1.0.1", "10.2.0.1", 8, 7, 3, there.Path)
	echoed.NATSrc = "10.2.0.254"
	lost := udp("udp", "10.1.0.1", 4000, "10.2.0.1", 53, "")
	lost.Delivered, lost.Lost = 0, 2
	young := echo("10.1.0.1", "10.2.0.1", 8, 9, 3, there.Path)
	young.LastNs = 2000
	for name, flows := range map[string][]aggregate.FlowRow{
		"answered":              {echo("10.1.0.1", "10.2.0.1", 8, 7, 3, there.Path), echo("10.2.0.1", "10.1.0.1", 0, 7, 3, back.Path)},
		"translated":            {translated, udp("tcp", "10.2.0.1", 80, "10.2.0.254", 61000, back.Path)},
		"identifier translated": {echoed, echo("10.2.0.1", "10.2.0.254", 0, 99, 3, back.Path)},
		"not delivered":         {lost},
		"young":                 {young},
		"to a group":            {udp("udp", "10.1.0.1", 4000, "239.1.1.1", 5000, there.Path)},
		"no request":            {echo("10.2.0.1", "10.1.0.1", 0, 7, 3, back.Path)},
		"under way":             {echo("10.1.0.1", "10.2.0.9", 8, 7, 3, there.Path)},
		"hostile":               {echo("x", "y", 8, 7, 3, there.Path), udp("tcp", "10.1.0.1", 1, "10.2.0.1", 2, "no such path")},
	} {
		under := func(src, dst netip.Addr) bool {
			return src == netip.MustParseAddr("10.2.0.9") && dst == netip.MustParseAddr("10.1.0.1")
		}
		if list, _ := replies.Find(&replies.Seen{Flows: flows, Paths: []aggregate.PathRow{there, back}, UnderWay: under, Before: 1000}, &replies.Choice{}); len(list) > 0 {
			t.Errorf("%s: %+v sent no answer", name, list)
		}
	}
}

// What was delivered and has no answer is told with the ends that its receiver saw, and with whoever answers in its place.
func TestUnanswered(t *testing.T) {
	t.Parallel()
	there, back := path("a > r > b", 0, "a", "r", "b"), path("b > r > a", 0, "b", "r", "a")
	translated := udp("tcp", "10.1.0.1", 4000, "10.1.0.254", 80, there.Path)
	translated.NATDst, translated.LocalDrops = "10.2.0.1", 1
	for _, c := range []struct {
		flows  []aggregate.FlowRow
		to     string
		source string
	}{
		{[]aggregate.FlowRow{echo("10.1.0.1", "10.2.0.1", 8, 7, 3, there.Path)}, "10.2.0.1", ""},
		{[]aggregate.FlowRow{translated}, "10.2.0.1", ""},
		{[]aggregate.FlowRow{udp("udp", "10.1.0.1", 4000, "10.2.0.9", 53, there.Path), udp("udp", "10.2.0.1", 53, "10.1.0.1", 4000, back.Path)}, "10.2.0.9", "10.2.0.1"},
	} {
		list, _ := replies.Find(&replies.Seen{Flows: c.flows, Paths: []aggregate.PathRow{there, back}, Before: 1000}, &replies.Choice{})
		i := 0
		for i < len(list) && list[i].To.String() != c.to {
			i++
		}
		switch {
		case i == len(list):
			t.Errorf("%s got no answer, and only these are told: %+v", c.to, list)
		case list[i].Node != "b" || list[i].In != "e0" || list[i].From.String() != "10.1.0.1":
			t.Errorf("%+v", list[i])
		case c.to == "10.2.0.1" && list[i].Port == 80 && list[i].Dropped != 1:
			t.Errorf("%+v: of what was delivered 1 was dropped", list[i])
		case c.source != "" && list[i].OtherSource.String() != c.source, c.source == "" && list[i].OtherSource.IsValid():
			t.Errorf("the other source of %+v is not %q", list[i], c.source)
		}
	}
}

// Answers that are lost where the questions did not pass are told; those that are lost on the way back are in other rows.
func TestElsewhere(t *testing.T) {
	t.Parallel()
	there := path("c > r2 > s", 0, "c", "r2", "s")
	for _, back := range []aggregate.PathRow{path("s > r1", 3, "s", "r1"), path("s > r2", 3, "s", "r2")} {
		answer := echo("10.2.0.2", "10.0.0.1", 0, 7, 3, back.Path)
		answer.Delivered, answer.Lost = 0, 3
		_, list := replies.Find(&replies.Seen{Flows: []aggregate.FlowRow{echo("10.0.0.1", "10.2.0.2", 8, 7, 3, there.Path), answer},
			Paths: []aggregate.PathRow{there, back}, Before: 1000}, &replies.Choice{})
		if want := back.Hops[1].Node == "r1"; (len(list) == 1) != want || want && (list[0].Path != there.Path || list[0].Back != back.Path || list[0].Lost != 3) {
			t.Errorf("answers by %s: %+v", back.Path, list)
		}
	}
}

// Answers are told as lost elsewhere only if it is certain on which path, and that no question came by it.
func TestElsewhereUnsure(t *testing.T) {
	t.Parallel()
	there, by1, back := path("c > r2 > s", 0, "c", "r2", "s"), path("c > r1 > s", 0, "c", "r1", "s"), path("s > r1", 3, "s", "r1")
	for name, change := range map[string]func(question, answer *aggregate.FlowRow){
		"dropped after delivery": func(_, a *aggregate.FlowRow) { a.Lost, a.LocalDrops = 0, 3 },
		"several paths back": func(_, a *aggregate.FlowRow) {
			a.PathList = append(a.PathList, aggregate.FlowPath{Path: there.Path, Packets: 1})
		},
		"more paths back": func(_, a *aggregate.FlowRow) { a.PathsMore = true },
		"some questions by the same way": func(q, _ *aggregate.FlowRow) {
			q.PathList = append(q.PathList, aggregate.FlowPath{Path: by1.Path, Packets: 1})
		},
		"more paths there": func(q, _ *aggregate.FlowRow) { q.PathsMore = true },
	} {
		question, answer := echo("10.0.0.1", "10.2.0.2", 8, 7, 3, there.Path), echo("10.2.0.2", "10.0.0.1", 0, 7, 3, back.Path)
		answer.Lost = 3
		change(&question, &answer)
		_, list := replies.Find(&replies.Seen{Flows: []aggregate.FlowRow{question, answer}, Paths: []aggregate.PathRow{there, by1, back}, Before: 1000}, &replies.Choice{})
		if len(list) > 0 {
			t.Errorf("%s: %+v", name, list)
		}
	}
}

// What is not told takes no place of what is, and UDP none of the others. Nodes are asked of so many flows only.
func TestChoice(t *testing.T) {
	t.Parallel()
	there := path("a > r > b", 0, "a", "r", "b")
	seen := &replies.Seen{Paths: []aggregate.PathRow{there}, Before: 1000}
	for i := range 50 {
		seen.Flows = append(seen.Flows, udp("udp", "10.1.0.1", 4000+i, "10.2.0.1", 514, there.Path))
	}
	seen.Flows = append(seen.Flows, udp("tcp", "10.1.0.1", 5000, "10.2.0.1", 80, there.Path), echo("10.1.0.1", "10.2.0.1", 8, 7, 3, there.Path))
	last := seen.Flows[49].Flow
	if list, _ := replies.Find(seen, &replies.Choice{Flows: map[string]bool{last.String(): true}}); len(list) != 1 || *list[0].Sport != 4049 {
		t.Errorf("of one flow that is asked for: %+v", list)
	}
	explained := func(u *replies.Unanswered) bool { return u.Proto != "udp" || *u.Sport < 4045 }
	if list, _ := replies.Find(seen, &replies.Choice{Explained: explained}); len(list) != 5 {
		t.Errorf("of 5 that are not explained: %+v", list)
	}
	asked := 0
	list, _ := replies.Find(seen, &replies.Choice{Tell: func(u *replies.Unanswered) bool { asked++; return u.Proto != "udp" }})
	if len(list) != 2 || list[0].Proto != "tcp" || list[1].Proto != "icmp" || asked != 32 {
		t.Errorf("nodes were asked of %d flows, 32 is the most: %+v", asked, list)
	}
	if list, _ = replies.Find(seen, &replies.Choice{}); len(list) != 8 || list[0].Proto != "tcp" {
		t.Errorf("8 are told, UDP last: %+v", list)
	}
	to, past := udp("tcp", "10.1.0.1", 4000, "10.1.0.254", 80, there.Path), udp("tcp", "10.1.0.1", 4000, "10.2.0.1", 80, there.Path)
	to.NATDst = "10.2.0.1"
	seen.Flows = []aggregate.FlowRow{to, past}
	for name, want := range map[string]int{to.Flow.String(): 1, last.String(): 0} {
		if got := replies.FindUntranslated(seen, &replies.Choice{Flows: map[string]bool{name: true}}); len(got) != want {
			t.Errorf("untranslated of %s: %+v", name, got)
		}
	}
}

// Who sends past the translation of its connection is told; other connections, and what is translated, are not.
func TestUntranslated(t *testing.T) {
	t.Parallel()
	there := path("a > r > b", 0, "a", "r", "b")
	f := udp("tcp", "10.1.0.1", 4000, "10.1.0.254", 80, there.Path)
	f.NATDst = "10.2.0.1"
	past := udp("tcp", "10.1.0.1", 4000, "10.2.0.1", 80, there.Path)
	other := udp("tcp", "10.1.0.1", 4001, "10.2.0.1", 80, there.Path)
	list := replies.FindUntranslated(&replies.Seen{Flows: []aggregate.FlowRow{f, past, other}, Paths: []aggregate.PathRow{there}}, &replies.Choice{})
	if len(list) != 1 || list[0].End != "10.2.0.1:80" || list[0].Packets != 2 || len(list[0].Between) != 1 || list[0].Between[0] != "r" {
		t.Errorf("%+v", list)
	}
	masked := udp("udp", "10.1.0.1", 4000, "10.2.0.1", 7000, there.Path)
	masked.NATSrc, masked.NATSport = "10.2.0.254", ptr(61000)
	answer, stranger := udp("udp", "10.2.0.1", 7000, "10.2.0.254", 61000, ""), udp("udp", "10.2.0.1", 7000, "10.2.0.254", 61001, "")
	again := masked
	again.Src = "10.1.0.3"
	askers := replies.NewAskers([]aggregate.FlowRow{masked, answer, again})
	if who, ok := askers.Of(&answer.Flow); !ok || who != "10.1.0.1" {
		t.Errorf("the answer is for %q", who)
	}
	if who, ok := askers.Of(&stranger.Flow); ok {
		t.Errorf("what answers nothing is for %q", who)
	}
}
