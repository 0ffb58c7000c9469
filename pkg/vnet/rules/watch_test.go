// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"strings"
	"testing"
	"time"

	"github.com/vnetradar/radar/lab/test/nstest"
)

// TestWatcher: of each rule that uses the mark, the kernel's message says in which node
// it came, and which bits it uses. Others are not reported.
func TestWatcher(t *testing.T) {
	n := nstest.New(t, "a", "b", "c")
	w, err := NewWatcher()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if err := w.Set(specs(t, n, "a", "b")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		node string
		make []string
		what string
		mask uint32
	}{
		{"c", []string{"ip", "rule", "add", "fwmark", "1"}, "", 0}, // not watched
		{"a", []string{"ip", "rule", "add", "to", "10.0.0.0/8", "table", "100"}, "", 0},
		{"a", []string{"nft", "add table inet t; add chain inet t c { type filter hook forward priority 0; }; add rule inet t c tcp dport 80 accept"}, "", 0},
		{"a", []string{"nft", "add rule inet t c meta mark and 0x8000 == 0x8000 drop"}, "nft", 0x8000},
		{"b", []string{"ip", "rule", "add", "fwmark", "0x4000/0x4000", "blackhole"}, "ip rule", 0x4000},
		{"b", []string{"ip", "-6", "rule", "add", "fwmark", "0x2000/0x2000", "blackhole"}, "ip -6 rule", 0x2000},
		{"a", []string{"ip", "xfrm", "policy", "add", "src", "10.1.0.0/16", "dst", "10.2.0.0/16", "dir", "fwd", "action", "block", "mark", "0x8000", "mask", "0x8000"}, "xfrm policy", 0x8000},
		{"b", []string{"iptables-nft", "-t", "raw", "-A", "PREROUTING", "-j", "CT", "--zone", "mark"}, "nft", allBits},
		{"b", []string{"ebtables-nft", "-A", "FORWARD", "--mark", "0x800/0x800", "-j", "DROP"}, "nft", 0x800},
	} {
		n.Run(c.node, c.make...)
		if c.what == "" {
			continue
		}
		select {
		case got := <-w.C():
			if got.Node != c.node || got.What != c.what || got.Mask != c.mask {
				t.Errorf("%s: reported %+v", strings.Join(c.make, " "), got)
			}
		case <-w.Lost():
			t.Fatalf("%s: messages are lost", strings.Join(c.make, " "))
		case <-time.After(nstest.Patience):
			t.Fatalf("%s: nothing is reported", strings.Join(c.make, " "))
		}
	}
}
