// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/record"
)

const (
	tcpBytes = 2 << 20
	// mss is what a segment carries at MTU 1500, with TCP time stamps.
	mss = 1448
	// tcpTime bounds one transfer.
	tcpTime = 5 * time.Minute
)

// idRun collects the IDs of one sender: an ordinary socket numbers its packets one
// by one, so that foreign bits show.
type idRun struct {
	first uint16
	steps []int // since the first one
}

// add adds a packet, or a train of n.
func (r *idRun) add(id uint16, n int) {
	if len(r.steps) == 0 {
		r.first = id
	}
	for i := range n {
		r.steps = append(r.steps, int(int16(id-r.first))+i)
	}
}

// check wants the IDs in a row. Packets that were lost and sent again leave holes, a
// few; an ID of radar's would lie somewhere else, or come twice.
func (r *idRun) check() error {
	if len(r.steps) == 0 {
		return errors.New("no packet was captured")
	}
	slices.Sort(r.steps) // CPUs overtake one another
	for i := 1; i < len(r.steps); i++ {
		if r.steps[i] == r.steps[i-1] {
			return fmt.Errorf("IP ID %d comes twice", r.first+uint16(r.steps[i]))
		}
	}
	n := len(r.steps)
	if holes := r.steps[n-1] - r.steps[0] + 1 - n; holes > n/50 {
		return fmt.Errorf("IP IDs are not in a row: %d packets have %d holes", n, holes)
	}
	return nil
}

// bulk sends bytes over TCP and has them sent back: both ways the peer must get
// what was sent.
func bulk(t *testing.T, client *place, dial netip.AddrPort, server *place, listen int) {
	t.Helper()
	l := listenTCP(server, listen)
	defer l.Close()
	deadline := time.Now().Add(tcpTime)
	echoed := make(chan error, 1)
	go func() { echoed <- echo(l, deadline) }()
	var c *net.TCPConn
	client.within(func() (err error) {
		c, err = net.DialTCP("tcp4", nil, net.TCPAddrFromAddrPort(dial))
		return err
	})
	defer c.Close()
	data := make([]byte, tcpBytes)
	for i := range data {
		data[i] = byte(i * 2654435761 >> 13)
	}
	if err := exchange(c, data, deadline); err != nil {
		t.Errorf("TCP from %s to %v: %v", client.name, dial, err)
	}
	if err := <-echoed; err != nil {
		t.Errorf("TCP server in %s: %v", server.name, err)
	}
}

// listenTCP listens in a place; the caller closes.
func listenTCP(p *place, port int) (l *net.TCPListener) {
	p.t.Helper()
	p.within(func() (err error) {
		l, err = net.ListenTCP("tcp4", &net.TCPAddr{Port: port})
		return err
	})
	return l
}

// echo sends all that the first client sends back to it.
func echo(l *net.TCPListener, deadline time.Time) error {
	if err := l.SetDeadline(deadline); err != nil {
		return err
	}
	c, err := l.Accept()
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.SetDeadline(deadline); err != nil {
		return err
	}
	_, err = io.Copy(c, c)
	return err
}

// exchange sends data and wants it back.
func exchange(c *net.TCPConn, data []byte, deadline time.Time) error {
	if err := c.SetDeadline(deadline); err != nil {
		return err
	}
	wrote := make(chan error, 1)
	go func() {
		_, err := c.Write(data)
		wrote <- errors.Join(err, c.CloseWrite())
	}()
	back, err := io.ReadAll(c)
	if err := errors.Join(err, <-wrote); err != nil {
		return err
	}
	if sha256.Sum256(back) != sha256.Sum256(data) {
		return fmt.Errorf("%d bytes came back, not what was sent", len(back))
	}
	return nil
}

// checkStream looks at one direction of a TCP connection, as it was captured where
// no packet may show a trace of radar.
func checkStream(t *testing.T, name string, seen []packet, src, dst netip.Addr, ttl uint8) {
	t.Helper()
	ids := &idRun{}
	for _, p := range seen {
		if p.proto() != unix.IPPROTO_TCP || p.src() != src || p.dst() != dst {
			continue
		}
		if p.ttl() != ttl || p.tos() != 0 {
			t.Errorf("%s: a packet has TTL %d, TOS %#x; it should have TTL %d", name, p.ttl(), p.tos(), ttl)
			return
		}
		if err := p.checkSums(false); err != nil {
			t.Errorf("%s: %v", name, err)
			return
		}
		if n, syn := p.tcp(); !syn && p.id() != 0 { // those of SYN-ACK and TIME-WAIT are 0
			ids.add(p.id(), max(1, (n+mss-1)/mss))
		}
	}
	if err := ids.check(); err != nil {
		t.Errorf("%s: %v", name, err)
	}
}

// tcpRound sends TCP between all, with the offloads that containers have.
func (w *dockerWorld) tcpRound(t *testing.T, r *radar) {
	t.Helper()
	inC, outside := w.c.capture("eth0", "tcp"), w.outside.capture("eth0", "tcp")
	bulk(t, w.a, at(w.b, portTCP), w.b, portTCP)
	bulk(t, w.a, at(w.c, portTCP), w.c, portTCP)
	bulk(t, w.outside, at(w.host, portHost), w.b, portTCP) // published
	bulk(t, w.a, at(w.outside, portTCP), w.outside, portTCP)
	bulk(t, w.a, at(w.host, portHost), w.b, portTCP) // hairpin

	seen, err := inC.stop()
	if err != nil {
		t.Fatal(err)
	}
	checkStream(t, "a to c", seen, w.a.addr, w.c.addr, 64)
	seen, err = outside.stop()
	if err != nil {
		t.Fatal(err)
	}
	var published, masqueraded []packet
	for _, p := range seen {
		switch {
		case p.sport() == portHost:
			published = append(published, p)
		case p.dport() == portTCP:
			masqueraded = append(masqueraded, p)
		}
	}
	checkStream(t, "b's published port to outside", published, w.host.addr, w.outside.addr, 63)
	checkStream(t, "a to outside, masqueraded", masqueraded, w.host.addr, w.outside.addr, 63)

	r.settle(t)
	got := map[string]int{}
	for _, rec := range r.records(t) {
		if rec.Proto != "tcp" || rec.State == record.Lost {
			continue
		}
		path := nodesOf(rec)
		got[fmt.Sprint(path)] += rec.Segs
		if rec.State != record.Delivered && rec.State != record.Left {
			t.Errorf("TCP by %v: %s", path, rec.State)
		}
	}
	least := tcpBytes / mss
	for _, path := range [][]string{{w.a.name, w.b.name}, {w.b.name, w.a.name}, {w.a.name, "host"}, {"host", w.a.name}, {"host", w.b.name}, {w.b.name, "host"}} {
		if n := got[fmt.Sprint(path)]; n < least {
			t.Errorf("radar has %d TCP packets by %v, there were at least %d", n, path, least)
		}
	}
}
