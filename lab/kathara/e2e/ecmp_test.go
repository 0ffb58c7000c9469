// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/record"
)

// The flows that go through the ECMP lab: the same in every run.
const (
	ecmpUDP      = 40 // flows
	ecmpTCP      = 12
	ecmpPackets  = 3 // of each UDP flow
	ecmpPort     = 7000
	ecmpUDPSport = 21000
	ecmpTCPSport = 22000
)

// flowPaths are the machines that each flow went through, by radar or by captures.
type flowPaths map[string]string

// add notes a path of a flow. A flow with two paths has both.
func (w flowPaths) add(flow, path string) {
	switch have := w[flow]; {
	case have == "":
		w[flow] = path
	case have != path:
		w[flow] = have + " and " + path
	}
}

func flowName(proto string, src, dst netip.AddrPort) string {
	return fmt.Sprintf("%s %v > %v", proto, src, dst)
}

// only keeps the flows of one protocol.
func (w flowPaths) only(proto string) flowPaths {
	out := make(flowPaths)
	for flow, path := range w {
		if strings.HasPrefix(flow, proto+" ") {
			out[flow] = path
		}
	}
	return out
}

// The ECMP lab in plain namespaces and under Kathará: every flow has the same path in
// both, radar shows the same as captures in all machines, and all four paths are used.
//
// Of TCP, radar and captures must agree, but not the runs: a TCP socket gives its
// packets a random hash of its own, which veths carry on and routers use instead of
// hashing the ports.
func TestECMP(t *testing.T) {
	e := setUp(t)
	dir, name := exportLab(t, "ecmp")
	plain := make(flowPaths)
	t.Run("namespaces", func(t *testing.T) {
		plain = ecmpRound(t, upPlain(t, dir, name))
	})
	contained := make(flowPaths)
	t.Run("Kathará", func(t *testing.T) {
		contained = ecmpRound(t, upKathara(t, e, dir, name))
	})
	if t.Failed() || len(plain) == 0 || len(contained) == 0 { // one was run alone
		return
	}
	if diff := cmp.Diff(plain.only("udp"), contained.only("udp")); diff != "" {
		t.Errorf("flows have other paths under Kathará (-namespaces +Kathará):\n%s", diff)
	}
	used := map[string]int{}
	for flow, path := range plain.only("udp") {
		if strings.Contains(flow, " > 10.0.2.1:") {
			used[path]++
		}
	}
	if len(used) != 4 {
		t.Errorf("not four paths: %v", used)
	}
	t.Logf("%d flows in each direction; there by %v", len(plain)/2, used)
}

// ecmpRound measures a lab that runs, sends the flows and returns the path of each.
func ecmpRound(t *testing.T, n *network) flowPaths {
	t.Helper()
	h1, h2 := n.machines["h1"], n.machines["h2"]
	h1.addr, h2.addr = h1.linkAddr("eth0"), h2.linkAddr("eth0")
	captures := map[string]*capture{}
	for name, m := range n.machines {
		// Headers will do: the ring has a place of the snapshot's length for each packet.
		captures[name] = m.capture("any", "-s", "192", "tcp or udp")
	}
	r := attach(t, append(n.attach, "--timeout", packetTimeout)...)
	ecmpTraffic(t, h1, h2)
	carried(t)
	r.settle(t)
	byRadar := recordedPaths(t, r.records(t))
	if want := 2 * (ecmpUDP + ecmpTCP); len(byRadar) != want {
		t.Errorf("radar saw %d flows, there were %d", len(byRadar), want)
	}
	if diff := cmp.Diff(capturedPaths(t, captures), byRadar); diff != "" {
		t.Errorf("radar shows other paths than captures (-captures +radar):\n%s", diff)
	}
	checkPaths(t, r)
	r.run(t, "detach")
	return byRadar
}

