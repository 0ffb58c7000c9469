// SPDX-License-Identifier: Apache-2.0

package ask

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/aggregate"
	"github.com/vnetradar/radar/pkg/cli/clitest"
	"github.com/vnetradar/radar/pkg/cli/kit"
)

// fullSocket runs in h2. It has a socket with a small buffer, which it does not read, and sends to
// it from h1. It prints how many datagrams the kernel has dropped for lack of room, by its own
// counter, once each was kept or dropped.
const fullSocket = `import socket, subprocess, time
def full():
    with open("/proc/net/snmp") as f:
        names, values = [line.split() for line in f if line.startswith("Udp:")]
    return int(values[names.index("RcvbufErrors")])
before, sent, kept = full(), %[2]d, 0
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
s.bind(("10.0.2.2", 1004))
s.setblocking(False)
subprocess.run(["nsenter", "--net=%[1]s", "python3", "-c", """import socket
c = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for i in range(%[2]d): c.sendto(b"x" * 900, ("10.0.2.2", 1004))"""], check=True)
while kept + full() - before < sent:
    try:
        s.recv(2000)
        kept += 1
    except BlockingIOError:
        time.sleep(0.01)
print(full() - before)
`

// What a full socket drops is the same in "radar flows", in "radar loss --after-delivery" and by the
// kernel's own counter, and "radar loss" speaks of it also where packets were lost on the way.
func TestDropped(t *testing.T) {
	w := clitest.NewWorld(t)
	w.Radar(kit.ExitOK, append([]string{"attach", "-d"}, w.Lab.AttachArgs()...)...)
	const sent = 60
	out := w.In("h2", "python3", "-c", fmt.Sprintf(fullSocket, w.Lab.NetNSPath("h1"), sent))
	dropped, err := strconv.ParseUint(strings.TrimSpace(out), 10, 64)
	if err != nil || dropped == 0 || dropped == sent {
		t.Fatalf("the kernel's counter RcvbufErrors says %q, of %d datagrams (%v)", out, sent, err)
	}
	var flows []aggregate.FlowRow
	nstest.WaitFor(t, "a flow with all packets", func() bool {
		flows = clitest.RowsOf[aggregate.FlowRow](w, "flows", "--dport", "1004")
		return len(flows) == 1 && flows[0].Packets == sent
	})
	if f := flows[0]; f.Dropped != dropped || f.LocalDrops != dropped || f.Delivered != sent || f.Lost != 0 {
		t.Errorf("of %d datagrams the kernel dropped %d in the socket; flows: %+v", sent, dropped, f)
	}
	w.Says([]string{"flows", "--sort", "dropped"}, "DROPPED")
	for _, args := range [][]string{{"loss", "--after-delivery"}, {"loss", "--after-delivery", "--by", "flow", "--dport", "1004"}} {
		rows := clitest.RowsOf[aggregate.LossRow](w, args...)
		if len(rows) != 1 || rows[0].Packets != dropped || rows[0].Node != "h2" {
			t.Errorf("radar %s: %+v, want the %d of the socket in h2", strings.Join(args, " "), rows, dropped)
		}
	}
	// A loss on the way does not hide them.
	w.In("r1", "nft", "add table ip t; add chain ip t f { type filter hook forward priority 0; }; add rule ip t f udp dport 1004 drop")
	w.UDPTo("10.0.2.2", 1004)
	w.Ended(sent+1, "--dport", "1004")
	said := fmt.Sprintf("besides, after delivery %d packets were dropped", dropped)
	w.Says([]string{"loss"}, "r1", "firewall rule", said)
	w.Says([]string{"loss", "--by", "flow", "--dport", "1004"}, "r1", said)
}
