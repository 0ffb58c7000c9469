// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/host/kernel"
	"github.com/vnetradar/radar/pkg/vnet/datapath/program"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// netfilterLinks counts the links of the domain's program at LOCAL_IN.
func (l *lab) netfilterLinks() int {
	l.t.Helper()
	ours := domain.Kind.Maps(l.domain)
	isOurs := func(id ebpf.ProgramID) bool {
		prog, err := ebpf.NewProgramFromID(id)
		if err != nil {
			return false // another test's, which is gone
		}
		defer prog.Close()
		info, err := prog.Info()
		if err != nil {
			l.t.Fatal(err)
		}
		used, _ := info.MapIDs()
		return slices.ContainsFunc(used, func(id ebpf.MapID) bool { return slices.Contains(ours, id) })
	}
	n := 0
	it := new(link.Iterator)
	defer it.Close()
	for it.Next() {
		info, err := it.Link.Info()
		if err != nil || info.Netfilter() == nil {
			continue
		}
		if isOurs(info.Program) {
			n++
		}
	}
	return n
}

// takesLocalIn says whether the kernel has netfilter programs, as it must from Linux 6.4 on.
func takesLocalIn(t *testing.T) bool {
	t.Helper()
	need.AsRoot(t)
	f := program.Probe()
	if !f.LocalIn && !kernel.Older(f.Kernel, 6, 4) {
		t.Fatalf("kernel %s should have netfilter programs", f.Kernel)
	}
	return f.LocalIn
}

// TestLocalIn: the program stands in nodes with rules that redirect, for as long as
// somebody follows the domain, and keeps no namespace alive.
func TestLocalIn(t *testing.T) {
	if !takesLocalIn(t) {
		return
	}
	l := newChain(t, program.HookAuto)
	rules := []string{"nft", redirecting}
	l.attach(chain...)
	h := l.open()
	refresh := func(want int, when string) {
		t.Helper()
		c, err := h.Refresh(t.Context())
		if err != nil || len(c.Warnings) > 0 {
			t.Fatalf("%s: %v, %v", when, err, c)
		}
		// The kernel frees a link, and then its program, some time after its last user has let it go.
		nstest.WaitFor(t, fmt.Sprintf("%s: %d links", when, want), func() bool { return l.netfilterLinks() == want })
		nstest.WaitFor(t, fmt.Sprintf("%s: the program to be loaded %d times", when, min(want, 1)), func() bool {
			return l.loaded()["radar_local_in"] == min(want, 1)
		})
	}
	refresh(0, "no node redirects")
	l.Run("r", rules...)
	if got := l.netfilterLinks(); got != 0 {
		t.Errorf("%d links that nobody holds", got)
	}
	refresh(2, "one node redirects")
	refresh(2, "nothing changed")
	l.ping()
	l.Run("b", rules...)
	refresh(4, "rules that came later")
	l.Run("b", "nft", "flush", "ruleset")
	refresh(2, "and went")

	l.detach("r")
	if err := h.Reload(); err != nil {
		t.Fatal(err)
	}
	h.ReleaseGone()
	if got := l.netfilterLinks(); got != 0 {
		t.Errorf("%d links in a node that was detached", got)
	}
	refresh(0, "it was detached")
	l.attach("r")
	refresh(2, "it is back")

	l.Delete("r")
	if got := l.netfilterLinks(); got != 2 {
		t.Errorf("%d links in a namespace that has just gone, want 2", got)
	}
	h.ReleaseGone()
	if got := l.netfilterLinks(); got != 0 {
		t.Errorf("%d links in a namespace that is gone", got)
	}
	for end := time.Now().Add(patience); strings.Contains(l.Run("a", "ip", "-o", "link"), "e0@"); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the namespace of a node that is gone lives on")
		}
	}
}

const redirecting = "add table ip t; add chain ip t c { type nat hook prerouting priority -100; }"

