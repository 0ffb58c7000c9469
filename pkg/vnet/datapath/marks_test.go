// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/bpfobj"
	"github.com/vnetradar/radar/pkg/vnet/datapath/program"
	"github.com/vnetradar/radar/pkg/vnet/rules"
)

// echoes fails the test unless of 200 echoes from a to b all come back.
func (l *lab) echoes() {
	l.t.Helper()
	if out := l.Run("a", "ping", "-q", "-c", "200", "-i", "0.002", "-W", "60", "10.0.2.1"); !strings.Contains(out, " 200 received") {
		l.t.Errorf("of 200 echoes:\n%s", out)
	}
}

// TestMarkUsersKeepPackets: nodes that use a bit which radar would take first, each in
// another way, lose no packet of those that have it set.
func TestMarkUsersKeepPackets(t *testing.T) {
	sideBySide(t)
	const bit = "0x8000"
	for name, user := range map[string][][]string{
		"an xfrm policy": {{"ip", "xfrm", "policy", "add", "src", "10.0.0.0/8", "dst", "10.0.0.0/8", "dir", "fwd",
			"action", "block", "mark", bit, "mask", bit}},
		"CT --zone mark": {
			{"iptables-nft", "-t", "raw", "-A", "PREROUTING", "-j", "CT", "--zone", "mark"},
			{"iptables-nft", "-t", "nat", "-A", "POSTROUTING", "-o", "e1", "-j", "MASQUERADE"},
		},
		"ip rule": {{"ip", "rule", "add", "fwmark", bit + "/" + bit, "blackhole"}},
	} {
		t.Run(name, func(t *testing.T) {
			if name != "CT --zone mark" {
				need.Nightly(t) // pkg/vnet/rules finds all of them
			}
			l := newChain(t, program.HookAuto)
			l.opts.Slots = 1 << 16 // indices begin at that bit
			for _, command := range user {
				l.Run("r", command...)
			}
			r := l.attach(chain...)
			if r.Domain.Nodes[1].Header == "" {
				t.Error("r carries the mark")
			}
			l.echoes()
		})
	}
	t.Run("ebtables in a switch", func(t *testing.T) {
		l := newLab(t, program.HookAuto, "a", "sw", "b")
		l.opts.Slots = 1 << 16
		l.Run("sw", "ip", "link", "add", "br0", "type", "bridge")
		l.Run("sw", "ip", "link", "set", "br0", "up")
		for _, name := range []string{"a", "b"} {
			l.Veth(name, "e0", "sw", "p"+name)
			l.Run("sw", "ip", "link", "set", "p"+name, "master", "br0")
		}
		l.Address("a", "e0", "10.0.2.2/24")
		l.Address("b", "e0", "10.0.2.1/24")
		l.Run("sw", "ebtables-nft", "-A", "FORWARD", "--mark", bit+"/"+bit, "-j", "DROP")
		l.attach("a", "sw", "b")
		l.echoes()
	})
}

