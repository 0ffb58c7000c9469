// SPDX-License-Identifier: Apache-2.0

package intnode

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/telemetry/node"
)

// TestHosts: the ends of the domain are the hosts themselves. INT is on every link, and no socket sees it.
func TestHosts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.refuses(2, "no other node takes it off", "int", "attach", "--role", "source", w.Spec("h1"))
	w.radar("int", "attach", "--role", "sink", "--via", w.Spec("r2"), w.Spec("h2"))
	w.radar("int", "attach", "--role", "source", "--watch", "udp", w.Spec("h1"))
	w.radar("int", "attach", "--role", "transit", w.Spec("r1"), w.Spec("r2"), w.Spec("r3"))
	c := w.collector("r2")
	first, last := w.capture("h1", "e1"), w.capture("h2", "e0")
	const n = 60
	w.send(flow{"h1", "h2", "10.0.3.2", 5001, n})
	w.send(flow{"h1", "h2", "fd00:3::2", 5001, n})
	for i, p := range ofPort(first.packets(false), 5001) {
		if s, err := readStack(p.payload); err != nil || p.check() != nil || len(s.hops) != 1 || s.hops[0].node != 2 {
			t.Fatalf("packet %d from h1: %+v, %v, %v", i, s, err, p.check())
		}
	}
	got := ofPort(last.packets(true), 5001)
	if len(got) != 2*n {
		t.Fatalf("%d packets came to h2", len(got))
	}
	for i, p := range got {
		if s, err := readStack(p.payload); err != nil || p.check() != nil || len(s.hops) != 4 {
			t.Fatalf("packet %d to h2: %+v, %v, %v", i, s, err, p.check())
		}
	}
	for i, r := range c.reports(2 * n) {
		if r.node != 1 || r.flags != 0x20 {
			t.Fatalf("report %d: %+v", i, r)
		}
	}
	// What hosts behind a router send stays as it is, and so does what h2 answers.
	if out, err := w.Try("h2", "ping", "-c1", "-W5", "10.0.0.1"); err != nil {
		t.Error(out)
	}
}

// TestKilledAgent: sources go on until the lease ends, sinks for ever. The next radar int status starts an
// agent, which sends what the ring has kept.
func TestKilledAgent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.nodes("--lease", "3s")
	c := w.collector("r2")
	inside, last := w.capture("r1", "e1"), w.capture("h2", "e0")
	const n = 20
	var pid, all int
	var bearing []byte
	// Once more where the lease had ended before all was sent: status starts an agent.
	nstest.WaitFor(t, "a source that goes on without an agent", func() bool {
		pid = w.status().Agent.PID
		w.kill(pid)
		w.send(flow{"h1", "h2", "10.0.3.2", 5001, n})
		marked := 0
		for _, p := range inside.packets(false) {
			if p.dscp == 0x17 {
				bearing = p.frame
				marked++
			}
		}
		all += marked
		return marked == n
	})
	nstest.WaitFor(t, "the end of the lease", func() bool {
		w.send(flow{"h1", "h2", "10.0.3.2", 5002, 1})
		list := ofPort(inside.packets(false), 5002)
		return len(list) > 0 && list[len(list)-1].dscp == 0
	})
	// A packet with INT that comes now is still freed of it.
	last.packets(true)
	w.in("r1", func() error { return nstest.SendFrameBypassing("e1", bearing) })
	var came []packet
	nstest.WaitFor(t, "the packet at h2", func() bool {
		came = append(came, ofPort(last.packets(true), 5001)...)
		return len(came) > 0
	})
	if p := came[0]; p.dscp != 0 || p.check() != nil || len(p.payload) < 4 || p.payload[0] != 0 {
		t.Errorf("it came with DSCP %#x, %v, payload % x", p.dscp, p.check(), p.payload)
	}
	s := w.status()
	if s.Agent.PID == 0 || s.Agent.PID == pid {
		t.Fatalf("no other agent: %+v", s.Agent)
	}
	c.reports(all + 1) // of the packets, and of the one with INT
	w.send(flow{"h1", "h2", "10.0.3.2", 5003, n})
	for i, p := range ofPort(inside.packets(false), 5003) {
		if p.dscp != 0x17 {
			t.Errorf("packet %d has no INT again", i)
		}
	}
	w.radar("int", "detach")
	w.left()
}

