// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vnetradar/radar/pkg/record"
)

// traceBounds are far below the times of the made-up network.
var traceBounds = Bounds{P99: 500}

// traced returns traces of packets with each kind of end: delivered, lost in a node, lost in
// a queue.
func traced(c *Comparison) []TraceAnswer {
	var list []TraceAnswer
	for _, end := range []string{"delivered", "lost by nft r1", "lost by tbf r2"} {
		i := slices.IndexFunc(c.pairs, func(p pair) bool { return endOf(p.outcome) == end && p.r.Proto == "udp" && p.r.Segs <= 1 })
		list = append(list, TraceAnswer{*c.pairs[i].r, storyOf(c, c.pairs[i])})
		list[len(list)-1].Hops = slices.Clone(list[len(list)-1].Hops)
	}
	return list
}

// storyOf returns the story that radar must print.
func storyOf(c *Comparison, p pair) []string {
	var lines []string
	want, parts := c.story(p)
	if len(parts) > 1 {
		slices.SortFunc(parts, func(a, b storyLine) int { return cmp.Compare(b.times[0].recorded, a.times[0].recorded) })
		want = append(want, parts[0])
	}
	for i, w := range want {
		text := w.text
		for _, ns := range w.times {
			text = strings.Replace(text, "~", fmt.Sprintf("%dns", ns.recorded), 1)
		}
		switch {
		case i == 1:
			text = time.Unix(0, p.enters).Format("2006-01-02 15:04:05.000000000") + "  " + text
		case strings.HasPrefix(text, "Longest"):
			text += "40 "
		}
		lines = append(lines, text+w.has)
	}
	return lines
}

// The story of a packet of the made-up network, by hand.
func TestStory(t *testing.T) {
	c := comparison(t)
	got := traced(c)[0].Story
	want := []string{
		": delivered after 27000ns",
		"udp 10.0.1.1:4000 > 10.0.3.2:5000, 48 bytes, TTL 70, id 5",
		"changed on the way: TTL 70 > 68",
		"0 h1 sent by e0",
		"5000ns r1 in by e0 after 5000ns on the link, out by e1 after 3000ns inside",
		"13000ns r2 in by e0 after 5000ns on the link, out by e1 after 0ns inside, after 9000ns in its queue",
		"27000ns h2 in by e0 after 5000ns on the link, delivered",
		"Longest: in the queue of r2/e1: 9000ns, 40 % of the time.",
	}
	if len(got) != len(want) {
		t.Fatalf("%q", got)
	}
	for i := range want {
		if !strings.HasSuffix(got[i], want[i]) {
			t.Errorf("%q, want %q", got[i], want[i])
		}
	}
}

