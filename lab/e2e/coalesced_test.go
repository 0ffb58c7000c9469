// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"
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
	n := startNetwork(deadline(t, time.Minute), t, "chain")
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
	if err := n.within("h1", func() error { return sendAroundHole(to) }); err != nil {
		t.Fatal(err)
	}
	aborted, err := listener.AcceptTCP()
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(aborted.SetLinger(0), aborted.Close()); err != nil {
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

// sendAroundHole sends a segment that will be lost, then trains that wait for it at the
// receiver, each followed by datagrams.
func sendAroundHole(to net.IP) error {
	stream, err := net.DialTCP("tcp4", nil, &net.TCPAddr{IP: to, Port: coalescedTCP})
	if err != nil {
		return fmt.Errorf("connect to %v: %w", to, err)
	}
	defer stream.Close()
	datagrams, err := net.DialUDP("udp4", nil, &net.UDPAddr{IP: to, Port: coalescedUDP})
	if err != nil {
		return fmt.Errorf("send to %v: %w", to, err)
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
	time.Sleep(300 * time.Millisecond) // all have arrived, but what is lost again and again
	return err
}