// TestDesertedAgent: an agent whose nodes are all gone says so, and ends with the lease.
func TestDesertedAgent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.nodes("--lease", "3s")
	pid := w.status().Agent.PID
	for _, name := range names {
		w.Delete(name)
	}
	nstest.WaitFor(t, "the agent's end", func() bool {
		_, err := os.Stat(fmt.Sprintf("/proc/%d", pid))
		return err != nil
	})
	log, err := os.ReadFile(filepath.Join(w.state, "int", w.domain, "agent.log"))
	if err != nil || !strings.Contains(string(log), "all of its ports are gone") {
		t.Errorf("the agent's log says %q, %v", log, err)
	}
	w.radar("int", "detach")
	w.left()
}

// TestRefresh: an agent that brings ports up to date takes INT from no packet. It does so when ports come and go, and
// when it finds a description that is newer than what it knows, as after each radar int attach.
func TestRefresh(t *testing.T) {
	for _, by := range []string{"tcx", "clsact"} {
		t.Run(by, func(t *testing.T) {
			w := newWorld(t)
			w.nodes("--hook", by)
			inside := w.capture("r1", "e1")
			t.Setenv("RADAR_STATE_DIR", w.state)
			done := make(chan error, 1)
			go func() {
				for range 20 {
					if _, _, err := node.Refresh(w.domain); err != nil {
						done <- err
						return
					}
				}
				done <- nil
			}()
			for sent, unmarked := 0, 0; ; {
				w.send(flow{"h1", "h2", "10.0.3.2", 5001, 100})
				for _, p := range ofPort(inside.packets(false), 5001) {
					if sent++; p.dscp != 0x17 {
						unmarked++
					}
				}
				select {
				case err := <-done:
					if err != nil || unmarked > 0 || sent == 0 {
						t.Errorf("%v; %d of %d packets have no INT: %v", err, unmarked, sent, w.status().of("r1"))
					}
					return
				default:
				}
			}
		})
	}
}

// TestDetach: packets under way have passed the sinks when these go, offloads are as they were, and
// nothing is left.
func TestDetach(t *testing.T) {
	need.Programs(t, "ethtool")
	t.Parallel()
	w := newWorld(t)
	features := func() (text string) {
		for _, of := range [][2]string{{"h1", "e1"}, {"r1", "e0"}, {"r1", "e1"}, {"r2", "e0"}} {
			text += w.Run(of[0], "ethtool", "-k", of[1])
		}
		return text
	}
	for _, r := range names[1:4] { // room for INT behind full segments, at edges, too
		w.Run(r, "ip", "link", "set", "e0", "mtu", "2000")
		w.Run(r, "ip", "link", "set", "e1", "mtu", "2000")
	}
	before := features()
	w.nodes("--no-gso")
	if during := features(); during == before || !strings.Contains(during, "tcp-segmentation-offload: off") {
		t.Error("no offload was switched off")
	}
	inside, last := w.capture("r1", "e1"), w.capture("h2", "e0")
	w.stream()
	marked := 0
	for _, p := range inside.packets(false) {
		if p.proto == 6 && p.dscp == 0x17 {
			marked++
		}
	}
	if c := w.status().of("r1"); marked < 100 || c["gso"] > 0 || c["mtu"] > 0 {
		t.Errorf("%d packets of TCP had INT, %v", marked, c)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.send(flow{"h1", "h2", "10.0.3.2", 5001, 2000})
	}()
	w.radar("int", "detach", "r2/e1")
	w.radar("int", "detach")
	<-done
	w.left()
	for i, p := range last.packets(true) {
		if p.dscp == 0x17 {
			t.Fatalf("packet %d came to h2 with INT", i)
		}
	}
	if after := features(); after != before {
		t.Errorf("offloads before\n%s\nafterwards\n%s", before, after)
	}
	if out := w.radar("int", "detach"); !strings.Contains(out, "nothing to do") {
		t.Errorf("again: %s", out)
	}
}

