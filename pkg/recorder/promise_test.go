// SPDX-License-Identifier: Apache-2.0

package recorder

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vnetradar/radar/pkg/answer/assertion"
	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/packet"
)

// promising writes a file of assertions, and returns its name.
func promising(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "my lab.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// holding is a watch of a file's promises in windows of 400 ms: one ends every 100 ms. Its clock is *now.
func holding(t *testing.T, text string) (w *watch, now *int64) {
	t.Helper()
	w, now = watching(t, "assert "+promising(t, text)+" in 400ms"), new(int64)
	for i := range w.held {
		w.held[i].trials = nil
	}
	w.now = func() int64 { return *now }
	w.checkWindows()
	return w, now
}

// pass lets time pass until until (ms), with what each 10 ms bring, and returns what was met.
func pass(w *watch, now *int64, until int64, each func(at int64) []*packet.Packet) (list []met) {
	for ; *now < until*ms; *now += 10 * ms {
		for _, p := range each(*now) {
			w.add(p)
		}
		list = append(list, w.met()...)
	}
	return list
}

func good(at int64) []*packet.Packet {
	p := sent(at, 0, 100)
	p.Len = 1000
	return []*packet.Packet{p}
}
func bad(at int64) []*packet.Packet     { return append(good(at), lost(at, 3)) }
func nothing(int64) []*packet.Packet    { return nil }
func onlyBad(at int64) []*packet.Packet { return []*packet.Packet{lost(at, 3)} }

// A promise meets the condition when it begins to be broken: once, until it has held again.
func TestPromiseBegins(t *testing.T) {
	w, now := holding(t, "assertions:\n- name: all arrive\n  no_loss: true\n")
	for i, step := range []struct {
		until int64
		each  func(int64) []*packet.Packet
		want  string // begin and end of the windows that broke it, ms
	}{
		{1000, good, ""},
		{2000, bad, "600-1000"}, // the window that ends first with a loss in it
		{3000, good, ""},
		{3500, bad, "2600-3000"},
		{5000, nothing, ""}, // no packet: nothing is known
		{5500, bad, "4600-5000"},
	} {
		got := pass(w, now, step.until, step.each)
		var texts []string
		for _, m := range got {
			texts = append(texts, fmt.Sprintf("%d-%d", m.at/ms, m.last/ms))
		}
		if strings.Join(texts, " ") != step.want {
			t.Errorf("step %d: met %v, want %q: %+v", i, texts, step.want, got)
		}
		if i == 1 && len(got) == 1 && got[0].value != `"all arrive" (line 2) is broken: 1 of 41 lost (2.44 %), promised: no packet lost` {
			t.Errorf("it says %q", got[0].value)
		}
	}
}

// Each promise of a file is by itself. One that has too few packets to be decided is not broken.
func TestPromisesOfFile(t *testing.T) {
	w, now := holding(t, `assertions:
- {name: little is lost, loss: {below: 60 %}}
- {name: some are there, packets: {at_least: 1}}
- {name: fast, latency: {p99: 1ms}}
- {name: to h2 alone, select: {node: h2}, no_loss: true}
- {name: much, rate: {at_least: 1kbit}}
- {name: the path, path: [h1, r-1, h2]}
`)
	if got := pass(w, now, 1000, bad); len(got) > 0 {
		t.Errorf("met with half of the packets lost: %+v", got)
	}
	got := pass(w, now, 2000, onlyBad)
	if len(got) != 2 || !strings.Contains(got[0].value+got[1].value, "little is lost") || !strings.Contains(got[0].value+got[1].value, "much") {
		t.Errorf("all are lost: %+v; want the loss and the rate", got)
	}
	if got := pass(w, now, 3000, nothing); len(got) != 1 || !strings.Contains(got[0].value, `"some are there" (line 3) is broken: 0 packets, promised: at least 1 packet`) {
		t.Errorf("nothing comes: %+v", got)
	}
}

// The time of packets that are known late, as of one that has expired, belongs to the window.
func TestLatePromise(t *testing.T) {
	w, now := holding(t, "assertions: [{name: all arrive, no_loss: true}]")
	*now = 10000 * ms
	w.checkWindows()
	w.held[0].trials = w.held[0].trials[len(w.held[0].trials)-1:]
	w.add(lost(3000*ms, 3))
	if got := pass(w, now, 11000, nothing); len(got) != 1 || got[0].at/ms != 3000 || got[0].last/ms != 10400 {
		t.Errorf("met %+v, want 3000 to 10400", got)
	}
}

// What is wrong with the file is named, with the place.
func TestPromiseErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":                                     "there is nothing in it",
		"assertions: [{name: x}]":              ":1:14: assertions[0]: it checks nothing",
		"assertions: [{name: x, crosses: r9}]": `x: there is no node "r9": there are h1, h2, r-1`,
		"assertions: [{name: x, latency: {p99: 1ms, queue: r-1/e9}}]":          `x: node r-1 has no port "e9"`,
		"assertions: [{name: x, select: {dst: nonsense}, no_loss: true}]":      "x: select.",
		"assertions: [{name: x, select: {filter: \"prot 5\"}, no_loss: true}]": "x: select.filter: ",
	} {
		c, err := ParseCondition("assert "+promising(t, text)+" in 1s", network())
		if c != nil || err == nil || !strings.Contains(err.Error(), want) || !errors.Is(err, fault.Usage) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	many := "assertions:\n"
	for i := range mostPromises + 1 {
		many += fmt.Sprintf("- {name: n%d, no_loss: true}\n", i)
	}
	for text, want := range map[string]string{
		"assert":                 `use "assert FILE in TIME"`,
		"assert x.yaml":          `use "assert FILE in TIME"`,
		"assert in 1s":           `use "assert FILE in TIME"`,
		"assert x.yaml in 0s":    `"0s": use a time`,
		"assert x.yaml in 399ms": "399ms: use 400ms at least",
		"assert " + promising(t, "assertions:\n- name: a\n  cause: nothing\n") + " in 1s": "a flight recorder cannot follow what holds flows",
		"assert /nowhere in 1s":                   "open /nowhere: no such file",
		"assert " + promising(t, many) + " in 1s": "has 65 assertions: a flight recorder watches 64 at most",
	} {
		if c, err := ParseCondition(text, network()); c != nil || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// Packets are held against a promise in the order in which they become known, and checked in that in which they were sent.
func TestPromiseOfOrder(t *testing.T) {
	const text = "assertions: [{name: order, no_reordering: true}]"
	known := func(want int, all ...*packet.Packet) {
		t.Helper()
		w, now := holding(t, text)
		for _, p := range all {
			w.add(p)
		}
		if got := pass(w, now, 1000, nothing); len(got) != want {
			t.Errorf("met %d times, want %d: %+v", len(got), want, got)
		}
	}
	known(0, sent(500*ms, 0, ms), sent(0, 0, 100*ms))                     // a slow one is known after a late one
	known(1, sent(500*ms, 0, ms), sent(20*ms, 0, ms), sent(0, 0, 100*ms)) // it is behind the second one
}

// What promises of a file keep of flows has one bound. One that cannot be decided is not broken, which is reported once.
func TestPromisesBounded(t *testing.T) {
	w, now := holding(t, "assertions:\n- {name: order, no_reordering: true}\n- {name: fair, balance: {}}\n")
	w.room = assertion.NewRoom(100)
	for i := range w.held {
		w.held[i].trials = nil
	}
	w.checkWindows()
	if got := pass(w, now, 2000, func(at int64) (list []*packet.Packet) {
		for port := range uint16(10) {
			p := sent(at, 0, ms)
			p.SrcPort = port + uint16(at/ms)
			list = append(list, p)
		}
		return list
	}); len(got) > 0 {
		t.Errorf("met %+v", got)
	}
	if text := strings.Join(w.notes, "\n"); len(w.notes) != 2 || !strings.Contains(text, `"order" (line 2) cannot be decided: `) || !strings.Contains(text, `"fair" (line 3) cannot`) {
		t.Errorf("it says %q", w.notes)
	}
	pass(w, now, 3000, nothing)
	if got := pass(w, now, 4000, func(at int64) []*packet.Packet {
		late, other := sent(at, 0, ms), sent(at, 0, ms)
		late.LatencyNs = 5 * ms
		other.T0++
		return []*packet.Packet{late, other}
	}); len(got) != 1 || !strings.Contains(got[0].value, "reordered") {
		t.Errorf("there is room again: met %+v", got)
	}
}

// When the recorder ends, promises are checked in the time that is left, unless later packets could have made them hold.
func TestLastPromises(t *testing.T) {
	w, now := holding(t, `assertions:
- {name: all arrive, no_loss: true}
- {name: most arrive, loss: {below: 1 %}}
- {name: few, packets: {at_most: 3}}
- {name: many, packets: {at_least: 3000}}
- {name: fast, latency: {max: 1s}}
`)
	if got := pass(w, now, 300, bad); len(got) > 0 {
		t.Fatalf("met before TIME has passed: %+v", got)
	}
	w.ending = true
	got := w.met()
	if len(got) != 2 || !strings.Contains(got[0].value+got[1].value, "all arrive") || !strings.Contains(got[0].value+got[1].value, "few") || got[0].last != *now {
		t.Errorf("met %+v", got)
	}
	if len(w.notes) != 1 || w.notes[0] != `the last 300ms are too short to decide "most arrive", "many"` {
		t.Errorf("it says %q", w.notes)
	}
}

// A window ends when the recorder looks, and the packets up to then are those that broke the promise.
func TestPromiseUntil(t *testing.T) {
	w, now := holding(t, "assertions: [{name: all arrive, no_loss: true}]")
	*now = 470 * ms
	w.add(lost(465*ms, 3))
	if got := w.met(); len(got) != 1 || got[0].last != *now {
		t.Errorf("met %+v, want until %d", got, *now)
	}
}
