// SPDX-License-Identifier: Apache-2.0

package netem

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	scenarios "github.com/vnetradar/radar/lab/scenarios"
	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/host"
	"github.com/vnetradar/radar/pkg/lab"
	"github.com/vnetradar/radar/pkg/record"
)

const (
	flows          = 400
	packetsPerFlow = 25
	interval       = 3 * time.Millisecond // from packet to packet: an emulated machine is slow
	mostKS         = 0.05                 // from the times in a hop to what was set, or to captures'
	points         = 201                  // of a distribution, from its least value to its greatest
)

var (
	h1, h2 = net.IPv4(10, 0, 1, 1), net.IPv4(10, 0, 2, 1)

	// most is how long netem delays in each machine, at most; at least 0.
	most = map[string]time.Duration{
		"s2": 20 * time.Millisecond,
		"s3": 40 * time.Millisecond,
		"s4": 60 * time.Millisecond,
		"s5": 80 * time.Millisecond,
	}
)

// result is what run.py takes over.
type result struct {
	Kernel         string         `json:"kernel"`
	PacketsPerFlow int            `json:"packets_per_flow"`
	Alike          int            `json:"flows_alike"` // came by the same machine, radar and captures say
	Other          int            `json:"flows_other"`
	Paths          map[string]hop `json:"paths"`
}

// hop is what is known of one machine that delays.
type hop struct {
	Flows         int          `json:"flows"`
	FlowsCaptured int          `json:"flows_captured"`
	Radar         distribution `json:"radar"`
	Captured      distribution `json:"captured"`
	KSBetween     float64      `json:"ks_between"`
	Compared      int          `json:"compared"`
	Apart         apart        `json:"apart_us"` // packet by packet
}

type distribution struct {
	N           int       `json:"n"`
	KS          float64   `json:"ks"` // Kolmogorov-Smirnov distance to what was set
	OverPercent float64   `json:"over_percent"`
	P999        float64   `json:"p99_9_ms"`
	Max         float64   `json:"max_ms"`
	Points      []float64 `json:"points_ms,omitempty"`
}

type apart struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// ports name a flow.
type ports struct{ from, to int }

// UDP flows through the ECMP lab, with netem on each of its four paths: every packet has
// one path and one time in the hop there, as captures say, and the times are distributed
// as was set.
func TestNetem(t *testing.T) {
	need.AsRoot(t)
	need.Programs(t, "tcpdump")
	if why := noNetem(t); why != "" {
		need.Lack(t, need.Kernel, fmt.Sprintf("netem (%s): experiments/01-load-balancing/netem.sh runs this on one that has it", why))
	}
	l := startLab(t)
	tcpdumps := startCaptures(t, l)
	r := attach(t, l)
	send(t, l)
	truth := tcpdumps.stop(t)
	told := sorted(t, r.records(t))
	res := result{Kernel: release(t), PacketsPerFlow: packetsPerFlow, Paths: map[string]hop{}}
	for _, name := range slices.Sorted(maps.Keys(most)) {
		h := compare(t, told[name], truth[name], most[name])
		res.Paths[name] = h
		res.Alike += h.Compared / packetsPerFlow
		t.Logf("%s: %d flows, %d packets; KS distance to what was set %.4f, of captures %.4f, between them %.4f; %.2f %% longer than %v",
			name, h.Flows, h.Radar.N, h.Radar.KS, h.Captured.KS, h.KSBetween, h.Radar.OverPercent, most[name])
		if want := h.Flows * packetsPerFlow; h.Radar.N != want || h.Compared != want {
			t.Errorf("%s: its %d flows have %d packets; radar tells of %d, %d of them captured", name, h.Flows, want, h.Radar.N, h.Compared)
		}
		if h.KSBetween > mostKS {
			t.Errorf("%s: radar's times are not those of captures: KS distance %.4f, may be %v", name, h.KSBetween, mostKS)
		}
		// An emulated machine may be late itself: then captures say so, too.
		if h.Radar.KS > mostKS && h.Captured.KS <= mostKS {
			t.Errorf("%s: the times are not uniform from 0 to %v: KS distance %.4f, may be %v", name, most[name], h.Radar.KS, mostKS)
		}
	}
	if res.Other = flows - res.Alike; res.Other != 0 {
		t.Errorf("of %d flows radar and captures tell %d alike", flows, res.Alike)
	}
	b, err := json.Marshal(res)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("netem: %s\n", b)
}

