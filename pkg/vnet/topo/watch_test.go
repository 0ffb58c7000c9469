// SPDX-License-Identifier: Apache-2.0

package topo

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/vnetradar/radar/lab/test/nstest"
)

// patience is how long something that must happen may take.
const patience = nstest.Patience

func newWatcher(t *testing.T, quiet time.Duration, nodes []NodeSpec) *Watcher {
	t.Helper()
	w, err := NewWatcher(quiet)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	if err := w.Set(nodes); err != nil {
		t.Fatal(err)
	}
	return w
}

func wantEvent(t *testing.T, w *Watcher, what string) {
	t.Helper()
	select {
	case <-w.C():
	case <-time.After(patience):
		t.Fatalf("no event after: %s", what)
	}
}

// never is a quiet time that does not end within any test's patience: what comes has not
// waited for it.
const never = time.Hour

// wantNoEvent demands that a change causes no event. It makes the change again, by the
// number of the try, where an event comes: a busy machine may be late with an event of an
// earlier change, but one that this change causes comes every time.
func wantNoEvent(t *testing.T, w *Watcher, what string, change func(try int)) {
	t.Helper()
	for try := range 5 {
		change(try)
		select {
		case <-w.C():
		case <-time.After(200 * time.Millisecond):
			return
		}
		t.Logf("an event after: %s (try %d)", what, try)
		settle(t, w)
	}
	t.Errorf("event after: %s", what)
}

// settle takes the events of changes that follow an earlier one by themselves, such as
// the end of the search for duplicates of an IPv6 address.
func settle(t *testing.T, w *Watcher) {
	t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		select {
		case <-w.C():
		case <-time.After(500 * time.Millisecond):
			return
		}
	}
	t.Fatalf("events go on for %v after the last change", patience)
}

func TestWatcher(t *testing.T) {
	t.Parallel()
	n := nstest.New(t, "a", "b", "c")
	w := newWatcher(t, 20*time.Millisecond, specs(t, n, "a", "b"))
	wantNoEvent(t, w, "nothing", func(int) {})

	n.Veth("c", "e0", "c", "e1")
	wantNoEvent(t, w, "a link in a namespace that is not watched", func(try int) {
		n.Veth("c", fmt.Sprint("x", try), "c", fmt.Sprint("y", try))
	})

	n.Veth("a", "e0", "c", "e2")
	wantEvent(t, w, "a new link")
	settle(t, w)
	n.Address("a", "e0", "10.0.0.1/24")
	wantEvent(t, w, "a new address")
	settle(t, w)
	n.Run("a", "tc", "qdisc", "add", "dev", "e0", "root", "tbf", "rate", "1mbit", "burst", "10kb", "limit", "10kb")
	wantEvent(t, w, "a new queue")
	settle(t, w)
	n.Address("a", "e0", "2001:db8::1/64")
	wantEvent(t, w, "a new IPv6 address")
	settle(t, w)
	n.Run("a", "sysctl", "-qw", "net.ipv6.conf.all.forwarding=1")
	wantEvent(t, w, "a node that begins to forward, which gives it anycast addresses")
	settle(t, w)
	n.Run("c", "ip", "link", "del", "e2") // the other end is in a
	wantEvent(t, w, "a link that went away")
	settle(t, w)

	wantNoEvent(t, w, "Set", func(int) {
		if err := w.Set(specs(t, n, "c")); err != nil {
			t.Fatal(err)
		}
	})
	n.Address("c", "e0", "10.0.0.2/24")
	wantEvent(t, w, "an address in a namespace added later")
}

// While changes go on an event comes all the same.
func TestWatcherNoise(t *testing.T) {
	t.Parallel()
	n := nstest.New(t, "a")
	n.Veth("a", "e0", "a", "e1")
	w := newWatcher(t, 100*time.Millisecond, specs(t, n, "a"))
	h := n.Handle("a")
	l, err := h.LinkByName("e0")
	if err != nil {
		t.Fatal(err)
	}
	addr, err := netlink.ParseAddr("10.0.0.1/24")
	if err != nil {
		t.Fatal(err)
	}
	stop := time.After(patience)
	for i := 0; ; i++ {
		// Much more often than the quiet that the watcher waits for.
		change := [2]func(netlink.Link, *netlink.Addr) error{h.AddrAdd, h.AddrDel}[i%2]
		if err := change(l, addr); err != nil {
			t.Fatal(err)
		}
		select {
		case <-w.C():
			return
		case <-stop:
			t.Fatal("no event while changes go on")
		default:
		}
	}
}

