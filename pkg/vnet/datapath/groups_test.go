// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/vnetradar/radar/pkg/bpfobj"
	"github.com/vnetradar/radar/pkg/vnet/datapath/program"
	"github.com/vnetradar/radar/pkg/vnet/datapath/tables"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// takes says whether the programs know that a port takes what is sent to a group.
func (l *lab) takes(h *Handle, node, port, group string) bool {
	l.t.Helper()
	key := tables.GroupKey(l.port(h.Domain, node, port).ID, netip.MustParseAddr(group))
	var one uint8
	return h.maps[bpfobj.TcMapLocals].Lookup(&key, &one) == nil
}

// crowd fills the table of addresses up to so many free places, with what no node has.
func (l *lab) crowd(h *Handle, free int) {
	l.t.Helper()
	m := h.maps[bpfobj.TcMapLocals]
	have, err := allKeys[bpfobj.TcRdrLocal](m)
	if err != nil {
		l.t.Fatal(err)
	}
	keys := make([]bpfobj.TcRdrLocal, int(m.MaxEntries())-len(have)-free)
	for i := range keys {
		keys[i] = bpfobj.TcRdrLocal{Node: domain.MaxNodes, Addr: uint32(i)}
	}
	if n, err := m.BatchUpdate(keys, make([]uint8, len(keys)), &ebpf.BatchOptions{}); err != nil {
		l.t.Fatalf("%d of %d: %v", n, len(keys), err)
	}
}

// Ports take the broadcasts of their own subnets. When the table has no room for all, that
// is told, once, and nothing else fails; when there is room again it is used.
func TestCrowdedTable(t *testing.T) {
	l := newChain(t, program.HookTCX)
	for _, port := range []string{"e0", "e1"} {
		l.Run("r", "ip", "addr", "add", "10.7.0."+port[1:]+"/24", "broadcast", "+", "dev", port)
	}
	l.Run("r", "ip", "addr", "add", "10.8.0.1/24", "broadcast", "10.8.0.255", "dev", "e1")
	l.attach("a", "r")
	h := l.open()
	if l.takes(h, "r", "e0", "10.8.0.255") || !l.takes(h, "r", "e1", "10.8.0.255") || !l.takes(h, "r", "e0", "255.255.255.255") {
		t.Error("the ports of r take other broadcasts than those of their subnets")
	}
	if text := h.Crowded(); text != "" {
		t.Errorf("%q though there is room", text)
	}

	l.crowd(h, 0)
	if text := h.Crowded(); !strings.Contains(text, crowdedText) {
		t.Errorf("%q though there is no room", text)
	}
	res := l.attach("b")
	if text := strings.Join(res.Warnings, "\n"); strings.Count(text, crowdedText) == 0 {
		t.Errorf("attached to a full table with warnings %q", text)
	}
	l.ping()

	// The stale ones went with that. Once more, for a domain that grows by itself.
	if text := l.open().Crowded(); text != "" {
		t.Errorf("%q though there is room", text)
	}
	l.crowd(h, 0)
	l.Run("a", "ip", "addr", "add", "10.9.0.1/24", "broadcast", "+", "dev", "e0")
	c, err := h.Refresh(t.Context())
	if err != nil || !strings.Contains(strings.Join(c.Warnings, "\n"), crowdedText) {
		t.Fatalf("refresh of a full table: %v, %+v", err, c)
	}
	// There is room again, and a second later it is used.
	if err := h.SyncGroups(); err != nil || !l.takes(h, "a", "e0", "10.9.0.255") {
		t.Errorf("memberships that fit now: %v", err)
	}
	l.crowd(h, 0)
	l.Run("a", "ip", "addr", "add", "239.0.0.1/32", "dev", "e0", "autojoin")
	for range 2 {
		if err := h.SyncGroups(); err == nil || !strings.Contains(err.Error(), crowdedText) {
			t.Errorf("memberships do not fit: %v", err)
		}
	}
	l.refresh() // removes what no node has
	if err := h.SyncGroups(); err != nil || !l.takes(h, "a", "e0", "239.0.0.1") {
		t.Errorf("memberships that fit now: %v", err)
	}
}

// A node whose memberships change is written anew, and no other one.
func TestSyncGroups(t *testing.T) {
	l := newChain(t, program.HookTCX)
	l.attach("a", "r", "b")
	h := l.open()
	sync := func() {
		t.Helper()
		if err := h.SyncGroups(); err != nil {
			t.Fatal(err)
		}
	}
	sync()
	strange := tables.GroupKey(l.port(h.Domain, "b", "e0").ID, netip.MustParseAddr("239.0.0.9"))
	if err := h.maps[bpfobj.TcMapLocals].Put(&strange, uint8(1)); err != nil {
		t.Fatal(err)
	}
	join := func(what string) {
		t.Helper()
		l.Run("a", "ip", "addr", what, "239.0.0.1/32", "dev", "e0", "autojoin")
	}
	for i, what := range []string{"add", "del"} {
		join(what)
		sync()
		if got := l.takes(h, "a", "e0", "239.0.0.1"); got != (i == 0) {
			t.Errorf("after ip addr %s ... autojoin: %v", what, got)
		}
	}
	if !l.takes(h, "b", "e0", "239.0.0.9") {
		t.Error("b was written though nothing changed there")
	}
}