// TestDetachElsewhere: with another state directory nobody changes, or takes off, what a living agent keeps: who asks is told
// who keeps it, and where. Once nobody keeps it, it can be taken off from anywhere.
func TestDetachElsewhere(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.nodes()
	pid, ours, other := w.status().Agent.PID, w.state, t.TempDir()
	w.state = other
	detach := fmt.Sprintf("process %d, which has the state directory %s and not %s (detach it with: RADAR_STATE_DIR=%s radar int detach --domain %s)", pid, ours, other, ours, w.domain)
	w.refuses(1, detach, "int", "detach")
	w.refuses(1, detach, "int", "attach", "--role", "transit", w.Spec("r2"))
	w.refuses(1, fmt.Sprintf("process %d keeps it in %s", pid, ours), "int", "status")
	if left, err := os.ReadDir(other); err != nil || len(left) > 0 {
		t.Errorf("left in the other state directory: %v, %v", left, err)
	}
	w.state = ours
	if now := w.status().Agent.PID; now != pid {
		t.Errorf("the agent was process %d, and is %d", pid, now)
	}
	inside := w.capture("r1", "e1")
	w.send(flow{"h1", "h2", "10.0.3.2", 5001, 20})
	if n := marked(ofPort(inside.packets(false), 5001)); n != 20 {
		t.Errorf("%d of 20 packets bear INT", n)
	}
	w.kill(pid)
	w.state = other
	w.radar("int", "detach")
	w.left()
	w.state = ours
	w.radar("int", "detach")
	w.left()
}

// stream sends a megabyte by TCP from h1 to h2.
func (w *world) stream() {
	w.Helper()
	var l net.Listener
	w.in("h2", func() (err error) {
		l, err = net.Listen("tcp4", ":5009")
		return err
	})
	defer l.Close()
	sent := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	got := make(chan []byte, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			got <- nil
			return
		}
		b, _ := io.ReadAll(c)
		c.Close()
		got <- b
	}()
	var c net.Conn
	w.in("h1", func() (err error) {
		c, err = net.Dial("tcp4", "10.0.3.2:5009")
		return err
	})
	_ = c.SetDeadline(time.Now().Add(nstest.Patience))
	if _, err := c.Write(sent); err != nil {
		w.Fatal(err)
	}
	c.Close()
	var b []byte
	select {
	case b = <-got:
	case <-time.After(nstest.Patience):
		w.Fatal("TCP does not end")
	}
	if !bytes.Equal(b, sent) {
		w.Errorf("%d bytes were sent, %d have come, or others", len(sent), len(b))
	}
}

// TestNarrowEdge: links inside have room, and the edge has not. A router drops what does not fit there as
// it comes in, before INT is taken off: so such packets get none.
func TestNarrowEdge(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, of := range [][2]string{{"r1", "e1"}, {"r2", "e0"}, {"r2", "e1"}, {"r3", "e0"}} {
		w.Run(of[0], "ip", "link", "set", of[1], "mtu", "2000")
	}
	w.nodes("--no-gso")
	w.stream()
	s := w.status()
	if c := s.of("r1"); c["mtu"] == 0 {
		t.Errorf("%v", c)
	}
	if !strings.Contains(fmt.Sprint(s.Notes), "packets get INT up to 1500 bytes, the MTU of r1/e0, and not up to 2000") {
		t.Errorf("%q", s.Notes)
	}
}