// TestGiveMarksUp: a node whose rules come later stops using the mark, first as one that
// carries nothing, then as one that carries the header, or nothing where that cannot be.
func TestGiveMarksUp(t *testing.T) {
	sideBySide(t)
	for _, c := range []struct {
		name, flag string
		node       []string
	}{
		{"header", "|header|late", nil},
		{"apart", "|late|apart", []string{"ip", "xfrm", "policy", "add", "src", "10.7.0.0/16", "dst", "10.9.0.0/16", "dir", "out",
			"tmpl", "src", "10.0.2.1", "dst", "10.0.2.2", "proto", "esp", "mode", "tunnel"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newChain(t, program.HookAuto)
			if c.node != nil { // no packet may show wire bits to what encapsulates it
				l.Run("r", c.node...)
				l.Run("r", "nft", "add table ip true; add chain ip true c { type filter hook forward priority -1; }; add rule ip true c ip ttl != 63 drop")
			}
			l.attach(chain...)
			h := l.open()
			if !h.CanGiveMarksUp() {
				t.Fatal("nodes do not give the mark up")
			}
			l.Run("r", "nft", "add table inet t; add chain inet t c { type filter hook forward priority 0; }; add rule inet t c meta mark and 0xf0000000 != 0 drop; add rule inet t c meta mark and 0x0fff8000 != 0 drop")
			uses := []rules.Conflict{{Node: "r", What: "nft", Text: "handle 2", Mask: rules.AllMarks}}
			if err := h.StopMarks(uses); err != nil {
				t.Fatal(err)
			}
			want := func(flag string) {
				t.Helper()
				l.wantFlags("a/e0 "+internalPort, "b/e0 "+internalPort, "r/e0 "+internalPort+flag, "r/e1 "+internalPort+flag)
				l.echoes()
			}
			want("|late|apart")
			// Also after somebody wrote the ports anew by a description that says nothing of it.
			l.Veth("r", "d0", "r", "d1")
			l.refresh()
			l.wantFlags("a/e0 "+internalPort, "b/e0 "+internalPort, "r/d0 "+internalPort+"|late|apart",
				"r/d1 "+internalPort+"|late|apart", "r/e0 "+internalPort+"|late|apart", "r/e1 "+internalPort+"|late|apart")
			l.Run("r", "ip", "link", "del", "d0")
			l.refresh()
			if counters := named(t, h); counters["marked"] < 4*200 { // by a, r, b, r
				t.Errorf("%d packets are marked, not each by its sender and anew by r: %v", counters["marked"], counters)
			}
			given, err := h.SettleMarks(t.Context(), uses)
			if err != nil {
				t.Fatal(err)
			}
			if len(given) != 1 || given[0].Node != "r" || !strings.HasPrefix(given[0].Why, "nft: inet t c: meta mark ") || (given[0].Apart != "") != (c.node != nil) {
				t.Errorf("given up: %+v", given)
			}
			l.refresh()
			want(c.flag)
			if given, err = h.SettleMarks(t.Context(), uses); len(given) != 0 || err != nil {
				t.Errorf("once more: %v, %v", given, err)
			}
			l.Veth("r", "e2", "r", "e3") // later ports do the same
			l.refresh()
			l.wantFlags("a/e0 "+internalPort, "b/e0 "+internalPort, "r/e0 "+internalPort+c.flag, "r/e1 "+internalPort+c.flag,
				"r/e2 "+internalPort+c.flag, "r/e3 "+internalPort+c.flag)
			l.echoes()
		})
	}
}

var mark = []rules.Conflict{{Node: "r", What: "nft", Mask: rules.AllMarks}}

// TestStopMarksKeepsRoles: what another process writes at the same time stays.
func TestStopMarksKeepsRoles(t *testing.T) {
	l := newChain(t, program.HookAuto)
	r := l.attach(chain...)
	other, h := l.open(), l.open()
	unlock, err := other.lockPorts()
	if err != nil {
		t.Fatal(err)
	}
	stopped := make(chan error, 1)
	go func() { stopped <- h.StopMarks(mark) }()
	nstest.WaitFor(t, "who waits for the lock", func() bool {
		locks, err := os.ReadFile("/proc/locks")
		if err != nil {
			t.Fatal(err)
		}
		return strings.Contains(string(locks), fmt.Sprintf("-> FLOCK  ADVISORY  WRITE %d ", os.Getpid()))
	})
	var entry bpfobj.TcRdrPort
	id := l.port(r.Domain, "r", "e0").ID
	if err := other.maps[bpfobj.TcMapPorts].Lookup(uint32(id), &entry); err != nil {
		t.Fatal(err)
	}
	entry.Flags = uint16(bpfobj.TcRdrPortFlagRDR_PF_SOURCE_IN)
	if err := other.putPortLocked(id, entry); err != nil {
		t.Fatal(err)
	}
	unlock()
	if err := <-stopped; err != nil {
		t.Fatal(err)
	}
	l.wantFlags("a/e0 "+internalPort, "b/e0 "+internalPort, "r/e0 in|late|apart", "r/e1 "+internalPort+"|late|apart")
}