// ecmpTraffic sends every flow, there and back.
func ecmpTraffic(t *testing.T, h1, h2 *place) {
	t.Helper()
	for i := range ecmpUDP {
		there, back := udpSocket(h1, ecmpUDPSport+i), udpSocket(h2, ecmpPort+i)
		for range ecmpPackets {
			sendUDP(t, there, at(h2, ecmpPort+i))
			sendUDP(t, back, at(h1, ecmpUDPSport+i))
		}
	}
	for i := range ecmpTCP {
		l := listenTCP(h2, ecmpPort)
		echoed := make(chan error, 1)
		deadline := time.Now().Add(tcpTime)
		go func() { echoed <- echo(l, deadline) }()
		var c *net.TCPConn
		h1.within(func() (err error) {
			from := net.TCPAddrFromAddrPort(at(h1, ecmpTCPSport+i))
			c, err = net.DialTCP("tcp4", from, net.TCPAddrFromAddrPort(at(h2, ecmpPort)))
			return err
		})
		if err := exchange(c, make([]byte, 20_000), deadline); err != nil {
			t.Errorf("TCP flow %d: %v", i, err)
		}
		if err := <-echoed; err != nil {
			t.Errorf("TCP flow %d: server: %v", i, err)
		}
		c.Close()
		l.Close()
	}
}

// udpSocket is bound to a port until the test ends.
func udpSocket(p *place, port int) (fd int) {
	p.t.Helper()
	p.within(func() (err error) {
		if fd, err = unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0); err != nil {
			return err
		}
		return unix.Bind(fd, &unix.SockaddrInet4{Port: port})
	})
	p.t.Cleanup(func() { unix.Close(fd) })
	return fd
}

func sendUDP(t *testing.T, fd int, to netip.AddrPort) {
	t.Helper()
	payload := []byte(to.String() + " of the ECMP test")
	if err := unix.Sendto(fd, payload, 0, &unix.SockaddrInet4{Addr: to.Addr().As4(), Port: int(to.Port())}); err != nil {
		t.Fatalf("send to %v: %v", to, err)
	}
}

// recordedPaths are the paths of the flows by radar's records.
func recordedPaths(t *testing.T, all []record.Record) flowPaths {
	t.Helper()
	w := make(flowPaths)
	newest := int64(0)
	for _, r := range all {
		newest = max(newest, r.TNs)
	}
	for _, r := range all {
		if r.Proto != "udp" && r.Proto != "tcp" {
			continue
		}
		if r.State != record.Delivered {
			t.Errorf("packet %s of %s:%d: %s %+v, sent %d ns before the newest", r.ID, r.Src, *r.Sport, r.State, r.Loss, newest-r.TNs)
		}
		src := netip.AddrPortFrom(netip.MustParseAddr(r.Src), uint16(*r.Sport))
		dst := netip.AddrPortFrom(netip.MustParseAddr(r.Dst), uint16(*r.Dport))
		// Sorted by name, as by captures, which do not tell the order.
		path := nodesOf(r)
		slices.Sort(path)
		w.add(flowName(r.Proto, src, dst), strings.Join(path, " "))
	}
	return w
}

// capturedPaths are the paths of the flows by the captures in all machines.
func capturedPaths(t *testing.T, captures map[string]*capture) flowPaths {
	t.Helper()
	machines := map[string][]string{} // by flow
	for name, c := range captures {
		list, err := c.stop()
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range list {
			proto := map[int]string{unix.IPPROTO_UDP: "udp", unix.IPPROTO_TCP: "tcp"}[p.proto()]
			flow := flowName(proto, p.from(), p.to())
			if !slices.Contains(machines[flow], name) {
				machines[flow] = append(machines[flow], name)
			}
		}
	}
	w := make(flowPaths)
	for flow, list := range machines {
		slices.Sort(list)
		w[flow] = strings.Join(list, " ")
	}
	return w
}

// checkPaths holds "radar paths" to the records: packets by path.
func checkPaths(t *testing.T, r *radar) {
	t.Helper()
	want := map[string]int{}
	for _, rec := range r.records(t) {
		want[strings.Join(nodesOf(rec), " > ")] += rec.Segs
	}
	type row struct {
		Path    string `json:"path"`
		Packets int    `json:"packets"`
	}
	got := map[string]int{}
	for _, p := range decode[row](t, r.run(t, "paths", "-o", "json")) {
		got[p.Path] += p.Packets
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("radar paths (-records +paths):\n%s", diff)
	}
}
