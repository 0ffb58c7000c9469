// SPDX-License-Identifier: Apache-2.0

package ask

import (
	"strings"
	"testing"

	"github.com/vnetradar/radar/pkg/aggregate"
	"github.com/vnetradar/radar/pkg/cli/clitest"
	"github.com/vnetradar/radar/pkg/cli/kit"
)

// toCounted sends datagrams of h1 that may not be fragmented, to h2, which counts them, and a stream with trains.
const toCounted = `import socket, subprocess, threading
n = 200
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
s.bind(("10.0.3.2", 700))
l = socket.socket()
l.bind(("10.0.3.2", 701))
l.listen(1)
p = subprocess.Popen(["nsenter", "--net=NETNS", "python3", "-c", """import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.IPPROTO_IP, 10, 2)  # IP_MTU_DISCOVER, IP_PMTUDISC_DO
for i in range(%d): s.sendto(b"%%d" %% i * 20, ("10.0.3.2", 700))
c = socket.create_connection(("10.0.3.2", 701))
c.sendall(bytes(1 << 20))
c.close()""" % n])
c, _ = l.accept()
got = 0
while data := c.recv(1 << 16): got += len(data)
s.settimeout(60)
for i in range(n): s.recv(2000)
p.wait()
print(got)
`

// Packets that a route puts inside others (SRv6), without a tunnel's interface, have left: they arrive all, and none
// is told as lost.
func TestSegmentRouting(t *testing.T) {
	w := clitest.NewWorldOf(t, "chain", map[string]string{"N": "2"})
	for _, m := range []string{"r1", "r2"} {
		w.In(m, "sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=0", "net.ipv6.conf.all.forwarding=1", "net.ipv6.conf.all.seg6_enabled=1", "net.ipv6.conf.eth0.seg6_enabled=1", "net.ipv6.conf.eth1.seg6_enabled=1")
	}
	w.In("r1", "ip", "addr", "add", "fc00:12::1/64", "dev", "eth1", "nodad")
	w.In("r2", "ip", "addr", "add", "fc00:12::2/64", "dev", "eth0", "nodad")
	w.In("r1", "ip", "route", "replace", "10.0.3.0/24", "encap", "seg6", "mode", "encap", "segs", "fc00:2::1", "dev", "eth1")
	w.In("h1", "ip", "route", "replace", "10.0.3.0/24", "via", "10.0.1.2", "mtu", "1400") // room for the headers around
	w.In("r1", "ip", "-6", "route", "add", "fc00:2::/64", "via", "fc00:12::2")
	w.In("r2", "ip", "-6", "route", "add", "fc00:2::1/128", "encap", "seg6local", "action", "End.DX4", "nh4", "10.0.3.2", "dev", "eth1")
	w.Radar(kit.ExitOK, append([]string{"attach", "-d", "--timeout", "2s"}, w.Lab.AttachArgs()...)...)
	out := w.In("h2", "python3", "-c", strings.Replace(toCounted, "NETNS", w.Lab.NetNSPath("h1"), 1))
	if strings.TrimSpace(out) != "1048576" {
		t.Fatalf("h2 got %s bytes of the stream", out)
	}
	w.Ended(200, "--dport", "700")
	flows := clitest.RowsOf[aggregate.FlowRow](w, "flows", "--top", "0", "--dport", "700,701")
	for _, f := range flows {
		if f.Left != f.Packets || f.Dport == nil || *f.Dport == 700 && f.Packets != 200 {
			t.Errorf("a flow of packets that all arrived: %+v", f)
		}
	}
	if len(flows) != 2 {
		t.Errorf("%d flows, want 2: %+v", len(flows), flows)
	}
	w.Says([]string{"paths", "--dport", "700"}, "h1 > r1")
	if rows := askedLosses(w); len(rows) > 0 {
		t.Errorf("all arrived, and lost are %+v", rows)
	}
}
