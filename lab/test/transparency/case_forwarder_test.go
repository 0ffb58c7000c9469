// SPDX-License-Identifier: Apache-2.0

package transparency

import (
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/vnetradar/radar/lab/test/radarbin"
)

// forwardFrames joins two ports of a node in user space until the test ends.
func (w *World) forwardFrames(node string, flags ...string) {
	w.T.Helper()
	args := append([]string{"--net=" + w.Path(node), radarbin.Path(w.T), "lab", "forward"}, flags...)
	cmd := exec.Command("nsenter", args...)
	if err := cmd.Start(); err != nil {
		w.T.Fatal(err)
	}
	w.T.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		cmd.Wait()
	})
	w.functions = append(w.functions, cmd.Process.Pid)
	for end := time.Now().Add(mostWait); strings.Count(w.Run(node, "cat", "/proc/net/packet"), "\n") < 3; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			w.T.Fatalf("nothing forwards in %s", node)
		}
	}
}

var _ = add(Case{
	Name: "function/forwarder", Point: 8,
	Shows: "packets through a node whose forwarder reads and sends by packet sockets",
	Build: func(w *World) {
		w.Nodes("out", "r1", "f", "r2", "far")
		w.Link("out", "eth0", "10.0.1.1/24", "r1", "eth0", "10.0.1.2/24")
		w.Link("r1", "eth1", "10.0.2.1/24", "f", "eth0", "")
		w.Link("f", "eth1", "", "r2", "eth0", "10.0.2.2/24")
		w.Link("r2", "eth1", "10.0.3.1/24", "far", "eth0", "10.0.3.2/24")
		w.Forward("r1", "r2")
		w.Route("out", "default", "10.0.1.2")
		w.Route("far", "default", "10.0.3.1")
		w.Route("r1", "10.0.3.0/24", "10.0.2.2")
		w.Route("r2", "10.0.1.0/24", "10.0.2.1")
		w.forwardFrames("f", "eth0", "eth1", "--delay", "2ms")
		w.Listen("far", "0.0.0.0:7")
		w.Attach("r1", "f", "r2")
	},
	Send: func(w *World) {
		for ttl := range 5 {
			for _, p := range []*Packet{
				w.UDP("10.0.1.1", "10.0.3.2", 60), w.TCP("10.0.1.1", "10.0.3.2", ACK, 100), w.Echo("10.0.1.1", "10.0.3.2", 56),
			} {
				p.TTL, p.TOS = []uint8{2, 3, 80, 64, 255}[ttl], 0x28
				s := w.Send("out", p)
				if p.TTL == 2 {
					s.Lost("r2", "IP_INHDR")
				}
			}
		}
		for id := range 3 { // two fragments, and a whole one with DF clear: found by key
			for _, at := range []int{0, 800, -1} {
				p := w.UDP("10.0.1.1", "10.0.3.2", 792)
				p.ID, p.MayFrag, p.More, p.FragOff = uint16(700+id), true, at == 0, max(at, 0)
				if at < 0 {
					p.ID += 100
				}
				w.Send("out", p)
			}
		}
		w.Send("far", w.Echo("10.0.3.2", "10.0.1.1", 800))
	},
	LocalDrops: true,
})

