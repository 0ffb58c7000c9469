// SPDX-License-Identifier: Apache-2.0

package aggregate_test

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vnetradar/radar/pkg/aggregate"
	"github.com/vnetradar/radar/pkg/vnet/backpack"
	rt "github.com/vnetradar/radar/pkg/vnet/backpack/ringtest"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

const (
	epoch = 0x1234
	slots = 16384
	ms    = uint64(1e6)
)

// The nodes a - b - c with ports a/e0, b/e0, b/e1, c/e0.
var dom = &domain.Domain{
	Epoch:   epoch,
	Options: domain.Options{Slots: slots, Timeout: time.Second},
	Nodes:   []domain.Node{{ID: 1, Name: "a"}, {ID: 2, Name: "b"}, {ID: 3, Name: "c"}},
	Ports: []domain.Port{
		{ID: 10, Node: 1, Name: "e0"}, {ID: 20, Node: 2, Name: "e0"},
		{ID: 21, Node: 2, Name: "e1"}, {ID: 30, Node: 3, Name: "e0"},
	},
}

// network is a ring with traffic, and a clock.
type network struct {
	*rt.Image
	rng  *rand.Rand
	now  uint64
	sent uint64
}

func newNetwork(seed uint64) *network {
	return &network{Image: rt.New(slots, 256, 2, 32), rng: rand.New(rand.NewPCG(seed, 1)), now: 1e12}
}

// packet sends one packet or train over a part of the way; it may be lost, vanish,
// or have its train cut.
func (n *network) packet() {
	n.now += uint64(n.rng.Int64N(int64(ms)))
	p := rt.Packet{
		Proto: 17, Src: [4]byte{10, 0, 0, byte(n.rng.IntN(20))}, Dst: [4]byte{10, 1, 0, 1},
		Sport: uint16(n.rng.IntN(50)), Dport: 80, Len: 1000, Segs: byte(1 + max(0, n.rng.IntN(6)-2)),
	}
	if p.Sport%3 == 0 {
		p.V6 = &rt.V6{Src: [16]byte{0x20, 15: p.Src[3]}, Dst: [16]byte{0x20, 15: 99}, Label: uint32(p.Sport)}
	}
	pos, ok := n.Send(n.rng.IntN(2), p, rt.Egress, 10, n.now)
	if !ok {
		return
	}
	n.sent += uint64(p.Segs)
	at := n.now + uint64(n.rng.IntN(50000))
	n.See(pos, rt.Ingress, rt.First, 20, at)
	at += uint64(n.rng.IntN(5000))
	if p.V6 != nil && p.Sport%2 == 0 {
		n.Translate6(pos, rt.First, 21, [16]byte{0xfd, 15: 1}, p.V6.Dst, p.Sport+1000, p.Dport, at)
	}
	n.See(pos, rt.Egress, rt.First, 21, at)
	at += uint64(n.rng.IntN(500000))
	end := func(pos uint64, flags byte) {
		switch n.rng.IntN(10) {
		case 0:
			n.Drop(pos, flags, 21, 64, 0xffffffff81000000, "tbf", false, at)
		case 1: // vanishes
		default:
			n.See(pos, rt.Deliver, flags, 30, at)
		}
	}
	if p.Segs == 1 || n.rng.IntN(2) == 0 {
		end(pos, rt.First)
		return
	}
	n.SetCut(pos, rt.Cut)
	for k := range uint64(p.Segs) {
		end(pos+k, rt.First|rt.Part)
	}
}

func (n *network) open(t *testing.T, path string) (*aggregate.Collector, string) {
	t.Helper()
	c, note, err := aggregate.Open(n, backpack.NewDecoder(dom, nil), epoch, path, backpack.FollowOptions{
		Now: func() uint64 { return n.now },
	})
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	return c, note
}

// view is all that a user can see of aggregates.
type view struct {
	Totals        aggregate.Totals
	Paths         []aggregate.PathRow
	Losses, Local []aggregate.LossRow
	LossFlows     []aggregate.LossFlowRow
	Flows         []aggregate.FlowRow
	Latency       [][]aggregate.LatencyRow
	Throughput    [][]aggregate.ThroughputRow
}