// A watcher must not keep a namespace alive: the links of a node that was removed
// would go on existing at their other ends.
func TestWatcherLetsNamespacesGo(t *testing.T) {
	t.Parallel()
	n := nstest.New(t, "a", "b")
	n.Veth("a", "e0", "b", "e0")
	w := newWatcher(t, 20*time.Millisecond, specs(t, n, "a"))
	n.Delete("a")
	nstest.WaitFor(t, "the end of a namespace that is watched", func() bool {
		_, err := n.Try("b", "ip", "link", "show", "e0")
		return err != nil
	})
	wantEvent(t, w, "the end of a namespace")
}

// A port that joins or leaves a bridge is told at once, however long the quiet time.
func TestWatcherBridge(t *testing.T) {
	t.Parallel()
	n := nstest.New(t, "sw", "a")
	n.Run("sw", "ip", "link", "add", "br0", "type", "bridge")
	n.Veth("a", "e0", "sw", "pa")
	w := newWatcher(t, never, specs(t, n, "sw"))
	for _, change := range [][]string{{"master", "br0"}, {"nomaster"}} {
		time.Sleep(2 * urgentGap)
		start := time.Now()
		n.Run("sw", append([]string{"ip", "link", "set", "pa"}, change...)...)
		wantEvent(t, w, "ip link set "+change[0])
		t.Logf("%v after ip link set %s began", time.Since(start), change[0])
	}
	settle(t, w)
	wantNoEvent(t, w, "a change that can wait", func(try int) {
		n.Run("sw", "ip", "link", "set", "pa", "mtu", fmt.Sprint(1400+try))
	})
}

// Interfaces that come, go, or are set up or down are told of at once.
func TestWatcherLinks(t *testing.T) {
	t.Parallel()
	n := nstest.New(t, "a")
	w := newWatcher(t, never, specs(t, n, "a"))
	for _, change := range []string{
		"add d0 type veth peer name d1", "set d0 up", "set d0 down", "del d0",
	} {
		n.Run("a", append([]string{"ip", "link"}, strings.Fields(change)...)...)
		wantEvent(t, w, "ip link "+change)
		settle(t, w)
	}
}

// Those that anybody can cause without end wait when they are many.
func TestBudget(t *testing.T) {
	start := time.Now()
	var b budget
	for try := range 3 {
		second := start.Add(time.Duration(try) * 2 * time.Second)
		got := 0
		for k := range 10 * urgentLinks {
			if b.take(second.Add(time.Duration(k) * time.Millisecond)) {
				got++
			}
		}
		if got != urgentLinks {
			t.Errorf("second %d: %d urgent ones, want %d", try, got, urgentLinks)
		}
	}
}

// Changes of routes are told where that is asked for: the first at once, those that
// follow it when all is quiet.
func TestWatcherRoutes(t *testing.T) {
	t.Parallel()
	n := nstest.New(t, "a")
	n.Veth("a", "e0", "a", "e1")
	n.Address("a", "e0", "10.0.0.1/24")
	n.Address("a", "e0", "2001:db8::1/64")
	n.Run("a", "ip", "nexthop", "add", "id", "1", "via", "10.0.0.2", "dev", "e0")
	w := newWatcher(t, 20*time.Millisecond, specs(t, n, "a"))
	settle(t, w)
	route := func(try int) { n.Run("a", "ip", "route", "add", fmt.Sprintf("10.1.%d.0/24", try), "nhid", "1") }
	wantNoEvent(t, w, "a route that nobody asked for", route)

	follow := func(on, changed bool) {
		t.Helper()
		if got, err := w.FollowRoutes(on); err != nil || got != changed {
			t.Fatalf("FollowRoutes(%v): %v, %v", on, got, err)
		}
	}
	follow(true, true)
	follow(true, false)
	for _, change := range []string{
		"route add 10.2.0.0/24 via 10.0.0.3", "route del 10.2.0.0/24", "rule add from 10.2.0.0/24 table 7",
		"-6 route add 2001:db8:1::/64 via 2001:db8::2", "-6 rule add from 2001:db8:1:: table 7",
		"nexthop replace id 1 via 10.0.0.4 dev e0",
	} {
		n.Run("a", append([]string{"ip"}, strings.Fields(change)...)...)
		wantEvent(t, w, "ip "+change)
		settle(t, w)
	}
	follow(false, true)
	wantNoEvent(t, w, "a route that nobody asks for any more", func(try int) { route(100 + try) })

	slow := newWatcher(t, never, specs(t, n, "a"))
	if _, err := slow.FollowRoutes(true); err != nil {
		t.Fatal(err)
	}
	// The next one is an event of its own if a busy machine makes or tells it late.
	wantNoEvent(t, slow, "the next change of routes", func(int) {
		time.Sleep(2 * routeGap)
		n.Run("a", "ip", "route", "replace", "10.2.0.0/24", "via", "10.0.0.4")
		wantEvent(t, slow, "the first change of routes")
		n.Run("a", "ip", "route", "replace", "10.2.0.0/24", "via", "10.0.0.5")
	})
}
