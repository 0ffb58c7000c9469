// SPDX-License-Identifier: Apache-2.0

package transparency

import (
	"regexp"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/record"
)

// A frame as captures have it.
func frameOf(w *World, change func(*Packet)) []byte {
	p := w.UDP("10.0.1.1", "10.0.4.2", 40)
	if change != nil {
		change(p)
	}
	return ethernet(mac("b", "eth0"), mac("a", "eth0"), unix.ETH_P_IP, p.Bytes())
}

// TestCompare: every kind of difference is found, in frames that were spoiled by hand.
func TestCompare(t *testing.T) {
	w := &World{T: t}
	first, second, third := frameOf(w, nil), frameOf(w, nil), frameOf(w, nil)
	lowered := frameOf(&World{T: t}, func(p *Packet) { p.TTL = 63 })
	renumbered := frameOf(&World{T: t}, func(p *Packet) { p.ID = 9 })
	base := [][]byte{first, second, third}
	for _, c := range []struct {
		name string
		with [][]byte
		want string // in the finding; "": none
	}{
		{"equal", base, ""},
		{"one is missing", [][]byte{first, third}, "missing with radar"},
		{"one came twice", [][]byte{first, second, second, third}, "only with radar"},
		{"another order", [][]byte{second, first, third}, "another order from packet 1 of 3"},
		{"another TTL", [][]byte{lowered, second, third}, "differs in ttl 40/3f, sum"},
		{"another ID", [][]byte{renumbered, second, third}, "differs in id .*/0009, sum"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := map[string]view{"x": {flows: map[string][][]byte{"f": base}}}
			b := map[string]view{"x": {flows: map[string][][]byte{"f": c.with}}}
			_, list := compare(a, b)
			if text := describe(list, 9); (c.want == "") != (len(list) == 0) || !regexp.MustCompile(c.want).MatchString(text) {
				t.Errorf("found %q, want %q", text, c.want)
			}
		})
	}
	if _, list := compare(map[string]view{"s": {lines: []string{"a", "b"}}}, map[string]view{"s": {lines: []string{"a"}}}); len(list) != 1 {
		t.Errorf("a line that is missing: %v", list)
	}
}

// spoiledRun is a run with one packet over a - b, and a record of it that is right.
func spoiledRun(t *testing.T) *Run {
	w := &World{T: t}
	frame := frameOf(w, nil)
	now := time.Now()
	at := func(node string, dir direction, after time.Duration) *capture {
		s := &sighting{node: node, port: "eth0", dir: dir, at: now.Add(after), frame: frame, train: 1, decoded: decode(frame, false, 0)}
		return &capture{node: node, port: "eth0", seen: []*sighting{s}}
	}
	r := &Run{T: t, Mode: Mark, c: &Case{}, world: w, topo: new(topology), Status: new(Status), end: now.Add(800 * time.Millisecond)}
	r.captures = []*capture{at("a", out, 0), at("b", in, time.Millisecond)}
	var err error
	if r.topo, err = parseTopology([]byte(`{"nodes": [
		{"name": "a", "ports": [{"name": "eth0", "role": "internal"}]}, {"name": "b", "ports": [{"name": "eth0", "role": "internal"}]}]}`)); err != nil {
		t.Fatal(err)
	}
	zero, end, sport, dport := int64(0), int64(time.Millisecond), firstPort+1, 7
	r.Records = []record.Record{{
		State: record.Delivered, TNs: now.UnixNano(), Src: "10.0.1.1", Dst: "10.0.4.2", Proto: "udp", Sport: &sport, Dport: &dport, Segs: 1,
		Hops: []record.Hop{{Node: "a", Port: "eth0", AtNs: &zero}, {Node: "b", InPort: "eth0", AtNs: &end}},
	}}
	return r
}

// TestRecords: every kind of mistake in a record is found.
func TestRecords(t *testing.T) {
	early, late, far := int64(time.Millisecond-2*clockError), int64(500*time.Millisecond), int64(time.Second)
	other := 8
	for _, c := range []struct {
		name  string
		spoil func(r *Run)
		want  string // "": nothing is wrong
	}{
		{"right", func(*Run) {}, ""},
		{"no record", func(r *Run) { r.Records = nil }, "no record of"},
		{"twice", func(r *Run) { r.Records = append(r.Records, r.Records[0]) }, "no capture has the packet"},
		{"another node", func(r *Run) { r.Records[0].Hops[1].Node = "c" }, "no capture saw it at c/eth0 in"},
		{"a hop is missing", func(r *Run) { r.Records[0].Hops = r.Records[0].Hops[:1] }, "b/eth0 in once, its records say 0 times"},
		{"lost", func(r *Run) { r.Records[0].State = record.Lost }, "it is lost, want delivered"},
		{"expired", func(r *Run) { r.Records[0].State = record.Expired }, "it is expired, want delivered"},
		{"addresses", func(r *Run) { r.Records[0].Hops[0].Dport = &other }, "no capture has the packet"},
		{"before its capture as it comes in", func(r *Run) { r.Records[0].Hops[1].AtNs = &early }, "captures saw it .* later"},
		{"behind its capture as it goes out", func(r *Run) { r.Records[0].TNs += 2 * int64(clockError) }, "captures saw it -.* later"},
		{"after the end", func(r *Run) { r.Records[0].Hops[1].AtNs = &far }, "captures saw it .* later"},
		{"late, on a busy machine", func(r *Run) { r.Records[0].Hops[1].AtNs = &late }, ""},
		{"late, where times are checked", func(r *Run) { r.Records[0].Hops[1].AtNs = &late; r.checkTimes = true }, "captures saw it .* later"},
		{"segments", func(r *Run) { r.Records[0].Segs = 2 }, "passed a/eth0 out once, its records say 2 times"},
		{"expected loss", func(r *Run) { r.world.Expect(1).Lost("b", "") }, "it is delivered, want lost"},
		{"should have none", func(r *Run) { r.world.Expect(1).Unmeasured() }, "should have none"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := spoiledRun(t)
			c.spoil(r)
			_, list := r.checkRecords()
			if text := describe(list, 9); (c.want == "") != (len(list) == 0) || !regexp.MustCompile(c.want).MatchString(text) {
				t.Errorf("found %q, want %q", text, c.want)
			}
		})
	}
}

// TestLimits: a limit that is gone is reported.
func TestLimits(t *testing.T) {
	c := &Case{Limits: []Limit{{Modes: []Mode{Header}, Text: "known", Match: "expired", Times: 1}}}
	expired := finding{wrong, "it is expired, want delivered"}
	if left, known := c.sift(Header, []finding{expired}); len(left) != 0 || len(known) != 1 {
		t.Errorf("left %v, known %v", left, known)
	}
	if left, _ := c.sift(Header, []finding{expired, expired}); len(left) != 1 {
		t.Errorf("more than what is known, and nothing says so")
	}
	if left, _ := c.sift(Header, nil); len(left) != 1 {
		t.Errorf("the limit is gone, and nothing says so")
	}
	if left, _ := c.sift(Mark, []finding{expired}); len(left) != 1 {
		t.Errorf("a limit of another mode hides %v", expired)
	}
}