// TestResumeMarks: an agent ended before it settled what a node carries instead of the mark,
// and the rule is gone.
func TestResumeMarks(t *testing.T) {
	l := newChain(t, program.HookAuto)
	l.attach(chain...)
	h := l.open()
	if err := h.StopMarks(mark); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := l.open().ResumeMarks(); err != nil {
			t.Fatal(err)
		}
		l.wantFlags("a/e0 "+internalPort, "b/e0 "+internalPort, "r/e0 "+internalPort, "r/e1 "+internalPort)
		l.refresh()
	}
}

// TestSettleMarksGuards: an interface has come and has no programs yet as its node begins to
// carry the header. What leaves by it has true bits.
func TestSettleMarksGuards(t *testing.T) {
	l, p, o := newHeaderLab(t, program.HookAuto)
	l.attach(chain...)
	l.connect(false)
	h := l.open()
	if _, err := h.SettleMarks(t.Context(), mark); err != nil {
		t.Fatal(err)
	}
	p.sendUntil(o, 50)
	if !h.Changed() {
		t.Error("nothing is left to look at")
	}
	l.refresh()
	l.wantFlags("a/e0 "+internalPort, "b/e0 "+internalPort, "r/e0 "+internalPort+"|header|late", "r/e1 "+internalPort+"|header|late",
		"r/x0 "+edgePort+"|header|late")
	p.sendUntil(o, 50)
	o.want(100)
}

// TestGiveMarksUpUnderWay: a packet that is in the node just then bears a mark. It is known
// as it leaves, and goes on with its story.
func TestGiveMarksUpUnderWay(t *testing.T) {
	l := newChain(t, program.HookAuto)
	for _, node := range chain { // hosts solicit routers by themselves
		l.Run(node, "sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=1")
	}
	l.opts.Timeout = patience // it may wait for long
	l.opts.Lease = 0
	address := func(node, port string) string {
		_, after, _ := strings.Cut(l.Run(node, "ip", "-o", "link", "show", port), "link/ether ")
		return strings.Fields(after)[0]
	}
	mac := address("b", "e0")
	l.Run("b", "ip", "link", "set", "e0", "arp", "off")
	l.Run("b", "ip", "neigh", "replace", "10.0.2.2", "lladdr", address("r", "e1"), "dev", "e0", "nud", "permanent")
	l.Run("r", "sysctl", "-qw", "net.ipv4.neigh.e1.mcast_solicit=100000")
	l.attach(chain...)
	h := l.open()
	before := named(t, h)
	pinged := make(chan string, 1)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	go func() {
		out, _ := l.Try("a", "ping", "-q", "-c", "1", "-W", "60", "10.0.2.1")
		pinged <- out
	}()
	nstest.WaitFor(t, "an echo that waits in r", func() bool {
		out, _ := l.Try("r", "ip", "neigh", "show", "10.0.2.1")
		return strings.Contains(out, "INCOMPLETE")
	})
	if _, err := h.SettleMarks(t.Context(), mark); err != nil {
		t.Fatal(err)
	}
	l.refresh()
	l.Run("r", "ip", "neigh", "replace", "10.0.2.1", "lladdr", mac, "dev", "e1", "nud", "permanent")
	select {
	case out := <-pinged:
		if !strings.Contains(out, " 1 received") {
			t.Errorf("the echo:\n%s", out)
		}
	case <-ctx.Done():
		t.Fatal("the echo does not come back")
	}
	after := named(t, h)
	if after["passed"] != before["passed"] || after["marked"] != before["marked"]+2 || after["foreign_mark"] != before["foreign_mark"] {
		t.Errorf("counters before %v, then %v", before, after)
	}
}