func look(c *aggregate.Collector) view {
	a := c.Aggregates()
	v := view{c.Totals(), a.Paths(letters{}), a.Losses(letters{}), a.LocalDrops(letters{}),
		a.LossesByFlow(letters{}, nil), a.Flows(letters{}, nil), nil, nil}
	for _, by := range []aggregate.By{aggregate.ByNode, aggregate.ByLink, aggregate.ByPath, aggregate.ByEndToEnd} {
		v.Latency = append(v.Latency, a.Latency(by, letters{}))
	}
	for _, by := range []aggregate.By{aggregate.ByNode, aggregate.ByLink, aggregate.ByPort, aggregate.ByPath} {
		v.Throughput = append(v.Throughput, a.Throughput(by, letters{}, 0, 1<<32-1))
	}
	return v
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// One collector runs through; others are started, saved, killed and continued at
// random. Every packet must count once in both.
func TestContinuedEqualsRunningThrough(t *testing.T) {
	for seed := range uint64(5) {
		n := newNetwork(seed)
		path := filepath.Join(t.TempDir(), "aggregates")
		through, _ := n.open(t, "")
		other, note := n.open(t, path)
		if note != "" {
			t.Errorf("no snapshot, but note %q", note)
		}
		for range 150 {
			for range n.rng.IntN(20) {
				n.packet()
			}
			must(t, through.Poll())
			switch n.rng.IntN(5) {
			case 0: // killed: what it counted since the snapshot is counted again
				other, note = n.open(t, path)
			case 1:
				must(t, other.Poll())
				must(t, other.Save())
				other, note = n.open(t, path)
			case 2: // slow
			default:
				must(t, other.Poll())
				must(t, other.Save())
			}
			if note != "" {
				t.Fatalf("snapshot not taken: %s", note)
			}
		}
		n.now += 5000 * ms
		must(t, through.Poll())
		must(t, other.Poll())
		want, got := look(through), look(other)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("seed %d: continued (-running through +continued):\n%s", seed, diff)
		}
		if tot := want.Totals; tot.Packets+tot.Unread != n.sent || tot.Unread != 0 || tot.InFlight != 0 ||
			tot.Lost == 0 || tot.Expired == 0 || tot.Delivered == 0 {
			t.Errorf("seed %d: %d packets sent, totals %+v", seed, n.sent, tot)
		}
	}
}

// A snapshot that cannot be continued: begin anew with what the ring has, and say so.
func TestBadSnapshots(t *testing.T) {
	n := newNetwork(1)
	path := filepath.Join(t.TempDir(), "aggregates")
	for range 100 {
		n.packet()
	}
	n.now += 5000 * ms
	c, _ := n.open(t, path)
	must(t, c.Poll())
	must(t, c.Save())
	want := look(c)
	good, err := os.ReadFile(path)
	must(t, err)

	bad := map[string][]byte{
		"empty":       {},
		"cut short":   good[:len(good)/2],
		"no snapshot": []byte(strings.Repeat("what is this? ", 100)),
		"header only": good[:24],
	}
	for _, at := range []int{0, 8, 12, 16, 24, 30, len(good) / 2, len(good) - 1} {
		b := slices.Clone(good)
		b[at] ^= 0x40
		bad["bit flipped at byte "+string(rune('0'+at%10))] = b
	}
	for name, b := range bad {
		must(t, os.WriteFile(path, b, 0o600))
		c, note := n.open(t, path)
		if !strings.Contains(note, path) {
			t.Errorf("%s: note %q does not name the file", name, note)
		}
		must(t, c.Poll())
		if diff := cmp.Diff(want, look(c)); diff != "" {
			t.Errorf("%s: not counted anew:\n%s", name, diff)
		}
	}
	must(t, os.WriteFile(path, good, 0o600))
	if _, note := n.open(t, path); note != "" {
		t.Errorf("good snapshot refused: %s", note)
	}
	if _, note, err := aggregate.Open(n, backpack.NewDecoder(dom, nil), epoch+1, path, backpack.FollowOptions{}); err != nil || !strings.Contains(note, "another domain") {
		t.Errorf("snapshot of another domain: note %q, error %v", note, err)
	}
	if _, _, err := aggregate.Open(n, backpack.NewDecoder(dom, nil), epoch, t.TempDir(), backpack.FollowOptions{}); err == nil {
		t.Error("a folder was taken for a snapshot")
	}
}

