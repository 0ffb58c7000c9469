// SPDX-License-Identifier: Apache-2.0

package intnode

import (
	"bytes"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/lab/test/nstest"
)

// closed are the ports that lead to somebody who is no INT node, as in "r1/e1 h1/e0".
func (w *world) closed() (list []string) {
	for _, n := range w.status().Nodes {
		for _, p := range n.Ports {
			if p.Closed != "" {
				list = append(list, n.Name+"/"+p.Name)
			}
		}
	}
	return list
}

// TestPlainEnds: ports of nodes that are transit as a whole lead to plain hosts, too. These get no INT, and what they
// have behind them gets INT as soon as it is a node.
func TestPlainEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	inside, first, last := w.capture("r1", "e1"), w.capture("h1", "e1"), w.capture("h2", "e0")
	check := func(when string, marks bool) {
		t.Helper()
		inside.packets(false)
		w.send(flow{"h1", "h2", "10.0.3.2", 5001, 20})
		if n := marked(ofPort(inside.packets(false), 5001)); (n == 20) != marks || !marks && n > 0 {
			t.Errorf("%s: %d of 20 packets bear INT between r1 and r2", when, n)
		}
		if n := bearing(last.packets(true)) + bearing(first.packets(true)); n > 0 {
			t.Errorf("%s: %d packets came to hosts with INT", when, n)
		}
	}
	w.radar("int", "attach", "--role", "sink", w.Spec("r3")+"/e1")
	w.radar("int", "attach", "--role", "source", w.Spec("r1")+"/e0")
	out := w.radar("int", "attach", "--role", "transit", "r1", "r3")
	if !strings.Contains(out, "r1/e1 leads to") || !strings.Contains(out, "which is no INT node") {
		t.Errorf("attach says nothing of r2: %s", out)
	}
	check("r2 is no node", false)
	w.radar("int", "attach", "--role", "transit", w.Spec("r2"))
	check("r2 is a node", true)
	if list := w.closed(); len(list) > 0 {
		t.Errorf("closed: %v", list)
	}
	w.radar("int", "detach", "r2")
	check("r2 is none again", false)
	w.radar("int", "attach", "--sink-elsewhere", "--role", "transit", "r1")
	check("others take INT off", true)
	w.radar("int", "attach", "--sink-elsewhere=false", "--role", "transit", "r1", w.Spec("r2"))
	check("r2 once more", true)
}

// TestWholeNodes: ports of whole nodes lead to hosts, of which one gives INT, and the other is plain.
func TestWholeNodes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	// All ports of r1, r2 and r3, those to h1 and h2 among them. h1 gives INT to what it sends.
	w.radar("int", "attach", "--role", "transit", w.Spec("r1"), w.Spec("r2"), w.Spec("r3"))
	w.radar("int", "attach", "--role", "source", w.Spec("h1"))
	inside, last := w.capture("r1", "e1"), w.capture("h2", "e0")
	w.send(flow{"h1", "h2", "10.0.3.2", 5001, 20}) // compares what the socket gets
	if n := marked(ofPort(inside.packets(false), 5001)); n != 20 {
		t.Errorf("%d of 20 packets bear INT inside", n)
	}
	if n := bearing(last.packets(true)); n > 0 {
		t.Errorf("%d packets came to h2 with INT", n)
	}
}

// TestMovedSink: the end of the domain moves from the last router to the host behind it, the new one first. The socket gets
// what was sent all the time; a port without a role is said.
func TestMovedSink(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.nodes()
	inside := w.capture("r1", "e1")
	check := func(when string) {
		t.Helper()
		w.send(flow{"h1", "h2", "10.0.3.2", 5001, 20}) // compares what the socket gets
		if n := marked(ofPort(inside.packets(false), 5001)); n != 20 {
			t.Errorf("%s: %d of 20 packets bear INT inside", when, n)
		}
	}
	w.radar("int", "attach", "--role", "sink", w.Spec("h2"))
	check("a new sink")
	w.radar("int", "detach", "r3/e1")
	if notes := strings.Join(w.status().Notes, "; "); !strings.Contains(notes, "r3/e1 has no role: what has INT and leaves there keeps it") {
		t.Errorf("status says nothing of r3/e1: %s", notes)
	}
	check("a port without a role before it")
	w.radar("int", "attach", "--role", "transit", "r3/e1")
	check("the old one is transit")
	if c := w.status().of("h2"); c["sink"] < 40 {
		t.Errorf("h2 has taken INT from %d packets", c["sink"])
	}
}