// TestTraces: stories that agree with the captures pass, and each that is spoiled is found.
func TestTraces(t *testing.T) {
	c := comparison(t)
	const rec, story = "radar trace: header", "radar trace: the story's steps"
	swap := func(i, line int, old, by string) func([]TraceAnswer) []TraceAnswer {
		return func(a []TraceAnswer) []TraceAnswer {
			if !strings.Contains(a[i].Story[line], old) {
				t.Fatalf("no %q in %q", old, a[i].Story[line])
			}
			a[i].Story[line] = strings.Replace(a[i].Story[line], old, by, 1)
			return a
		}
	}
	in := func(i int, f func(*TraceAnswer)) func([]TraceAnswer) []TraceAnswer {
		return func(a []TraceAnswer) []TraceAnswer { f(&a[i]); return a }
	}
	for _, m := range []struct {
		name  string
		spoil func([]TraceAnswer) []TraceAnswer
		row   string // "": none
	}{
		{"nothing", func(a []TraceAnswer) []TraceAnswer { return a }, ""},
		{"dropped after delivery", in(0, func(a *TraceAnswer) { a.Story = append(a.Story, "? h2 DROPPED after delivery: full") }), ""},
		{"no packet lost in the queue", func(a []TraceAnswer) []TraceAnswer { return a[:2] }, rec},
		{"packet that never was", in(0, func(a *TraceAnswer) { a.ID = "x" }), rec},
		{"ttl of the record", in(0, func(a *TraceAnswer) { a.TTL++ }), rec},
		{"path of the record", in(0, func(a *TraceAnswer) { a.Hops[1].Port = "e9" }), rec},
		{"state of the record", in(1, func(a *TraceAnswer) { a.State = record.Expired }), rec},
		{"loss of the record", in(2, func(a *TraceAnswer) {
			a.Loss = &record.Loss{Node: "r2", Port: "e0", At: record.AtQueue, AtNs: a.Loss.AtNs}
		}), rec},
		{"times of the record", in(0, func(a *TraceAnswer) {
			a.Hops[2].NodeNs = ns(7)
			a.Story[5] = strings.Replace(a.Story[5], "0ns inside", "7ns inside", 1)
		}), rec},
		{"end", swap(0, 0, "delivered", "left the domain"), story},
		{"time of the end", swap(0, 0, "after 2", "after 9"), story},
		{"clock", swap(0, 1, "2023", "2024"), story},
		{"port of the packet", swap(0, 1, ":5000", ":5001"), story},
		{"id of the packet", swap(0, 1, "id 5", "id 6"), story},
		{"ttl sent", swap(0, 2, "> 68", "> 67"), story},
		{"node of a step", swap(0, 4, "r1", "r2"), story},
		{"port of a step", swap(0, 4, "out by e1", "out by e2"), story},
		{"time of a step", swap(0, 5, "13000ns", "15us"), story},
		{"time on a link", swap(0, 5, "after 5000ns", "after 8000ns"), story},
		{"time inside", swap(0, 4, "after 3000ns", "after 1000ns"), story},
		{"step missing", in(0, func(a *TraceAnswer) { a.Story = slices.Delete(a.Story, 5, 6) }), story},
		{"delivered elsewhere", swap(0, 6, "h2", "r2"), story},
		{"time in the queue", swap(0, 5, "9000ns in its", "1000ns in its"), story},
		{"longest queue", swap(0, 7, "r2/e1", "r1/e1"), story},
		{"longest missing", in(0, func(a *TraceAnswer) { a.Story = a.Story[:7] }), story},
		{"longest of a packet lost", in(1, func(a *TraceAnswer) { a.Story = append(a.Story, "Longest: inside r1: 3us") }), story},
		{"lost by the rule elsewhere", swap(1, 4, "r1 LOST inside", "r2 LOST inside"), story},
		{"reason of the loss", swap(1, 4, "[NETFILTER_DROP", "[NO_SOCKET"), story},
		{"lost at another port", swap(2, 6, "queue of e1", "queue of e0"), story},
		{"lost in a queue of another kind", swap(2, 6, "(tbf)", "(htb)"), story},
		{"time of the loss", swap(2, 6, "13000ns", "19000ns"), story},
		{"lost without a place", in(2, func(a *TraceAnswer) { a.Story = a.Story[:6] }), story},
	} {
		t.Run(m.name, func(t *testing.T) {
			for _, row := range c.CheckTraces(m.spoil(traced(c)), traceBounds) {
				if bad := m.row != "" && strings.HasPrefix(row.Check, m.row); row.OK() == bad {
					t.Errorf("%s: %+v", row.Check, row)
				}
			}
		})
	}
}

// TestTraceTimes: a story may agree with its record and be off the captures. That is an
// error where times are checked.
func TestTraceTimes(t *testing.T) {
	c := comparison(t)
	for _, p := range c.pairs {
		for i := range p.r.Hops {
			if h := &p.r.Hops[i]; h.NodeNs != nil {
				*h.NodeNs += 2000
			}
		}
	}
	for _, busy := range []bool{false, true} {
		rows := c.CheckTraces(traced(c), Bounds{P99: 500, Unjudged: busy})
		if times := rows[2]; !rows[0].OK() || !rows[1].OK() || times.OK() != busy || (times.Off > 0) != busy {
			t.Errorf("busy %v: %+v, %+v, %+v", busy, rows[0], rows[1], times)
		}
	}
}
