// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/vnetradar/radar/pkg/datapath"
	"github.com/vnetradar/radar/pkg/domain"
	"github.com/vnetradar/radar/pkg/topo"
	"github.com/vnetradar/radar/pkg/topo/nstest"
)

// follow attaches nodes and runs a watch until the test ends. It returns the domain when
// all has been seen that was there before.
func follow(t *testing.T, specs []topo.NodeSpec) string {
	t.Helper()
	name := nstest.Unique()
	o := datapath.DefaultOptions()
	o.Slots = 1 << 12
	nstest.Cleanup(t, func() {
		_, err := datapath.Detach(context.Background(), datapath.DetachRequest{Domain: name, NoDrain: true})
		if err != nil && !errors.Is(err, domain.ErrNotAttached) {
			t.Errorf("detach at the end of the test: %v", err)
		}
	})
	if _, err := datapath.Attach(t.Context(), datapath.AttachRequest{Domain: name, Nodes: specs, Options: &o}); err != nil {
		t.Fatal(err)
	}
	w, err := newWatch(name, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.run(ctx) }()
	nstest.Cleanup(t, func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		w.close()
	})
	time.Sleep(2 * saveEvery)
	return name
}

// await waits until the description says of some port what is wanted.
func await(t *testing.T, name, what string, want func(p *domain.Port) bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
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
	t.Setenv("RADAR_STATE_DIR", t.TempDir())
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
	name := follow(t, specs)

	file := domain.File(name, "domain.json")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, text[:len(text)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	n.Run("sw", "ip", "link", "set", "pu", "master", "br0")
	time.Sleep(10 * quietTime) // all that this causes has been told
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	await(t, name, "the new member of the bridge is closed", func(p *domain.Port) bool { return p.Name == "pu" })
}

// A tunnel is inside the domain for as long as its packets are: routes say so, which
// change without anything else.
func TestWatchRoutes(t *testing.T) {
	t.Setenv("RADAR_STATE_DIR", t.TempDir())
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
	name := follow(t, specs)
	role := func(what string, want domain.Role) {
		t.Helper()
		await(t, name, what, func(p *domain.Port) bool { return p.Name == "vx" && p.Role == want })
	}
	for node, remote := range map[string]string{"a": "10.0.1.2", "b": "10.0.1.1"} {
		n.Run(node, "ip", "link", "add", "vx", "type", "vxlan", "id", "7", "dstport", "4789", "remote", remote)
		n.Up(node, "vx")
	}
	role("a tunnel that came", domain.Internal)
	time.Sleep(2 * saveEvery) // all that this causes has been told
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
