// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/system/resident"
	"github.com/vnetradar/radar/pkg/vnet/datapath/program"
	"github.com/vnetradar/radar/pkg/vnet/domain"
	"github.com/vnetradar/radar/pkg/vnet/rules"
	"github.com/vnetradar/radar/pkg/vnet/topo"
)

// TestMain gives all tests a state directory, which those that run side by side share:
// their domains have names of their own.
func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "rdragent")
	if err == nil {
		err = os.Setenv("RADAR_STATE_DIR", dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// notes tells of what a watch logs.
type notes chan string

func (n notes) Enabled(context.Context, slog.Level) bool { return true }
func (n notes) WithAttrs([]slog.Attr) slog.Handler       { return n }
func (n notes) WithGroup(string) slog.Handler            { return n }
func (n notes) Handle(_ context.Context, r slog.Record) error {
	select {
	case n <- r.Message:
	default: // nobody wants to know any more
	}
	return nil
}

// follow attaches nodes and runs a watch until the test ends. It returns the domain, and
// what the watch logs, when all has been seen that was there before.
func follow(t *testing.T, specs []topo.NodeSpec) (string, notes) {
	t.Helper()
	return followWith(t, program.CarryAuto, specs)
}

// followWith is follow of a domain with that --carry.
func followWith(t *testing.T, carry string, specs []topo.NodeSpec) (string, notes) {
	t.Helper()
	o := program.DefaultOptions()
	o.Slots, o.Carry = 1<<12, carry
	name := attach(t, o, specs)
	said := make(notes, 100)
	r, err := rules.NewWatcher()
	if err != nil {
		t.Fatal(err)
	}
	nstest.Cleanup(t, r.Close)
	w, err := newWatch(name, slog.New(said), nil, r)
	if err != nil {
		t.Fatal(err)
	}
	for range 10 { // as run does: what happened before it watched, nobody has told
		if w.again {
			w.refresh(t.Context())
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	done, wakes := make(chan error, 1), new(resident.Pulse)
	go func() { done <- w.run(ctx, wakes) }()
	go func() { _ = wakes.Run(ctx) }()
	nstest.Cleanup(t, func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		w.close()
	})
	time.Sleep(2 * resident.SecondEvery) // what attaching causes has been told
	return name, said
}

// await waits until the description says of some port what is wanted.
func await(t *testing.T, name, what string, want func(p *domain.Port) bool) {
	t.Helper()
	for deadline := time.Now().Add(nstest.Patience); ; time.Sleep(20 * time.Millisecond) {
		d, err := domain.Load(name)
		if err == nil && slices.ContainsFunc(d.Ports, func(p domain.Port) bool { return !p.Removed && want(&p) }) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("in vain waited for: %s (%v)", what, err)
		}
	}
}

// A change that could not be followed when it was told is followed as soon as it can
// be, though nothing else happens: at a bridge packets leave meanwhile.
func TestWatchTriesAgain(t *testing.T) {
	t.Parallel()
	n := nstest.New(t, "sw", "a", "u")
	n.Run("sw", "ip", "link", "add", "br0", "type", "bridge")
	for _, name := range []string{"a", "u"} {
		n.Veth(name, "e0", "sw", "p"+name)
	}
	n.Run("sw", "ip", "link", "set", "pa", "master", "br0")
	specs, err := topo.ParseSpecs([]string{n.Spec("a")})
	if err != nil {
		t.Fatal(err)
	}
	name, said := follow(t, specs)

	file := domain.File(name, domain.Description)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, text[:len(text)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	n.Run("sw", "ip", "link", "set", "pu", "master", "br0")
	for failed := false; !failed; {
		select {
		case text := <-said:
			failed = text == "follow the topology"
		case <-time.After(nstest.Patience):
			t.Fatal("the watch did not notice that the description is damaged")
		}
	}
	time.Sleep(10 * quietTime) // all that the change causes has been told
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	await(t, name, "the new member of the bridge is closed", func(p *domain.Port) bool { return p.Name == "pu" })
}

// TestWatchNumbers: a rule that sets the IP ID on a bridge between nodes makes edges of the ports on it, as soon as the
// kernel tells of it. Others change nothing.
func TestWatchNumbers(t *testing.T) {
	t.Parallel()
	n := nstest.New(t, "sw", "a", "b")
	n.Run("sw", "ip", "link", "add", "br0", "type", "bridge")
	for _, name := range []string{"a", "b"} {
		n.Veth(name, "e0", "sw", "p"+name)
		n.Run("sw", "ip", "link", "set", "p"+name, "master", "br0")
	}
	specs, err := topo.ParseSpecs([]string{n.Spec("a"), n.Spec("b")})
	if err != nil {
		t.Fatal(err)
	}
	name, said := follow(t, specs)
	isRole := func(role domain.Role) func(p *domain.Port) bool {
		return func(p *domain.Port) bool { return p.Name == "e0" && p.Role == role }
	}
	await(t, name, "the bridge is inside", isRole(domain.Internal))
	const chain = "add table bridge t; add chain bridge t c { type filter hook forward priority 0; }; add rule bridge t c "
	n.Run("sw", "nft", chain+"ip ttl set 5")
	for len(said) > 0 {
		<-said
	}
	n.Run("sw", "nft", chain+"ip id set 5")
	await(t, name, "the bridge is outside", isRole(domain.Edge))
	for deadline := time.After(nstest.Patience); ; {
		select {
		case text := <-said:
			if strings.Contains(text, "a rule sets the IP ID") {
				return
			}
		case <-deadline:
			t.Fatal("the log does not say why")
		}
	}
}

// TestWatchHiding: a node that carries the header carries nothing as soon as the kernel tells of a rule that delivers packets
// to the node itself, or that sets the IP ID.
func TestWatchHiding(t *testing.T) {
	t.Parallel()
	for _, rule := range []string{
		"add table ip t; add chain ip t c { type nat hook prerouting priority -100; }; add rule ip t c udp dport 53 dnat to 10.0.1.1",
		"add table ip t; add chain ip t c { type filter hook forward priority 0; }; add rule ip t c ip id set 5",
	} {
		n := nstest.New(t, "a", "b")
		n.Veth("a", "e0", "b", "e0")
		n.Address("a", "e0", "10.0.1.1/24")
		specs, err := topo.ParseSpecs([]string{n.Spec("a"), n.Spec("b")})
		if err != nil {
			t.Fatal(err)
		}
		name, _ := followWith(t, program.CarryHeader, specs)
		n.Run("a", "nft", rule)
		for deadline := time.Now().Add(nstest.Patience); ; time.Sleep(20 * time.Millisecond) {
			d, err := domain.Load(name)
			if err == nil && slices.ContainsFunc(d.Nodes, func(n domain.Node) bool { return n.Name == specs[0].Name && n.Apart != "" }) {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s: the node carries the header still (%v)", rule, err)
			}
		}
	}
}

// A tunnel is inside the domain for as long as its packets are: routes say so, which
// change without anything else.
func TestWatchRoutes(t *testing.T) {
	t.Parallel()
	n := nstest.New(t, "a", "b", "x")
	n.Veth("a", "e0", "b", "e0")
	n.Veth("a", "e1", "x", "e0")
	n.Address("a", "e0", "10.0.1.1/24")
	n.Address("b", "e0", "10.0.1.2/24")
	n.Address("a", "e1", "10.0.2.1/24")
	specs, err := topo.ParseSpecs([]string{n.Spec("a"), n.Spec("b")})
	if err != nil {
		t.Fatal(err)
	}
	name, _ := follow(t, specs)
	role := func(what string, want domain.Role) {
		t.Helper()
		await(t, name, what, func(p *domain.Port) bool { return p.Name == "vx" && p.Role == want })
	}
	for node, remote := range map[string]string{"a": "10.0.1.2", "b": "10.0.1.1"} {
		n.Run(node, "ip", "link", "add", "vx", "type", "vxlan", "id", "7", "dstport", "4789", "remote", remote)
		n.Up(node, "vx")
	}
	role("a tunnel that came", domain.Internal)
	time.Sleep(2 * resident.SecondEvery) // all that this causes has been told
	for _, change := range [][]string{
		{"a", "route", "add", "10.0.1.2/32", "via", "10.0.2.2"},
		{"b", "rule", "add", "to", "10.0.1.1", "table", "7"},
	} {
		start := time.Now()
		n.Run(change[0], append([]string{"ip"}, change[1:]...)...)
		role("the tunnel leads outside", domain.Edge)
		t.Logf("an edge %v after ip %s %s began", time.Since(start), change[1], change[2])
		change[2] = "del"
		n.Run(change[0], append([]string{"ip"}, change[1:]...)...)
		role("the tunnel is inside again", domain.Internal)
	}
}

// Tunnels that are there because a module is loaded are nobody's: routes need no watching.
func TestHasTunnels(t *testing.T) {
	d := &domain.Domain{Ports: []domain.Port{
		{Name: "eth0"}, {Name: "tunl0", Tunnel: true}, {Name: "tun1", Tunnel: true, Removed: true},
	}}
	if hasTunnels(d) {
		t.Error("a fallback counts")
	}
	if d.Ports[2].Removed = false; !hasTunnels(d) {
		t.Error("a tunnel does not count")
	}
}

// A stitched pair is a link for as long as tc redirects in both directions.
func TestWatchStitched(t *testing.T) {
	t.Parallel()
	n := nstest.New(t, "sw", "a", "b")
	for _, name := range []string{"a", "b"} {
		n.Veth(name, "e0", "sw", "p"+name)
		n.Run("sw", "tc", "qdisc", "add", "dev", "p"+name, "ingress")
	}
	filter := func(what, from, to string) {
		args := []string{"tc", "filter", what, "dev", from, "ingress", "prio", "9", "protocol", "all", "u32"}
		if what == "add" {
			args = append(args, "match", "u32", "0", "0", "action", "mirred", "egress", "redirect", "dev", to)
		}
		n.Run("sw", args...)
	}
	filter("add", "pa", "pb")
	filter("add", "pb", "pa")
	specs, err := topo.ParseSpecs([]string{n.Spec("a"), n.Spec("b")})
	if err != nil {
		t.Fatal(err)
	}
	name, _ := follow(t, specs)
	is := func(stitched bool) func(p *domain.Port) bool {
		return func(p *domain.Port) bool { return p.Stitched == stitched && (p.Role == domain.Internal) == stitched }
	}
	await(t, name, "the pair is a link", is(true))
	filter("del", "pb", "")
	await(t, name, "a filter has gone", is(false))
	filter("add", "pb", "pa")
	await(t, name, "it is back", is(true))
}
