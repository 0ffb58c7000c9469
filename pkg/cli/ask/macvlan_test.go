// SPDX-License-Identifier: Apache-2.0

package ask

import (
	"testing"

	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/cli/clitest"
	"github.com/vnetradar/radar/pkg/cli/kit"
)

// A packet for an interface that stands on another node's port (macvlan) came by that port, and is delivered behind it:
// one story, and no loss.
func TestMacvlan(t *testing.T) {
	w := clitest.NewWorld(t)
	w.In("h2", "ip", "link", "add", "m0", "link", "eth0", "type", "macvlan", "mode", "bridge")
	child := nstest.New(t, "c")
	w.In("h2", "ip", "link", "set", "m0", "netns", child.Path("c"))
	child.Run("c", "ip", "addr", "add", "10.0.2.9/24", "dev", "m0")
	child.Run("c", "ip", "link", "set", "m0", "up")
	child.Run("c", "ip", "route", "add", "default", "via", "10.0.2.1")
	w.In("h1", "ping", "-q", "-c", "1", "10.0.2.9")
	args := append(w.Lab.AttachArgs(), "c=netns:"+child.Name("c"))
	w.Radar(kit.ExitOK, append([]string{"attach", "-d", "--timeout", "2s"}, args...)...)
	w.In("h1", "ping", "-q", "-c", "3", "-i", "0.01", "10.0.2.9")
	w.In("h1", "ping", "-q", "-c", "3", "-i", "0.01", "-M", "dont", "10.0.2.9") // found by its key
	w.UDPTo("10.0.2.9", 9)                                                      // nobody listens
	w.Ended(7, "--dst", "10.0.2.9")
	if n := len(w.Packets("--dst", "10.0.2.9", "--state", "delivered")); n != 7 {
		t.Errorf("%d packets delivered, want 7", n)
	}
	w.Says([]string{"paths", "--dst", "10.0.2.9"}, "h1 > r1 > h2 > c")
	w.Says([]string{"loss", "--after-delivery"}, "NO_SOCKET", "c ")
	if rows := askedLosses(w); len(rows) > 0 {
		t.Errorf("all arrived, and lost are %+v", rows)
	}
}
