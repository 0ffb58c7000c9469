// SPDX-License-Identifier: Apache-2.0

package ask

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/answer"
	"github.com/vnetradar/radar/pkg/answer/placenow"
	"github.com/vnetradar/radar/pkg/answer/topology"
	"github.com/vnetradar/radar/pkg/cli/clitest"
	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/vnet/topo"
)

// nowRows are the rows of "radar loss", with what is known now.
func nowRows(w *clitest.World) []answer.LossRow {
	w.Helper()
	return clitest.RowsOf[answer.LossRow](w, "loss")
}

// bigUDP sends a datagram of 1200 bytes, which may be fragmented.
func bigUDP(w *clitest.World, addr string, port int) {
	w.Helper()
	w.In("h1", "bash", "-c", fmt.Sprintf("head -c 1200 /dev/zero > /dev/udp/%s/%d", addr, port))
}

func awaitNoCarrier(w *clitest.World, machine, port string) {
	w.Helper()
	nstest.WaitFor(w.T, machine+" to notice", func() bool {
		return strings.Contains(w.In(machine, "ip", "link", "show", port), "NO-CARRIER")
	})
}

// A port that is down, and an MTU that is too small at the other end of a link, have plain words.
func TestPortDown(t *testing.T) {
	w := clitest.NewWorld(t)
	w.Radar(kit.ExitOK, append([]string{"attach", "-d", "--timeout", "2s"}, w.Lab.AttachArgs()...)...)
	w.Ping(1)
	mac := strings.TrimSpace(w.In("h2", "cat", "/sys/class/net/eth0/address"))

	// At the receiver: its router's port has no carrier, and drops as a full queue does, though there is none.
	w.In("r1", "ip", "neigh", "replace", "10.0.2.2", "lladdr", mac, "dev", "eth1", "nud", "permanent")
	w.In("h2", "ip", "link", "set", "eth0", "down")
	awaitNoCarrier(w, "r1", "eth1")
	w.UDPTo("10.0.2.2", 1001)
	awaitLoss(w, "loss", "r1", "eth1", "QDISC_DROP", "no carrier now: h2/eth0 is down")
	notUp := []placenow.PortState{{Port: "r1/eth1", State: topo.NoCarrier}, {Port: "h2/eth0", State: topo.Down}}
	if rows := nowRows(w); len(rows) != 1 || !slices.Equal(rows[0].NotUp, notUp) || rows[0].Peer != "h2/eth0" {
		t.Errorf("rows %+v", rows)
	}
	out := w.Says([]string{"trace", "--last", "--state", "lost"}, "the port could not send: it was down, or without carrier", "no carrier now: h2/eth0 is down")
	out += w.Says([]string{"loss", "--by", "flow"}, "no carrier now: h2/eth0 is down")
	out += w.Says([]string{"loss", "--series"}, "no carrier now: h2/eth0 is down")
	if strings.Contains(out, "queue full") || strings.Contains(out, "queue was") {
		t.Errorf("there is no queue:\n%s", out)
	}
	w.In("h2", "ip", "link", "set", "eth0", "up")
	nstest.AwaitCarrier(t, w.Lab.NetNSPath("r1"))
	out = w.Says([]string{"loss"}, "port was down, or without carrier")
	if strings.Contains(out, " now") {
		t.Errorf("all ports are up again:\n%s", out)
	}

	// The receiver's port lets less pass than its router's.
	w.In("h2", "ip", "link", "set", "eth0", "mtu", "1000")
	bigUDP(w, "10.0.2.2", 1002)
	const refused = "refused by h2/eth0 (larger than its MTU of 1000, or it is down)"
	awaitLoss(w, "loss", "r1", "eth1", "__dev_forward_skb2", refused)
	w.Says([]string{"trace", "--last", "--state", "lost"}, "LOST leaving by eth1: "+refused)

	// At the router's way out: its routes are gone.
	w.In("r1", "ip", "link", "set", "eth1", "down")
	w.UDPTo("10.0.2.2", 1003)
	awaitLoss(w, "loss", "r1", "eth0", "no route; r1/eth1 is down now")

	// At the sender nothing is sent at all.
	w.In("h1", "ip", "link", "set", "eth0", "down")
	w.Says([]string{"loss"}, "not up now: h1/eth0 (down), ")
	w.Says([]string{"loss", "--dst", "192.0.2.1"}, "no packet matches", "not up now: h1/eth0 (down), ")
	if out := w.Says([]string{"loss", "-o", "wide"}, "r1/eth1 is down now", "not up now: "); strings.Contains(out, "r1/eth1 (down)") {
		t.Errorf("what a row has said is said again:\n%s", out)
	}
}

