// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"errors"
	"strings"
	"testing"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/vnet/datapath/program"
)

// TestCarryAuto: the mark's bits are chosen so that most nodes keep to themselves what
// they use; the one that sets the whole mark carries the header.
func TestCarryAuto(t *testing.T) {
	l := newChain(t, program.HookAuto)
	l.opts.Lease = 0
	for _, node := range chain { // hosts solicit routers by themselves
		l.Run(node, "sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=1")
	}
	l.Run("a", "ip", "rule", "add", "fwmark", "0x01000000/0xff000000", "table", "100")
	l.Run("r", "nft", "add table inet t; add chain inet t c { type filter hook forward priority 0; }; add rule inet t c meta mark set 0xffffffff; add rule inet t c meta mark 0xffffffff counter")
	r := l.attach(chain...)
	if got := r.Domain.Options.MarkMask; got != 0x00fff800 {
		t.Errorf("mark bits %#08x", got)
	}
	if len(r.Conflicts) != 0 {
		t.Errorf("conflicts %v", r.Conflicts)
	}
	for _, n := range r.Domain.Nodes {
		if want := map[string]string{"r": "nft: inet t c: meta mark set 0xffffffff"}[n.Name]; n.Header != want {
			t.Errorf("node %s carries the header: %q, want %q", n.Name, n.Header, want)
		}
	}
	l.wantFlags("a/e0 "+internalPort, "b/e0 "+internalPort, "r/e0 "+internalPort+"|header", "r/e1 "+internalPort+"|header")
	l.ping()
	h := l.open()
	var counts map[string]uint64
	nstest.WaitFor(t, "6 packets marked", func() bool { // ping may not have waited for the last
		counts = named(t, h)
		return counts["marked"] >= 6
	})
	if counts["marked"] != 6 || counts["foreign_mark"]+counts["mark_busy"]+counts["passed"] != 0 {
		t.Errorf("counters %v", counts)
	}
	nstest.WaitFor(t, "rules on the node's own marks that count 6 packets", func() bool {
		return strings.Contains(l.Run("r", "nft", "list", "ruleset"), "counter packets 6 ")
	})
}

// named are the counters that are not 0, by name.
func named(t *testing.T, h *Handle) map[string]uint64 {
	t.Helper()
	counters, err := h.Counters()
	if err != nil {
		t.Fatal(err)
	}
	values := make(map[string]uint64)
	for _, c := range counters {
		if c.Value != 0 {
			values[c.Name] = c.Value
		}
	}
	return values
}

// TestCarryMark: with bits that the user chose, rules that use them are only named.
func TestCarryMark(t *testing.T) {
	l := newChain(t, program.HookAuto)
	l.opts.Carry = "mark=0xfff80000"
	l.Run("a", "ip", "rule", "add", "fwmark", "0x01000000/0xff000000", "table", "100")
	r := l.attach(chain...)
	if len(r.Conflicts) != 1 || r.Conflicts[0].Node != "a" || r.Conflicts[0].Mask != 0xff000000 {
		t.Errorf("conflicts %v", r.Conflicts)
	}
	for _, n := range r.Domain.Nodes {
		if n.Header != "" {
			t.Errorf("node %s carries the header: %s", n.Name, n.Header)
		}
	}
}

// TestCarryHeaderNodes: the user names nodes; what is decided holds when they come back,
// and for ports that come later.
func TestCarryHeaderNodes(t *testing.T) {
	l := newChain(t, program.HookAuto)
	req := l.request(chain...)
	req.CarryHeader = []string{"nobody"}
	if _, err := Attach(t.Context(), req); !errors.Is(err, fault.Usage) || !strings.Contains(err.Error(), "nobody") {
		t.Fatalf("a name that no node has: %v", err)
	}
	req.CarryHeader = []string{"r"}
	if _, err := Attach(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	header := []string{"a/e0 " + internalPort, "b/e0 " + internalPort, "r/e0 " + internalPort + "|header", "r/e1 " + internalPort + "|header"}
	l.wantFlags(header...)
	l.ping()

	l.detach("r")
	l.ping()
	l.attach("r")
	l.wantFlags(header...)
	l.Veth("r", "e2", "r", "e3")
	l.refresh()
	l.wantFlags(append(header, "r/e2 "+internalPort+"|header", "r/e3 "+internalPort+"|header")...)
	l.ping()

	// One more, while it is attached.
	_, err := Attach(t.Context(), AttachRequest{Domain: l.domain, CarryHeader: []string{"b"}})
	if err != nil {
		t.Fatal(err)
	}
	header[1] += "|header|late" // packets may just be in it
	l.wantFlags(append(header, "r/e2 "+internalPort+"|header", "r/e3 "+internalPort+"|header")...)
	l.ping()
}

// TestCarryPaper: the paper's layout has one way for all nodes.
func TestCarryPaper(t *testing.T) {
	l := newChain(t, program.HookAuto)
	l.opts.GUIDBits = "paper"
	l.Run("r", "ip", "rule", "add", "fwmark", "7", "table", "100")
	req := l.request(chain...)
	req.CarryHeader = []string{"r"}
	if _, err := Attach(t.Context(), req); !errors.Is(err, fault.Usage) {
		t.Fatalf("a single node: %v", err)
	}
	r := l.attach(chain...)
	if len(r.Conflicts) != 1 || r.Domain.Nodes[1].Header != "" {
		t.Errorf("conflicts %v, nodes %v", r.Conflicts, r.Domain.Nodes)
	}
}

// TestCarryHeaderEncapsulates: a node that puts packets into others without a device
// cannot carry the header, since no program could restore what goes inside.
func TestCarryHeaderEncapsulates(t *testing.T) {
	need.Nightly(t) // lab/test/transparency has tunnels under --carry header
	for name, command := range map[string][]string{
		"an IPsec policy": {"ip", "xfrm", "policy", "add", "src", "10.0.1.0/24", "dst", "10.9.0.0/24", "dir", "out",
			"tmpl", "src", "10.0.2.1", "dst", "10.0.2.2", "proto", "esp", "mode", "tunnel"},
		"a route with an encapsulation": {"ip", "-6", "route", "add", "2001:db8:9::/64", "encap", "seg6", "mode", "encap",
			"segs", "2001:db8:8::1", "dev", "e1"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newChain(t, program.HookAuto)
			l.Run("r", command...)
			req := l.request(chain...)
			req.CarryHeader = []string{"r"}
			_, err := Attach(t.Context(), req)
			if !errors.Is(err, fault.Usage) || !strings.Contains(err.Error(), "r carries the GUID in the header (‹carry-header›) and has "+name) {
				t.Fatalf("attached: %v", err)
			}
			req.CarryHeader = []string{"a"}
			if _, err := Attach(t.Context(), req); err != nil {
				t.Fatal(err)
			}
		})
	}
}
