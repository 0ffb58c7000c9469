// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/system/resident"
	"github.com/vnetradar/radar/pkg/vnet/datapath"
	"github.com/vnetradar/radar/pkg/vnet/datapath/program"
	"github.com/vnetradar/radar/pkg/vnet/domain"
	"github.com/vnetradar/radar/pkg/vnet/topo"
)

// TestMarksLater: rules that come after attach and use bits of the mark are noticed, whoever
// makes them; then of 200 echoes through their node all come back.
func TestMarksLater(t *testing.T) {
	t.Parallel()
	n := nstest.New(t, "a", "r", "b")
	n.Chain()
	n.Run("r", "sysctl", "-qw", "net.ipv4.ip_forward=1")
	n.Run("r", "nft", "add table ip t; add chain ip t c { type filter hook forward priority 0; }")
	var args []string
	for _, name := range []string{"a", "r", "b"} {
		args = append(args, n.Spec(name))
	}
	specs, err := topo.ParseSpecs(args)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		make []string
		undo []string
		why  string
	}{
		{[]string{"nft", "add rule ip t c meta mark and 0x8000 == 0x8000 drop"}, []string{"nft", "flush chain ip t c"}, "nft: ip t c: meta mark & 0x00008000 == 0x00008000 drop"},
		{[]string{"ip", "rule", "add", "fwmark", "0x8000/0x8000", "blackhole"}, []string{"ip", "rule", "del", "fwmark", "0x8000/0x8000", "blackhole"}, "ip rule: "},
		{[]string{"ip", "xfrm", "policy", "add", "src", "10.0.0.0/8", "dst", "10.0.0.0/8", "dir", "fwd", "action", "block", "mark", "0x8000", "mask", "0x8000"},
			[]string{"ip", "xfrm", "policy", "flush"}, "xfrm policy: mark 0x8000/0x8000"},
		{[]string{"iptables-legacy", "-A", "FORWARD", "-m", "mark", "--mark", "0x8000/0x8000", "-j", "DROP"}, []string{"iptables-legacy", "-F"},
			"iptables: -t filter -A FORWARD -m mark"},
	} {
		name, end := followMarks(t, specs)
		n.Run("r", c.make...)
		awaitNode(t, name, "r", func(n *domain.Node) bool { return n.Header != "" })
		if out := n.Run("a", "ping", "-q", "-c", "200", "-i", "0.002", "-W", "60", "10.0.2.1"); !strings.Contains(out, " 200 received") {
			t.Errorf("%v: of 200 echoes:\n%s", c.make, out)
		}
		d, err := domain.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, node := range d.Nodes {
			if node.Name == "r" && !strings.HasPrefix(node.Header, c.why) || (node.Header != "") != (node.Name == "r") {
				t.Errorf("%v: node %s carries the header: %q, want %q", c.make, node.Name, node.Header, c.why)
			}
		}
		end()
		n.Run("r", c.undo...)
	}
}

// A rule that comes while no agent lives is found by the next one before it renews the lease.
func TestMarksFoundAtStart(t *testing.T) {
	t.Parallel()
	n := nstest.New(t, "a", "b")
	n.Veth("a", "e0", "b", "e0")
	specs, err := topo.ParseSpecs([]string{n.Spec("a"), n.Spec("b")})
	if err != nil {
		t.Fatal(err)
	}
	name := attachForMarks(t, specs)
	n.Run("a", "ip", "rule", "add", "fwmark", "0x8000/0x8000", "blackhole")
	m, err := newMarks(name, slog.New(make(notes)), nil)
	if err != nil {
		t.Fatal(err)
	}
	m.close()
	awaitNode(t, name, "a", func(n *domain.Node) bool { return n.Header != "" && n.Late })
}

// With bits that the user chose, a later rule is told of and changes nothing.
func TestMarksChosenByUser(t *testing.T) {
	t.Parallel()
	n := nstest.New(t, "a", "b")
	n.Veth("a", "e0", "b", "e0")
	specs, err := topo.ParseSpecs([]string{n.Spec("a"), n.Spec("b")})
	if err != nil {
		t.Fatal(err)
	}
	name := attachForMarks(t, specs, "mark=0xfffff800")
	n.Run("a", "ip", "rule", "add", "fwmark", "0x8000/0x8000", "blackhole")
	said := make(notes, 10)
	m, err := newMarks(name, slog.New(said), nil)
	if err != nil {
		t.Fatal(err)
	}
	m.close()
	if len(said) != 1 || !strings.Contains(<-said, "node a has a rule that uses bits of the mark") {
		t.Errorf("said %d things", len(said))
	}
	awaitNode(t, name, "a", func(n *domain.Node) bool { return n.Header == "" && !n.Late })
}

func attachForMarks(t *testing.T, specs []topo.NodeSpec, carry ...string) string {
	t.Helper()
	o := program.DefaultOptions()
	o.Slots = 1 << 16 // indices begin at bit 0x8000 of the mark
	for _, c := range carry {
		o.Carry = c
	}
	name := attach(t, o, specs)
	return name
}

// followMarks attaches nodes and follows the users of their marks until end is called.
func followMarks(t *testing.T, specs []topo.NodeSpec) (name string, end func()) {
	t.Helper()
	name = attachForMarks(t, specs)
	m, err := newMarks(name, slog.New(make(notes)), nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done, wakes := make(chan error, 1), new(resident.Pulse)
	go func() { done <- m.run(ctx, wakes) }()
	go func() { _ = wakes.Run(ctx) }()
	return name, func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		m.close()
		if _, err := datapath.Detach(context.Background(), datapath.DetachRequest{Domain: name, NoDrain: true}); err != nil {
			t.Error(err)
		}
	}
}

// awaitNode waits until the description says of a node what is wanted.
func awaitNode(t *testing.T, name, node string, want func(*domain.Node) bool) {
	t.Helper()
	nstest.WaitFor(t, "what node "+node+" carries", func() bool {
		d, err := domain.Load(name)
		return err == nil && slices.ContainsFunc(d.Nodes, func(n domain.Node) bool { return n.Name == node && want(&n) })
	})
}
