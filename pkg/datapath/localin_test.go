// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"github.com/vnetradar/radar/pkg/domain"
)

// netfilterLinks counts the links of the domain's program at LOCAL_IN.
func (l *lab) netfilterLinks() int {
	l.t.Helper()
	prog, err := ebpf.LoadPinnedProgram(filepath.Join(domain.PinDir(l.domain), localInProg), nil)
	if err != nil {
		l.t.Fatal(err)
	}
	defer prog.Close()
	info, err := prog.Info()
	if err != nil {
		l.t.Fatal(err)
	}
	id, _ := info.ID()
	n := 0
	it := new(link.Iterator)
	defer it.Close()
	for it.Next() {
		info, err := it.Link.Info()
		if err != nil || info.Netfilter() == nil {
			continue
		}
		if info.Program == id {
			n++
		}
	}
	return n
}

// TestLocalIn: the program stands in nodes with rules that redirect, for as long as
// somebody follows the domain, and keeps no namespace alive.
func TestLocalIn(t *testing.T) {
	if !Probe().LocalIn {
		if !olderThan(Probe().Kernel, 6, 4) {
			t.Fatal("this kernel should have netfilter programs")
		}
		t.Skip("this kernel has no netfilter programs, which came with Linux 6.4")
	}
	l := newChain(t, HookAuto)
	rules := []string{"nft", "add table ip t; add chain ip t c { type nat hook prerouting priority -100; }"}
	l.Run("r", rules...)
	l.attach(chain...)
	h := l.open()
	refresh := func(want int, when string) {
		t.Helper()
		c, err := h.Refresh(t.Context())
		if err != nil || len(c.Warnings) > 0 {
			t.Fatalf("%s: %v, %v", when, err, c)
		}
		if got := l.netfilterLinks(); got != want {
			t.Errorf("%s: %d links, want %d", when, got, want)
		}
	}
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
	l.attach("r")
	refresh(2, "it is back")

	l.Delete("r")
	time.Sleep(50 * time.Millisecond)
	if !strings.Contains(l.Run("a", "ip", "-o", "link"), "e0@") {
		t.Skip("a link of this kernel does not keep its namespace")
	}
	h.ReleaseGone()
	for end := time.Now().Add(5 * time.Second); strings.Contains(l.Run("a", "ip", "-o", "link"), "e0@"); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the namespace of a node that is gone lives on")
		}
	}
}