// TestKilledAttach: what a killed attach leaves is taken by the next one, also without a description.
func TestKilledAttach(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.nodes("--no-gso")
	w.kill(w.status().Agent.PID)
	state := filepath.Join(w.state, "int", w.domain, "domain.json")
	if err := os.Remove(state); err != nil {
		t.Fatal(err)
	}
	w.refuses(1, "is half attached", "int", "status")
	w.radar("int", "attach", "--role", "sink", w.Spec("r1")+"/e0")
	if in, out := w.programs("r2", "e0"); len(in)+len(out) > 0 {
		t.Errorf("r2 is no node any more, and has %v and %v", in, out)
	}
	w.nodes()
	inside := w.capture("r1", "e1")
	w.send(flow{"h1", "h2", "10.0.3.2", 5001, 5})
	for i, p := range ofPort(inside.packets(false), 5001) {
		if s, err := readStack(p.payload); err != nil || len(s.hops) != 1 {
			t.Fatalf("packet %d: %v, %+v, %+v", i, err, s, w.status())
		}
	}
	w.kill(w.status().Agent.PID)
	if err := os.Remove(state); err != nil {
		t.Fatal(err)
	}
	w.radar("int", "detach")
	w.left()
}

// TestPortComesBack: an interface that was removed and made again under its name is a port again, and an
// MTU that changes counts at once.
func TestPortComesBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.nodes()
	w.Run("r1", "ip", "link", "del", "e1")
	nstest.WaitFor(t, "the port to be gone", func() bool {
		for _, n := range w.status().Nodes {
			for _, p := range n.Ports {
				if n.Name == "r1" && p.Name == "e1" {
					return p.Gone
				}
			}
		}
		return false
	})
	w.wire(1)
	for i := range names {
		w.routes(i)
	}
	inside := w.capture("r1", "e1")
	has := func(port int) bool {
		w.send(flow{"h1", "h2", "10.0.3.2", port, 1})
		list := ofPort(inside.packets(false), port)
		return len(list) > 0 && list[len(list)-1].dscp == 0x17
	}
	nstest.WaitFor(t, "INT on the new link", func() bool { return has(5001) })
	w.Run("r1", "ip", "link", "set", "e1", "mtu", "1280")
	long := func() (marked bool) {
		var in *net.UDPConn
		w.in("h2", func() (err error) {
			in, err = net.ListenUDP("udp", &net.UDPAddr{Port: 5004})
			return err
		})
		defer in.Close()
		w.in("h1", func() error {
			c, err := net.Dial("udp", "10.0.3.2:5004")
			if err != nil {
				return err
			}
			defer c.Close()
			_, err = c.Write(make([]byte, 1230))
			return err
		})
		_ = in.SetReadDeadline(time.Now().Add(nstest.Patience))
		if n, err := in.Read(make([]byte, 2000)); err != nil || n != 1230 {
			t.Fatalf("%d bytes, %v", n, err)
		}
		list := ofPort(inside.packets(false), 5004)
		return len(list) > 0 && list[len(list)-1].dscp == 0x17
	}
	nstest.WaitFor(t, "the MTU to be known", func() bool { return !long() })
	if c := w.status().of("r1"); c["mtu"] == 0 {
		t.Errorf("%v", c)
	}
}

