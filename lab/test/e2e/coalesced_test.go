// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/lab/test/nstest"
)

const (
	coalescedTCP, coalescedUDP = 7020, 7021
	coalescedTrains            = 8
)

// TestCoalesced: while a stream has a hole, TCP joins what comes behind it into one skb,
// which counts as many segments as all of them have. When the stream is aborted the kernel
// frees that skb: what radar says of it must not be said of packets of others, whose slots
// follow those of the first train.
func TestCoalesced(t *testing.T) {
	n := startNetwork(lifetime(t), t, "chain")
	// The first segment alone begins like that, whenever it is sent (behind 32 bytes of header).
	n.run(t, "r1", "nft", "add table ip hole; add chain ip hole forward { type filter hook forward priority 0; }; "+
		"add rule ip hole forward ip protocol tcp @th,256,32 0x686f6c65 counter drop")
	n.sink(t, "h2", coalescedUDP)
	rad := n.attach(t, n.nodes())
	to := net.IP(n.addr(t, "h2").AsSlice())
	var listener *net.TCPListener
	err := n.within("h2", func() (err error) {
		listener, err = net.ListenTCP("tcp4", &net.TCPAddr{Port: coalescedTCP})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	var stream *net.TCPConn
	if err := n.within("h1", func() (err error) { stream, err = sendAroundHole(to); return err }); err != nil {
		t.Fatal(err)
	}
	aborted, err := listener.AcceptTCP()
	if err != nil {
		t.Fatal(err)
	}
	nstest.WaitFor(t, "trains that wait for what is lost", func() bool { return outOfOrder(t, aborted) >= 6 })
	if err := errors.Join(stream.Close(), aborted.SetLinger(0), aborted.Close()); err != nil {
		t.Fatal(err)
	}
	rad.settle(t)
	freed, joined := 0, 0
	for _, r := range rad.records(t) {
		switch {
		case r.Dport == nil || r.LocalDrop == nil:
		case *r.Dport == coalescedTCP && r.LocalDrop.Function == "skb_rbtree_purge":
			freed++
			joined = max(joined, r.Segs)
		case *r.Dport == coalescedUDP:
			t.Errorf("a datagram that a socket has: local_drop %+v", *r.LocalDrop)
		}
	}
	t.Logf("%d records of the stream freed, of up to %d segments", freed, joined)
	if freed == 0 {
		t.Error("nothing of the stream was freed out of order: this tells nothing")
	}
}

// outOfOrder is how many segments a connection has got behind a hole.
func outOfOrder(t *testing.T, c *net.TCPConn) (segments uint32) {
	t.Helper()
	raw, err := c.SyscallConn()
	if err == nil {
		err = raw.Control(func(fd uintptr) {
			info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
			if err != nil {
				t.Errorf("TCP_INFO: %v", err)
				return
			}
			segments = info.Rcv_ooopack
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	return segments
}

// sendAroundHole sends a segment that will be lost, whenever it is sent, then trains that wait
// for it at the receiver, each followed by datagrams. The caller closes the connection.
func sendAroundHole(to net.IP) (*net.TCPConn, error) {
	stream, err := net.DialTCP("tcp4", nil, &net.TCPAddr{IP: to, Port: coalescedTCP})
	if err != nil {
		return nil, fmt.Errorf("connect to %v: %w", to, err)
	}
	datagrams, err := net.DialUDP("udp4", nil, &net.UDPAddr{IP: to, Port: coalescedUDP})
	if err != nil {
		stream.Close()
		return nil, fmt.Errorf("send to %v: %w", to, err)
	}
	defer datagrams.Close()
	_, err = stream.Write([]byte("hole"))
	for range coalescedTrains {
		_, sent := stream.Write(bytes.Repeat([]byte("train"), 600))
		err = errors.Join(err, sent)
		for range 4 {
			_, sent := datagrams.Write([]byte("datagram"))
			err = errors.Join(err, sent)
		}
	}
	return stream, err
}