// Where nothing is known by its mark the program would do nothing.
func TestLocalInHeader(t *testing.T) {
	if !takesLocalIn(t) {
		return
	}
	l := newChain(t, program.HookAuto)
	l.opts.Carry = program.CarryHeader
	l.Run("r", "nft", redirecting)
	l.attach(chain...)
	h := l.open()
	if _, err := h.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := l.netfilterLinks(); got != 0 {
		t.Errorf("%d links in nodes that carry the header", got)
	}
}

// TestApartWhereRedirected: a node that carries the header shows rewritten headers to its sockets where
// it delivers packets for others to itself, and does not know packets as they leave whose number is set, or whose
// addresses and content are changed. It carries nothing then, also if the reason comes later.
func TestApartWhereRedirected(t *testing.T) {
	sideBySide(t)
	for _, c := range []struct {
		name  string
		what  []string
		apart bool
	}{
		{"a rule that redirects", []string{"nft", redirecting + "; add rule ip t c udp dport 53 redirect to :7;"}, true},
		{"a route to many addresses", []string{"ip", "route", "add", "local", "10.50.0.0/16", "dev", "lo"}, true},
		{"a rule that translates to the node itself", []string{"nft", redirecting + "; add rule ip t c udp dport 53 dnat to 10.0.1.2;"}, true},
		{"legacy rules that do", []string{"iptables-legacy", "-t", "nat", "-A", "PREROUTING", "-p", "udp", "-j", "DNAT", "--to", "10.0.1.2:7"}, true},
		{"a rule that sets the IP ID", []string{"nft", "add table inet t; add chain inet t c { type filter hook forward priority 0; }; add rule inet t c udp dport 53 ip id set 5"}, true},
		{"rules that change content and addresses", []string{"nft", redirecting + "; add rule ip t c udp dport 53 dnat to 10.0.2.1; add chain ip t f { type filter hook forward priority 0; }; add rule ip t f tcp dport 53 reset tcp option timestamp"}, true},
		{"a rule that changes content", []string{"nft", "add table inet t; add chain inet t c { type filter hook forward priority 0; }; add rule inet t c tcp dport 53 reset tcp option timestamp"}, false},
		{"rules that translate to others", []string{"nft", redirecting + "; add rule ip t c udp dport 53 dnat to 10.0.2.1;"}, false},
	} {
		for _, later := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/later %v", c.name, later), func(t *testing.T) {
				l := newChain(t, program.HookAuto)
				l.opts.Carry = program.CarryHeader
				if !later {
					l.Run("r", c.what...)
				}
				l.attach(chain...)
				if later {
					l.Run("r", c.what...)
					if got := l.refresh().Warnings; (len(got) > 0) != c.apart {
						t.Errorf("it says %q", got)
					}
				}
				for _, line := range l.flags() {
					if strings.Contains(line, "apart") != (c.apart && strings.HasPrefix(line, "r/")) {
						t.Errorf("flags %s", line)
					}
				}
				l.ping()
				if got := l.refresh().Warnings; len(got) > 0 {
					t.Errorf("it is said again: %q", got)
				}
			})
		}
	}
}

// What holds the hook for now, such as an agent that is about to end, is told once and
// waited for.
func TestLocalInBusy(t *testing.T) {
	if !takesLocalIn(t) {
		return
	}
	l := newChain(t, program.HookAuto)
	l.Run("r", "nft", redirecting)
	l.attach(chain...)
	first, h := l.open(), l.open()
	if failed := first.FollowRedirects(); len(failed) != 0 || l.netfilterLinks() != 2 {
		t.Fatalf("%q, %d links", failed, l.netfilterLinks())
	}
	for _, want := range []int{1, 0, 0} {
		if failed := h.FollowRedirects(); len(failed) != want {
			t.Errorf("while another handle has the hook: %q, want %d", failed, want)
		}
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(patience); l.netfilterLinks() != 2; time.Sleep(10 * time.Millisecond) {
		if failed := h.FollowRedirects(); time.Now().After(end) {
			t.Fatalf("the hook is free: %q, %d links", failed, l.netfilterLinks())
		}
	}
}