// noNetem says why a queue with netem cannot be made here; "": it can.
func noNetem(t *testing.T) string {
	n := nstest.New(t, "probe")
	defer n.Delete("probe") // before a lab turns /run/netns into a mount point
	out, err := n.Try("probe", "tc", "qdisc", "add", "dev", "lo", "root", "netem", "delay", "1ms")
	if err == nil {
		return ""
	}
	return strings.TrimSpace(strings.ReplaceAll(out, "\n", " "))
}

// startLab starts the ECMP lab, with a delay in each of s2 to s5 toward s6.
func startLab(t *testing.T) *lab.Lab {
	t.Helper()
	t.Setenv("RADAR_STATE_DIR", t.TempDir())
	s, err := scenarios.Open("ecmp")
	if err != nil {
		t.Fatal(err)
	}
	topology, err := s.Topology(nil)
	if err != nil {
		t.Fatal(err)
	}
	l, err := lab.Up(t.Context(), topology, lab.Options{Name: nstest.Unique()})
	if err != nil {
		t.Fatal(err)
	}
	nstest.Cleanup(t, func() {
		if err := l.Down(); err != nil {
			t.Errorf("take the lab down: %v", err)
		}
	})
	for name, d := range most {
		mean := (d / 2).String() // netem's second number is how far from the first, each way
		command(t, l, name, "tc", "qdisc", "add", "dev", "eth1", "root", "netem", "limit", "10000", "delay", mean, mean)
	}
	return l
}

// command runs a command in a machine.
func command(t *testing.T, l *lab.Lab, machine string, argv ...string) {
	t.Helper()
	if out, err := l.Command(t.Context(), machine, argv...).CombinedOutput(); err != nil {
		t.Fatalf("in %s: %s: %v\n%s", machine, strings.Join(argv, " "), err, out)
	}
}

// send sends every flow from h1 to h2, in turns. Each has random ports. A packet begins with
// its number in the flow.
func send(t *testing.T, l *lab.Lab) {
	t.Helper()
	random := rand.New(rand.NewPCG(1, 1))
	sports, dports := random.Perm(60_000), random.Perm(60_000)
	var from []*net.UDPConn
	var to []*net.UDPAddr
	for i := range flows {
		to = append(to, &net.UDPAddr{IP: h2, Port: 1024 + dports[i]})
		// A socket that takes the packets: else h2 says that nobody does.
		open(t, l, "h2", to[i])
		// Not connected: such a socket gives its packets a hash of its own, which s1 takes.
		from = append(from, open(t, l, "h1", &net.UDPAddr{IP: h1, Port: 1024 + sports[i]}))
	}
	payload := make([]byte, 100)
	for i := range flows * packetsPerFlow {
		binary.BigEndian.PutUint32(payload, uint32(i/flows))
		if _, err := from[i%flows].WriteToUDP(payload, to[i%flows]); err != nil {
			t.Fatalf("packet %d: %v", i, err)
		}
		time.Sleep(interval)
	}
}