// TestDomains: a domain of radar attach takes ports of INT nodes for its edges. Packets pass both
// unharmed, and none is lost from sight.
func TestDomains(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	nstest.Cleanup(t, func() { _, _ = w.try("detach", "--no-drain") })
	w.nodes()
	said := w.radar("attach", "-d", "--slots", "64K", w.Spec("h1"), w.Spec("r1"), w.Spec("r2"), w.Spec("r3"), w.Spec("h2"))
	if n := strings.Count(said, "is a port of an INT node"); n != 6 {
		t.Errorf("attach speaks of %d ports of INT nodes, not 6:\n%s", n, said)
	}
	for _, at := range [][2]string{{"r1", "e0"}, {"r1", "e1"}, {"r2", "e0"}, {"r3", "e1"}} {
		in, out := w.programs(at[0], at[1])
		if fmt.Sprint(in) != "[rdr_in radar_int_ingress]" || fmt.Sprint(out) != "[rdr_out radar_int_egress]" {
			t.Errorf("%s/%s: ingress %v, egress %v", at[0], at[1], in, out)
		}
	}
	sent, got := w.capture("h1", "e1"), w.capture("h2", "e0")
	w.send(flow{"h1", "h2", "10.0.3.2", 5001, 50})
	if a, b := len(ofPort(sent.packets(false), 5001)), len(ofPort(got.packets(true), 5001)); a != 50 || b != 50 {
		t.Errorf("%d packets at h1, %d at h2", a, b)
	}
	// Five nodes, each with a story of its own of each packet.
	paths := w.radar("paths", "-o", "json", "udp dst port 5001")
	for _, node := range []string{"h1", "r1", "r2", "r3", "h2"} {
		if !strings.Contains(paths, node) {
			t.Errorf("no path over %s:\n%s", node, paths)
		}
	}
	w.radar("int", "detach")
	w.left()
}

// TestInsideDomain: a port of a domain of radar attach gets no INT: packets would be lost from sight.
func TestInsideDomain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	nstest.Cleanup(t, func() { _, _ = w.try("detach", "--no-drain") })
	w.radar("attach", "-d", "--slots", "64K", w.Spec("r1"), w.Spec("r2"))
	w.refuses(3, "is a port of a domain of", "int", "attach", "--role", "sink", "r1/e0")
}

// TestOneDomainAPort: a port has a role in one INT domain, and clsact filters of radar attach leave no room.
func TestOneDomainAPort(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.nodes()
	other := w.domain + "b"
	w.refuses(2, "is source and sink in INT domain", "int", "attach", "--domain", other, "--role", "sink", w.Spec("r1")+"/e0")
	w.refuses(2, "is source and sink already", "int", "attach", "--role", "transit", w.Spec("r1")+"/e0")
	w.refuses(2, "has no port e9", "int", "attach", "--role", "sink", "r1/e9")
	w.refuses(2, "is that of node r1", "int", "attach", "--role", "sink", "--node-id", "1", w.Spec("h2"))
	w.refuses(2, "no other node takes it off", "int", "detach", "r3")
	w.refuses(2, "detach first", "int", "attach", "--mark", "dscp=0x10")
	w.radar("int", "detach", "r2")
	w.radar("int", "detach")
	w.left()
	if entries, err := os.ReadDir(w.state); err != nil || len(entries) > 0 {
		t.Errorf("%v, %v", entries, err)
	}
	nstest.Cleanup(t, func() { _, _ = w.try("detach", "--no-drain") })
	w.radar("attach", "-d", "--slots", "64K", "--hook", "clsact", w.Spec("h1"), w.Spec("r1"))
	w.refuses(3, "is a port of a domain of", "int", "attach", "--role", "sink", "--hook", "clsact", "r1/e0")
	w.refuses(3, "is a port of a domain of", "int", "attach", "--role", "sink", "r1/e0")
	if in, out := w.programs("r1", "e0"); len(in)+len(out) > 0 {
		t.Errorf("left: %v, %v", in, out)
	}
}

// TestNobodyListens: reports that nobody takes are counted, and status says so in words.
func TestNobodyListens(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.nodes("--sample", "2")
	nstest.WaitFor(t, "words about the collector", func() bool {
		w.send(flow{"h1", "h2", "10.0.3.2", 5001, 10})
		return strings.Contains(fmt.Sprint(w.status().Notes), "nobody listens at the collector's address 127.0.0.1:32766")
	})
	if c := w.status().of("r1"); c["source"] == 0 || c["not_sampled"] == 0 {
		t.Errorf("%v", c)
	}
}
