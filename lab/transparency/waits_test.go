// SPDX-License-Identifier: Apache-2.0

package transparency

import (
	"bytes"
	"encoding/binary"
	"net"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// line is chain without IPv6.
func line(w *World) {
	w.Nodes("out", "r1", "r2", "r3", "far")
	w.Link("out", "eth0", "10.0.1.1/24", "r1", "eth0", "10.0.1.2/24")
	w.Link("r1", "eth1", "10.0.2.1/24", "r2", "eth0", "10.0.2.2/24")
	w.Link("r2", "eth1", "10.0.3.1/24", "r3", "eth0", "10.0.3.2/24")
	w.Link("r3", "eth1", "10.0.4.1/24", "far", "eth0", "10.0.4.2/24")
	w.Forward("r1", "r2", "r3")
	w.Route("out", "default", "10.0.1.2")
	w.Route("far", "default", "10.0.4.1")
	w.Route("r1", "10.0.4.0/24", "10.0.2.2")
	w.Route("r2", "10.0.4.0/24", "10.0.3.2")
	w.Route("r2", "10.0.1.0/24", "10.0.2.1")
	w.Route("r3", "10.0.1.0/24", "10.0.3.1")
}

// Queue gives a port a queueing discipline: "tc qdisc add dev PORT root ARGS".
func (w *World) Queue(node, port string, args ...string) {
	w.T.Helper()
	w.Run(node, slices.Concat([]string{"tc", "qdisc", "add", "dev", port, "root"}, args)...)
}

// sentBy are the lines of "tc -s" that count packets, without what follows from times.
var sentBy = regexp.MustCompile(`^(qdisc|class) .*|Sent \d+ bytes \d+ pkt \(dropped \d+`)

// QueueCounters observes what the queues of a port have sent and dropped.
func (w *World) QueueCounters(node, port string) {
	w.Observe("queues of "+node+"/"+port, func() []string { return w.queueCounters(node, port) })
}

func (w *World) queueCounters(node, port string) (lines []string) {
	for _, what := range []string{"qdisc", "class"} {
		for _, line := range strings.Split(w.Run(node, "tc", "-s", what, "show", "dev", port), "\n") {
			if s := sentBy.FindString(strings.TrimSpace(line)); s != "" && !strings.Contains(s, "clsact") {
				lines = append(lines, s)
			}
		}
	}
	// A clsact qdisc, where there is no TCX, has a line of counters too.
	return slices.DeleteFunc(lines, func(l string) bool { return strings.HasPrefix(l, "Sent 0 ") })
}

// How far the median of radar's ends of waits may lie from the captures', and which part
// of the waits may be missing: kernels of some virtual machines call no tracing program
// while a thread of process 1 is current.
const (
	waitMedian = 20 * time.Microsecond
	waitUnseen = 5 // one in
)

// wantWaits checks the times in the queue of one port, and that no other has any. A
// capture sees a packet as it leaves the queue; compared are those with ports of their
// own.
func (r *Run) wantWaits(node, port string, longest time.Duration) {
	r.T.Helper()
	left, times := make(map[string]time.Time), make(map[string]int)
	for _, c := range r.captures {
		for _, s := range c.seen {
			if s.decoded != nil && c.node == node && c.port == port && s.dir == out {
				left[s.tuple()] = s.at
				times[s.tuple()]++
			}
		}
	}
	var off []time.Duration
	var most time.Duration
	unseen := 0
	for i := range r.Records {
		rec := &r.Records[i]
		src, dst := rec.Src, rec.Dst
		for _, h := range rec.Hops {
			if h.Node != node || h.Port != port {
				if h.QueueNs != nil {
					r.T.Errorf("a wait of %v at %s/%s, which has no queue", time.Duration(*h.QueueNs), h.Node, h.Port)
				}
				continue
			}
			tuple := recordTuple(rec, src, dst, deref(rec.Sport), deref(rec.Dport))
			at := left[tuple]
			switch {
			case times[tuple] != 1: // lost there, or one of several of a flow
			case h.QueueNs == nil:
				unseen++
			default:
				wait := time.Duration(*h.QueueNs)
				most = max(most, wait)
				off = append(off, at.Sub(time.Unix(0, rec.TNs+*h.AtNs)).Abs()-wait)
			}
		}
	}
	slices.Sort(off)
	if len(off) == 0 || unseen*waitUnseen > len(off)+unseen {
		r.T.Errorf("%d waits at %s/%s are known, %d are not", len(off), node, port, unseen)
		return
	}
	median := off[len(off)/2]
	r.T.Logf("%d waits at %s/%s, %d unseen, longest %v; capture - radar: median %v, most %v", len(off), node, port, unseen, most, median, off[len(off)-1])
	if median.Abs() > patience*waitMedian {
		r.T.Errorf("waits at %s/%s: their ends lie %v before the captures, in the median", node, port, median)
	}
	if most < longest {
		r.T.Errorf("the longest wait at %s/%s is %v, want %v at least", node, port, most, longest)
	}
}

// SendTrain sends a TCP packet as a GSO train of segments with size bytes each, by a
// packet socket, as a host with segmentation offload hands it to its interface.
func (w *World) SendTrain(node, port string, to net.HardwareAddr, p *Packet, size int) *Sent {
	w.T.Helper()
	ip := p.Bytes()
	l4, addrs, proto, gso := int(ip[0]&15)*4, ip[12:20], uint16(unix.ETH_P_IP), byte(vnetGSOTCP4)
	if ip[0]>>4 == 6 {
		l4, addrs, proto, gso = 40, ip[8:40], unix.ETH_P_IPV6, vnetGSOTCP6
	}
	binary.BigEndian.PutUint16(ip[l4+16:], 0)
	// The sum over the pseudo header alone; the device does the rest.
	pseudo := append(bytes.Clone(addrs), 0, unix.IPPROTO_TCP)
	pseudo = binary.BigEndian.AppendUint16(pseudo, uint16(len(ip)-l4))
	binary.BigEndian.PutUint16(ip[l4+16:], ^checksum(pseudo))
	hdr := make([]byte, vnetHeader)
	hdr[0], hdr[1] = vnetNeedsSum, gso
	tcp := int(ip[l4+12]>>4) * 4
	binary.NativeEndian.PutUint16(hdr[2:], uint16(14+l4+tcp))
	binary.NativeEndian.PutUint16(hdr[4:], uint16(size))
	binary.NativeEndian.PutUint16(hdr[6:], uint16(14+l4))
	binary.NativeEndian.PutUint16(hdr[8:], 16)
	frame := slices.Concat(hdr, to, mac(node, port), binary.BigEndian.AppendUint16(nil, proto), ip)
	index := w.Index(node, port)
	w.in(node, func() error {
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		if err := unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_VNET_HDR, 1); err != nil {
			return err
		}
		return unix.Sendto(fd, frame, 0, &unix.SockaddrLinklayer{Ifindex: index, Protocol: htons(proto)})
	})
	time.Sleep(gap)
	return w.Expect(p.Token)
}