// open opens a socket in a machine. It is closed when the test ends.
func open(t *testing.T, l *lab.Lab, machine string, at *net.UDPAddr) (c *net.UDPConn) {
	t.Helper()
	ns, err := netns.GetFromPath(l.NetNSPath(machine))
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	if err := host.InNetns(ns, func() (err error) { c, err = net.ListenUDP("udp4", at); return err }); err != nil {
		t.Fatalf("in %s: %v", machine, err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// sorted returns the times in each machine that delays, of each flow, in order.
func sorted(t *testing.T, all []record.Record) map[string]map[ports][]time.Duration {
	t.Helper()
	// A flow has one packet at a time in flight.
	slices.SortFunc(all, func(a, b record.Record) int { return cmp.Compare(a.TNs, b.TNs) })
	times := map[string]map[ports][]time.Duration{}
	for machine := range most {
		times[machine] = map[ports][]time.Duration{}
	}
	for _, r := range all {
		if r.State != record.Delivered || len(r.Hops) != 5 || r.Segs != 1 {
			t.Fatalf("packet %s is %s after %d hops, with %d segments: want one packet delivered, by five machines", r.ID, r.State, len(r.Hops), r.Segs)
		}
		h, flow := r.Hops[2], ports{*r.Sport, *r.Dport}
		if h.NodeNs == nil || h.QueueNs == nil {
			t.Errorf("packet %s has no time in %s, or in the queue of its %s", r.ID, h.Node, h.Port)
			continue
		}
		times[h.Node][flow] = append(times[h.Node][flow], time.Duration(*h.NodeNs+*h.QueueNs))
	}
	return times
}

// compare holds radar's times in a machine against the captures', and both against a
// uniform distribution from 0 to top.
func compare(t *testing.T, told map[ports][]time.Duration, truth map[seen]time.Duration, top time.Duration) hop {
	t.Helper()
	captured := map[ports]bool{}
	for s := range truth {
		captured[s.flow] = true
	}
	h := hop{Flows: len(told), FlowsCaptured: len(captured)}
	var differences, all []time.Duration
	for flow, times := range told {
		all = append(all, times...)
		for i, told := range times {
			if saw, ok := truth[seen{flow, uint32(i)}]; ok {
				differences = append(differences, (told - saw).Abs())
			}
		}
	}
	h.Compared = len(differences)
	slices.Sort(all)
	slices.Sort(differences)
	want := slices.Sorted(maps.Values(truth))
	h.Radar, h.Captured = distributionOf(all, top), distributionOf(want, top)
	for i := range points {
		h.Radar.Points = append(h.Radar.Points, ms(quantile(all, float64(i)/(points-1))))
	}
	h.KSBetween = between(all, want)
	h.Apart = apart{us(quantile(differences, 0.5)), us(quantile(differences, 0.99)), us(quantile(differences, 1))}
	return h
}

// distributionOf compares sorted times with a uniform distribution from 0 to top.
func distributionOf(times []time.Duration, top time.Duration) distribution {
	d := distribution{N: len(times), P999: ms(quantile(times, 0.999)), Max: ms(quantile(times, 1))}
	n, over := float64(len(times)), 0
	for i, w := range times {
		set := min(float64(w)/float64(top), 1)
		// The share of times steps from i/n to (i+1)/n here.
		d.KS = max(d.KS, math.Abs(set-float64(i)/n), math.Abs(float64(i+1)/n-set))
		if w > top {
			over++
		}
	}
	d.OverPercent = 100 * float64(over) / n
	return d
}

// between is the Kolmogorov-Smirnov distance of two sorted lists.
func between(a, b []time.Duration) (distance float64) {
	for i, k := 0, 0; i < len(a) && k < len(b); {
		at := min(a[i], b[k])
		for i < len(a) && a[i] == at {
			i++
		}
		for k < len(b) && b[k] == at {
			k++
		}
		distance = max(distance, math.Abs(float64(i)/float64(len(a))-float64(k)/float64(len(b))))
	}
	return distance
}

// quantile of sorted times, by nearest rank; 0 of none.
func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	rank := int(math.Ceil(q * float64(len(sorted))))
	return sorted[max(rank, 1)-1]
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1e3 }

func us(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }

func release(t *testing.T) string {
	t.Helper()
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		t.Fatal(err)
	}
	return unix.ByteSliceToString(u.Release[:])
}