// TestBridge: INT nodes whose links are a bridge of somebody else. A plain host that joins it closes their ports.
func TestBridge(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Add("sw")
	w.Add("h3")
	w.Run("r1", "ip", "link", "del", "e1") // r1 and r2 by a bridge
	for _, of := range [][2]string{{"r1", "e1"}, {"r2", "e0"}} {
		w.Veth("sw", of[0], of[0], of[1])
	}
	w.Run("sw", "ip", "link", "add", "br0", "type", "bridge")
	for _, port := range []string{"r1", "r2"} {
		w.Run("sw", "ip", "link", "set", port, "master", "br0")
	}
	w.Run("sw", "ip", "link", "set", "br0", "up")
	for _, of := range [][3]string{{"r1", "e1", "1"}, {"r2", "e0", "2"}} {
		w.Address(of[0], of[1], "10.0.1."+of[2]+"/24")
	}
	for i := range names {
		w.routes4(i)
	}
	w.nodes()
	if list := w.closed(); len(list) > 0 {
		t.Fatalf("closed: %v", list)
	}
	inside := w.capture("r1", "e1")
	w.send(flow{"h1", "h2", "10.0.3.2", 5001, 20})
	if n := marked(ofPort(inside.packets(false), 5001)); n != 20 {
		t.Errorf("%d of 20 packets bear INT over the bridge", n)
	}
	w.Veth("sw", "h3", "h3", "e0")
	w.Run("sw", "ip", "link", "set", "h3", "master", "br0")
	w.Address("h3", "e0", "10.0.1.3/24")
	w.Run("h3", "ip", "route", "add", "default", "via", "10.0.1.1")
	nstest.WaitFor(t, "the ports to the bridge to be closed", func() bool { return len(w.closed()) == 2 })
	w.send(flow{"h1", "h3", "10.0.1.3", 5001, 20})
	for _, p := range ofPort(inside.packets(false), 5001) {
		if p.dst == "[10 0 1 3]" && p.dscp == 0x17 {
			t.Error("a packet to h3 bears INT")
		}
	}
}

// routes4 gives a node its IPv4 routes.
func (w *world) routes4(i int) {
	for j := range 4 {
		to := "10.0." + string(rune('0'+j)) + ".0/24"
		if j > i {
			w.Run(names[i], "ip", "route", "replace", to, "via", "10.0."+string(rune('0'+i))+".2")
		}
		if j < i-1 {
			w.Run(names[i], "ip", "route", "replace", to, "via", "10.0."+string(rune('0'+i-1))+".1")
		}
	}
}

// TestErrorQueue: the error queue of a socket returns the payload that was sent, from hosts behind an edge, and from
// hosts that give INT themselves.
func TestErrorQueue(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Run("r2", "sysctl", "-qw", "net.ipv4.icmp_ratelimit=0", "net.ipv6.icmp.ratelimit=0")
	w.nodes()
	inside := w.capture("r1", "e1")
	check := func(when, address string) {
		t.Helper()
		sent := []byte("what h1 has sent to h2")
		if got := w.expired("h1", address, sent); !bytes.Equal(got, sent) {
			t.Errorf("%s: the error queue returns % x of %q", when, got, sent)
		}
		if n := marked(inside.packets(false)); n != 1 {
			t.Errorf("%s: %d packets bore INT", when, n)
		}
	}
	check("behind an edge", "10.0.3.2")
	check("behind an edge", "fd00:3::2")
	w.radar("int", "detach")
	w.radar("int", "attach", "--role", "sink", w.Spec("h2"))
	w.radar("int", "attach", "--role", "source", w.Spec("h1"))
	w.radar("int", "attach", "--role", "transit", w.Spec("r1"), w.Spec("r2"), w.Spec("r3"))
	check("a host that is a source", "10.0.3.2")
	check("a host that is a source", "fd00:3::2")
}

// expired sends a datagram that ends at the second router, and returns what the error queue says was sent.
func (w *world) expired(name, address string, payload []byte) (got []byte) {
	w.Helper()
	w.in(name, func() error {
		c, err := net.Dial("udp", net.JoinHostPort(address, "5010"))
		if err != nil {
			return err
		}
		defer c.Close()
		raw, err := c.(*net.UDPConn).SyscallConn()
		if err != nil {
			return err
		}
		var set error
		_ = raw.Control(func(fd uintptr) {
			if strings.Contains(address, ":") {
				if set = unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_UNICAST_HOPS, 2); set == nil {
					set = unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_RECVERR, 1)
				}
			} else if set = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_TTL, 2); set == nil {
				set = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_RECVERR, 1)
			}
		})
		if set != nil {
			return set
		}
		if _, err := c.Write(payload); err != nil {
			return err
		}
		b, oob := make([]byte, 2000), make([]byte, 500)
		for end := time.Now().Add(nstest.Patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
			n := -1
			_ = raw.Control(func(fd uintptr) { n, _, _, _, err = unix.Recvmsg(int(fd), b, oob, unix.MSG_ERRQUEUE|unix.MSG_DONTWAIT) })
			if err == nil {
				got = b[:n]
				return nil
			}
		}
		return err
	})
	return got
}