// throughSwitch is out - r1 - v - r2 - far, where v only bridges, through a switch in user space
// behind two of its ports, which segment nothing in hardware.
func throughSwitch(w *World) {
	w.Nodes("out", "r1", "v", "sw", "r2", "far")
	w.Link("out", "eth0", "10.0.1.1/24 fd00:1::1/64", "r1", "eth0", "10.0.1.2/24 fd00:1::2/64")
	w.Link("r1", "eth1", "10.0.2.1/24 fd00:2::1/64", "v", "eth0", "")
	w.Link("v", "p0", "", "sw", "eth0", "")
	w.Link("v", "p1", "", "sw", "eth1", "")
	w.Link("v", "eth1", "", "r2", "eth0", "10.0.2.2/24 fd00:2::2/64")
	w.Link("r2", "eth1", "10.0.4.1/24 fd00:4::1/64", "far", "eth0", "10.0.4.2/24 fd00:4::2/64")
	for i, ports := range [][]string{{"eth0", "p0"}, {"p1", "eth1"}} {
		bridge := fmt.Sprint("br", i)
		w.Device("v", bridge, "", "type", "bridge", "mcast_snooping", "0")
		for _, port := range ports {
			w.Run("v", "ip", "link", "set", port, "master", bridge)
		}
	}
	for _, port := range []string{"p0", "p1"} {
		w.Run("v", "ethtool", "-K", port, "tso", "off", "tx-udp-segmentation", "off")
	}
	w.Forward("r1", "r2")
	w.Route("out", "default", "10.0.1.2")
	w.Route("out", "default", "fd00:1::2")
	w.Route("far", "default", "10.0.4.1")
	w.Route("far", "default", "fd00:4::1")
	w.Route("r1", "10.0.4.0/24", "10.0.2.2")
	w.Route("r1", "fd00:4::/64", "fd00:2::2")
	w.Route("r2", "10.0.1.0/24", "10.0.2.1")
	w.Route("r2", "fd00:1::/64", "fd00:2::1")
	w.forwardFrames("sw", "eth0", "eth1")
	w.Attach("r1", "v", "r2")
	w.Outside("v/p0", "v/p1")
}

var (
	switchFlags = []string{"--vm", "switch=v/p0,v/p1"}

	_ = add(Case{
		Name: "function/switch-trains", Point: 8,
		Shows: "trains through a switch in user space whose ports cut them behind the hook: each segment goes on",
		Needs: []string{"ethtool", "udp-gso"},
		Fresh: true, // a switch is behind ports of one run
		Flags: switchFlags,
		Build: func(w *World) {
			throughSwitch(w)
			w.Listen("far", "0.0.0.0:7")
			// Its resets would be equal packets; radar sees one of them on a link of true headers.
			w.NFT("far", "table inet t { chain c { type filter hook input priority 0; meta l4proto tcp drop; }; }")
		},
		Send: func(w *World) {
			router := mac("r1", "eth0")
			for i := range 6 {
				w.SendTrain("out", "eth0", router, w.TCP("10.0.1.1", "10.0.4.2", ACK, 1000*(2+i*3)), 1000)
				p := w.UDP("10.0.1.1", "10.0.4.2", 800*(1+i*2))
				p.MayFrag = i%2 == 1
				w.SendTrain("out", "eth0", router, p, 800)
				w.Send("out", w.UDP("10.0.1.1", "10.0.4.2", 64))
			}
			// As of a host that counts no IDs, joined by GRO: a train that begins with 0.
			p := w.TCP("10.0.1.1", "10.0.4.2", ACK, 4700)
			p.ID = 0
			w.SendTrain("out", "eth0", router, p, 1000)
			w.SendTrain("out", "eth0", router, w.TCP("fd00:1::1", "fd00:4::2", ACK, 5700), 1000)
		},
	})
	_ = add(Case{
		Name: "function/switch-tcp", Point: 8,
		Shows: "connections of hosts' own stacks through such a switch",
		Needs: []string{"ethtool"},
		Fresh: true,
		Flags: switchFlags,
		Build: throughSwitch,
		Send: func(w *World) {
			// (IPv6 has no IDs: acknowledgements may be equal packets.)
			for i, size := range []int{100, 5000, 300000} {
				from, to := fmt.Sprint(":", 5000+i), fmt.Sprint(":", 80+i)
				w.Talk(talk{"out", "10.0.1.1" + from, "far", "10.0.4.2" + to, size, size / 2})
				w.Talk(talk{"far", "10.0.4.2" + from, "out", "10.0.1.1" + to, size / 2, size})
			}
		},
		Rules: []Rule{tcpStreams},
	})
)