// What nodes drop before they send it is told with their ports. Discovery, which every port that comes up or goes
// tries to send, is not told.
func TestUnsentPortDown(t *testing.T) {
	w := clitest.NewWorld(t)
	w.Radar(kit.ExitOK, append([]string{"attach", "-d", "--timeout", "2s"}, w.Lab.AttachArgs()...)...)
	w.Ping(1)
	w.In("h1", "ip", "neigh", "flush", "all")
	w.In("r1", "ip", "link", "set", "eth0", "down")
	awaitNoCarrier(w, "h1", "eth0")
	w.UDPTo("10.0.1.2", 1001) // waits for an answer to ARP
	w.In("h1", "ip", "link", "set", "eth0", "down")
	w.Await([]string{"loss"}, "h1 dropped 1 packet before it was sent", "; h1/eth0 is down now, r1/eth0 is down now), udp to 10.0.1.2:1001")
	w.In("h1", "ip", "link", "set", "eth0", "up") // it says so, to nobody
	if out := w.Says([]string{"loss"}, "h1 dropped 1 packet before it was sent", "h1/eth0 has no carrier now, r1/eth0 is down now"); strings.Contains(out, "ff02:") {
		t.Errorf("discovery is told:\n%s", out)
	}
}

// Where a bridge has no port left to send by, a packet is lost at the one that it came in by.
func TestBridgeWithoutPorts(t *testing.T) {
	w := clitest.NewWorldOf(t, "switches", nil)
	var args []string
	for _, m := range w.Lab.Machines {
		if m.Name == "h1" || m.Name == "h2" {
			args = append(args, m.Name+"=netns:"+m.NetNS)
		}
	}
	w.Radar(kit.ExitOK, append([]string{"attach", "-d", "--timeout", "2s"}, args...)...)
	w.In("h1", "ping", "-q", "-c", "1", "10.0.0.2")
	mac := strings.TrimSpace(w.In("h2", "cat", "/sys/class/net/eth0/address"))
	w.In("h1", "ip", "neigh", "replace", "10.0.0.2", "lladdr", mac, "dev", "eth0", "nud", "permanent")
	w.In("sw1", "ip", "link", "set", "eth2", "down") // it leads to the other switch
	w.In("h2", "ip", "link", "set", "eth0", "down")
	awaitNoCarrier(w, "sw1", "eth1")
	w.UDPTo("10.0.0.2", 1001)
	awaitLoss(w, "loss", " (to h1/eth0) ", "h2/eth0 is down now")
	w.Says([]string{"trace", "--last", "--state", "lost"}, ", in by eth0 (to h1/eth0): ", "h2/eth0 is down now")
}

// Behind a bridge a port that is down shows at others, to which the bridge sends instead. The bridge's own end of a
// link, which nobody knows by its name, says where it leads.
func TestPortDownBehindBridge(t *testing.T) {
	w := clitest.NewWorldOf(t, "switches", nil)
	args := []string{"attach", "-d", "--timeout", "2s"}
	for _, m := range w.Lab.Machines {
		if strings.HasPrefix(m.Name, "h") {
			args = append(args, m.Name+"=netns:"+m.NetNS)
		}
	}
	w.Radar(kit.ExitOK, args...)
	w.In("h1", "ping", "-q", "-c", "1", "10.0.0.2")

	// The receiver's port lets less pass than the bridge's.
	w.In("h2", "ip", "link", "set", "eth0", "mtu", "1000")
	bigUDP(w, "10.0.0.2", 1001)
	const refused = "refused by h2/eth0 (larger than its MTU of 1000, or it is down)"
	awaitLoss(w, "loss", " (to h2/eth0) ", "__dev_forward_skb2", refused)
	w.Says([]string{"trace", "--last", "--state", "lost"}, ", on the way out by ", " (to h2/eth0): "+refused)
	w.Says([]string{"packets", "--state", "lost"}, " (to h2/eth0) ")
	member := ""
	for _, n := range clitest.RowsOf[topology.Topology](w, "topo")[0].Nodes {
		for _, p := range n.Ports {
			if n.Name == "h2" {
				member = p.Member
			}
		}
	}
	rows := nowRows(w)
	if len(rows) != 1 || rows[0].Node+"/"+rows[0].Port != member || rows[0].Peer != "h2/eth0" || rows[0].PeerMTU != 1000 {
		t.Errorf("the bridge reaches h2 by %q; rows %+v", member, rows)
	}
	_, name, _ := strings.Cut(member, "/")
	w.Says([]string{"topo", "-o", "wide"}, " by "+name+" ")

	// The bridge has forgotten the receiver, and sends to all others.
	mac := strings.TrimSpace(w.In("h2", "cat", "/sys/class/net/eth0/address"))
	w.In("h1", "ip", "neigh", "replace", "10.0.0.2", "lladdr", mac, "dev", "eth0", "nud", "permanent")
	w.In("h2", "ip", "link", "set", "eth0", "down")
	w.UDPTo("10.0.0.2", 1002)
	awaitLoss(w, "loss --dport 1002", "h2/eth0 is down now")
	for _, row := range clitest.RowsOf[answer.LossRow](w, "loss", "--dport", "1002") {
		if row.Node == "h2" || len(row.NotUp) == 0 || row.NotUp[0].Port != "h2/eth0" {
			t.Errorf("row %+v", row)
		}
	}
	w.Says([]string{"trace", "--last", "--state", "lost"}, "another host's [OTHERHOST]; h2/eth0 is down now")
	// Nor does it answer to ARP.
	w.In("h1", "ip", "neigh", "del", "10.0.0.2", "dev", "eth0")
	w.Fails("h1", "ping", "-q", "-c", "1", "-W", "10", "10.0.0.2")
	w.Says([]string{"loss"}, "NEIGH_FAILED (no ARP answer; h2/eth0 is down now), icmp to 10.0.0.2")
}
