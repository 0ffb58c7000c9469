// SPDX-License-Identifier: Apache-2.0

package p4test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/vnetradar/radar/lab/test/radarbin"
	"github.com/vnetradar/radar/p4/recorded"
)

// told is a line of radar packets -o json.
type told struct {
	State string
	Src   string
	Dst   string
	Sport int
	Dport int
	Hops  []struct {
		Node string
		INT  map[string]json.Number `json:"int"`
	}
	Loss *struct{ Node, Reason string }
}

// story is the record as text: who handled the packet, with what, and how it ended.
func (r *told) story() string {
	var b strings.Builder
	for _, h := range r.Hops {
		fmt.Fprintf(&b, "%s", h.Node)
		delete(h.INT, "checksum_complement") // all ones, which this package checks
		for _, name := range slices.Sorted(maps.Keys(h.INT)) {
			fmt.Fprintf(&b, " %s=%s", name, h.INT[name])
		}
		b.WriteString(" > ")
	}
	b.WriteString(r.State)
	if r.Loss != nil {
		fmt.Fprintf(&b, " at %s by %s", r.Loss.Node, r.Loss.Reason)
	}
	return b.String()
}

// names gives values the names that radar has for them.
func (v values) named() map[string]uint64 {
	all := make(map[string]uint64)
	for name, n := range v {
		if _, known := number(v, name); !known {
			continue
		}
		switch name {
		case "node":
			all["node_id"] = n
		case "ports":
			all["l1_in"], all["l1_out"] = n>>16, n&0xffff
		case "latency":
			all["hop_latency"] = n
		case "queue":
			all["queue_id"], all["queue_occ"] = n>>24, n&0xffffff
		case "in":
			all["ingress_ts"] = n
		case "out":
			all["egress_ts"] = n
		case "l2":
			all["l2_in"], all["l2_out"] = n>>32, n&0xffffffff
		case "util":
			all["egress_tx_util"] = n
		}
	}
	return all
}

// tell is what a record of the frame must say by its reports, as told.story writes it.
func (k *check) tell(i int) string {
	type hop struct {
		node uint32
		v    map[string]uint64
	}
	var hops []hop
	end := "left"
	for _, r := range k.reps {
		if r.i != i {
			continue
		}
		own := facts{report: r.report}.nodes(k.testcase)[0].named()
		if r.dropped {
			own["drop_queue_id"], own["drop_reason"] = 0, uint64(r.reason)
			end = fmt.Sprintf("lost at s%d by INT_%d", r.s, r.reason)
		}
		for _, v := range slices.Backward(k.stackAt(r)) {
			hops = append(hops, hop{uint32(v["node"]), v.named()})
		}
		hops = append(hops, hop{r.node, own})
	}
	slices.SortStableFunc(hops, func(a, b hop) int { return order(a.node) - order(b.node) })
	var b strings.Builder
	for _, h := range hops {
		b.WriteString(nodeName(h.node))
		for _, name := range slices.Sorted(maps.Keys(h.v)) {
			fmt.Fprintf(&b, " %s=%d", name, h.v[name])
		}
		b.WriteString(" > ")
	}
	return b.String() + end
}

// order is the place of a node on the way. Those that are no switch come first.
func order(node uint32) int { return map[int]int{1: 1, 2: 2, 3: 2, 4: 3}[switchOf(node)] }

// nodeName is what radar calls a node. 0: it has not said who it is.
func nodeName(node uint32) string {
	switch {
	case order(node) > 0:
		return fmt.Sprintf("s%d", switchOf(node))
	case node == 0:
		return "?"
	}
	return fmt.Sprintf("int-%d", node)
}

// stackAt are the hops in the packet that a report quotes, the newest first.
func (k *check) stackAt(r *repInfo) (all []values) {
	t, _ := k.findINT(k.stories[r.i].links[r.hop].frame)
	return facts{int: t}.nodes(k.testcase)
}

// TestReplayCollect: radar collect makes of the recorded reports what this package's decoder reads in
// them.
func TestReplayCollect(t *testing.T) {
	radar := radarbin.Path(t)
	t.Setenv("RADAR_STATE_DIR", t.TempDir())
	run := func(args ...string) string {
		out, err := exec.Command(radar, args...).Output()
		if err != nil {
			t.Fatalf("radar %s: %v", strings.Join(args, " "), err)
		}
		return string(out)
	}
	m := recordings(t)
	want := make(map[string][]string)
	var reports []recorded.Packet
	for i, c := range cases() {
		r := m.Case(c.name)
		if r == nil || c.congested > 0 && c.frames[0].skip == 0 {
			continue // TestReplay says so; a packet of which transits report a queue is several records
		}
		for _, p := range r.Packets["T"] { // cases are far from each other: postcards are joined in time
			p.Time = time.Unix(int64(1800000000+10*i), 0).Add(p.Time.Sub(r.Packets["T"][0].Time))
			reports = append(reports, p)
		}
		k := newCheck(c, evidenceOf(c, r))
		k.run()
		for i := range c.frames {
			if slices.ContainsFunc(k.reps, func(r *repInfo) bool { return r.i == i }) {
				key := c.frames[i].key()
				want[key] = append(want[key], k.tell(i))
			}
		}
	}
	nodes := make([]string, 4)
	for s := range nodes {
		nodes[s] = fmt.Sprintf("%d=s%d", nodeID(s+1), s+1)
	}
	run("collect", "--all", "-r", writePcap(t, reports), "--node", strings.Join(nodes, ","))
	got := make(map[string][]string)
	for line := range strings.Lines(run("packets", "--last", "0", "-o", "json")) {
		var p told
		if err := json.Unmarshal([]byte(line), &p); err != nil {
			t.Fatal(err)
		}
		key := fmt.Sprintf("%s:%d > %s:%d", p.Src, p.Sport, p.Dst, p.Dport)
		got[key] = append(got[key], p.story())
	}
	if len(want) < 100 {
		t.Errorf("%d flows", len(want))
	}
	for _, key := range slices.Sorted(maps.Keys(want)) {
		slices.Sort(got[key])
		slices.Sort(want[key])
		if !slices.Equal(got[key], want[key]) {
			t.Errorf("%s: radar packets says\n  %s\nwant\n  %s", key, strings.Join(got[key], "\n  "), strings.Join(want[key], "\n  "))
		}
		delete(got, key)
	}
	for key, list := range got {
		t.Errorf("%s: nobody sent that: %q", key, list)
	}
}

// key is the flow of a frame as records print it.
func (s *sent) key() string {
	src, dst := s.addresses()
	from, _ := netip.AddrFromSlice(src)
	to, _ := netip.AddrFromSlice(dst)
	return from.String() + ":" + strconv.Itoa(int(s.sport)) + " > " + to.String() + ":" + strconv.Itoa(int(s.dport))
}
