// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"fmt"
	"strings"
	"testing"

	"github.com/vnetradar/radar/pkg/vnet/datapath/program"
)

// TestRawSpelled: a packet of a raw socket, of another flow, whose own bits look like those of a
// packet that is just on its way to the node keeps its own. A switch's frame with them gets its true
// ones: it may have been quicker than the hook at ingress.
func TestRawSpelled(t *testing.T) {
	l := newSwitchLab(t, program.CarryAuto)
	l.attach("a", "r")
	l.Run("a", "ping", "-c1", "-W60", "10.0.1.2") // both know each other's address
	// The bucket is empty after the first datagram: the second one waits.
	l.Run("a", "tc", "qdisc", "add", "dev", "e0", "root", "tbf", "rate", "8bit", "burst", "1600", "limit", "9000")
	l.Run("a", "python3", "-c", `import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for n in range(2): s.sendto(bytes(1400), ("10.0.1.2", 9))`)
	h := l.open()
	layout, err := program.LayoutOf(h.Domain.Options)
	if err != nil {
		t.Fatal(err)
	}
	index := l.newestSlot(h) // of the packet that waits
	for _, c := range []struct{ name, socket, to string }{
		{"raw", "socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)", `s.sendto(p, ("10.0.1.1", 0))`},
		{"packet", "socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM)", fmt.Sprintf(`s.sendto(p, ("e0", 0x800, 0, 0, bytes.fromhex(%q)))`,
			strings.ReplaceAll(l.mac("a", "e0").String(), ":", ""))},
	} {
		before := named(t, h)
		l.Run("r", "python3", "-c", fmt.Sprintf(`
import socket, struct
def total(b): # RFC 1071
    n = sum(struct.unpack(">%%dH" %% (len(b) // 2), b))
    n = (n >> 16) + (n & 0xffff)
    return ~(n + (n >> 16)) & 0xffff
head = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 28, %d, 0x4000, %d, 17, 0, bytes([10, 0, 1, 2]), bytes([10, 0, 1, 1]))
p = head[:10] + struct.pack(">H", total(head)) + head[12:] + struct.pack(">HHHH", 7, 7, 8, 0)
s = %s
%s`, index, layout.BandTop[0], c.socket, c.to))
		after := named(t, h)
		changed, foreign := after["content_changed"]-before["content_changed"], after["foreign"]-before["foreign"]
		if c.name == "raw" && changed != 0 || c.name == "packet" && changed != 1 {
			t.Errorf("%s: content_changed grew by %d, foreign by %d", c.name, changed, foreign)
		}
	}
}
