// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"slices"
	"testing"

	"github.com/vnetradar/radar/pkg/vnet/datapath/program"
)

// Tunnels between attached nodes become links while the domain runs, take their bits
// back when an end begins to inherit the TTL, and are edges again when an end goes.
func TestTunnelComesAndGoes(t *testing.T) {
	l := newChain(t, program.HookTCX)
	l.attach("a", "r", "b")
	want := func(flags string) {
		t.Helper()
		l.refresh()
		all := l.flags()
		for _, node := range []string{"a", "b"} {
			if line := node + "/vx " + flags; !slices.Contains(all, line) {
				t.Errorf("no %q in %q", line, all)
			}
		}
	}
	end := func(node, remote string, args ...string) {
		t.Helper()
		l.Run(node, append([]string{"ip", "link", "add", "vx", "type", "vxlan", "id", "7", "dstport", "4789", "remote", remote}, args...)...)
		l.Up(node, "vx")
	}
	end("a", "10.0.2.1")
	end("b", "10.0.1.1")
	want("internal|out|tunnel")
	l.Run("b", "ip", "link", "set", "vx", "type", "vxlan", "tos", "inherit")
	want("internal|out|true|tunnel")
	l.Run("b", "bridge", "fdb", "append", "00:00:00:00:00:00", "dev", "vx", "dst", "10.9.9.9")
	want(edgePort)
}