// What has not ended, and what was missed, is in the totals too, and survives.
func TestTotalsOfTheRing(t *testing.T) {
	n := newNetwork(1)
	path := filepath.Join(t.TempDir(), "aggregates")
	c, _ := n.open(t, path)
	for range 5 {
		n.packet()
	}
	must(t, c.Poll())
	if got := c.Totals(); got.InFlight != n.sent || got.Packets != 0 {
		t.Errorf("%+v, want %d in flight", got, n.sent)
	}
	must(t, c.Save())
	c, _ = n.open(t, path)
	for range 40000 {
		n.now += 20 * ms // nothing clogs the ring
		n.packet()
	}
	n.now += 5000 * ms
	must(t, c.Poll())
	got := c.Totals()
	if got.Unread == 0 || got.InFlight != 0 || got.Packets == 0 || got.Packets+got.Unread < n.sent {
		t.Errorf("%+v after %d packets and no poll", got, n.sent)
	}
	must(t, c.Save())
	if c, _ = n.open(t, path); c.Totals() != got {
		t.Errorf("continued: %+v, want %+v", c.Totals(), got)
	}
}

func TestSaveOnlyChanges(t *testing.T) {
	n := newNetwork(1)
	path := filepath.Join(t.TempDir(), "aggregates")
	c, _ := n.open(t, path)
	n.packet()
	n.now += 5000 * ms
	stat := func() os.FileInfo {
		must(t, c.Poll())
		must(t, c.Save())
		fi, err := os.Stat(path)
		must(t, err)
		return fi
	}
	first := stat()
	if second := stat(); !os.SameFile(first, second) {
		t.Error("nothing happened, and the snapshot was written again")
	}
	n.packet()
	n.now += 5000 * ms
	if third := stat(); os.SameFile(first, third) || third.Mode().Perm() != 0o600 {
		t.Errorf("snapshot not replaced, or with mode %v", third.Mode())
	}
	must(t, os.RemoveAll(filepath.Dir(path)))
	n.packet()
	n.now += 5000 * ms
	must(t, c.Poll())
	if err := c.Save(); err == nil {
		t.Error("saved into a folder that is gone")
	}
}

// BenchmarkCollect is the whole cost of one packet, from slot to aggregates.
func BenchmarkCollect(b *testing.B) {
	n := newNetwork(1)
	for range slots {
		n.packet()
	}
	n.now += 5000 * ms
	b.ReportAllocs()
	for done := uint64(0); done < uint64(b.N); {
		c, _, err := aggregate.Open(n, backpack.NewDecoder(dom, nil), epoch, "", backpack.FollowOptions{Now: func() uint64 { return n.now }})
		if err != nil {
			b.Fatal(err)
		}
		if err := c.Poll(); err != nil {
			b.Fatal(err)
		}
		done += c.Totals().Packets
	}
}

// A file is all chunks, for its owner alone, and nothing is left beside it.
func TestReplace(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "aggregates")
	for _, chunks := range [][][]byte{{[]byte("before")}, {[]byte("one, "), nil, []byte("two")}} {
		must(t, aggregate.Replace(path, chunks))
		got, err := os.ReadFile(path)
		must(t, err)
		if want := slices.Concat(chunks...); string(got) != string(want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
	info, err := os.Stat(path)
	must(t, err)
	files, err := os.ReadDir(dir)
	must(t, err)
	if info.Mode() != 0o600 || len(files) != 1 {
		t.Errorf("mode %v, %d files", info.Mode(), len(files))
	}
	if err := aggregate.Replace(filepath.Join(dir, "none", "aggregates"), nil); err == nil {
		t.Error("no error where there is no folder")
	}
}
