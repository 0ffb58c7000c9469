// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// tcpWatch checks the IP header of all TCP that a node receives, with offloads
// on: TTL, TOS, DF and checksum exactly, and that IDs go on as the sender counts
// them. Payloads are TCP's own business.
type tcpWatch struct {
	fd           int
	ttl          uint8
	right, wrong atomic.Int64
	first        atomic.Pointer[string]
	stop         atomic.Bool
	done         chan error
	last         map[[12]byte]tcpPlace // by addresses and ports
}

// tcpPlace is where a connection stands.
type tcpPlace struct {
	seq uint32 // expected next
	id  uint16
}

const (
	ethernetMSS = 1448 // with time stamps
	// maxIDGap between packets that follow each other: retransmissions in between
	// take IDs, too.
	maxIDGap = 4096
)

// watchTCP checks until it is finished; packets must arrive with that TTL.
func (n *network) watchTCP(t *testing.T, node string, ttl uint8) *tcpWatch {
	t.Helper()
	w := &tcpWatch{ttl: ttl, done: make(chan error, 1), last: map[[12]byte]tcpPlace{}}
	w.fd = n.receiveRaw(t, node, unix.IPPROTO_TCP, 100*time.Millisecond)
	t.Cleanup(func() { unix.Close(w.fd) })
	go func() { w.done <- w.receive() }()
	return w
}

func (w *tcpWatch) receive() error {
	head := make([]byte, 128) // what lies behind is cut off
	for {
		n, _, err := unix.Recvfrom(w.fd, head, 0)
		switch {
		case errors.Is(err, unix.EAGAIN) && w.stop.Load():
			return nil
		case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return fmt.Errorf("watch TCP: %w", err)
		case n < 40:
			continue
		}
		if s := w.check(head[:n]); s != "" {
			w.wrong.Add(1)
			w.first.CompareAndSwap(nil, &s)
		} else {
			w.right.Add(1)
		}
	}
}

// check returns what is wrong with the header, "" if nothing is.
func (w *tcpWatch) check(ip []byte) string {
	id := binary.BigEndian.Uint16(ip[4:])
	switch {
	case ip[0] != 0x45 || ip[1] != 0 || binary.BigEndian.Uint16(ip[6:]) != 0x4000:
		return fmt.Sprintf("TOS or flags: % x", ip[:20])
	case ip[8] != w.ttl:
		return fmt.Sprintf("TTL %d, should be %d: % x", ip[8], w.ttl, ip[:20])
	case ipChecksum(ip[:20]) != 0:
		return fmt.Sprintf("IP checksum: % x", ip[:20])
	}
	flow := [12]byte(ip[12:24])
	seq := binary.BigEndian.Uint32(ip[24:])
	payload := int(binary.BigEndian.Uint16(ip[2:])) - 20 - int(ip[32]>>4)*4
	last, known := w.last[flow]
	if ip[33]&2 == 0 { // a SYN has an ID of its own
		segs := max((payload+ethernetMSS-1)/ethernetMSS, 1)
		w.last[flow] = tcpPlace{seq + uint32(payload), id + uint16(segs)}
	}
	// Either way: two CPUs may send an acknowledgement each and swap them, also
	// where there is no radar.
	if gap := int16(id - last.id); known && last.seq == seq && (gap > maxIDGap || gap < -maxIDGap) {
		return fmt.Sprintf("ID %d after %d: % x", id, last.id-1, ip[:20])
	}
	return ""
}

// finish waits until all that is in flight was checked.
func (w *tcpWatch) finish(t *testing.T) {
	t.Helper()
	w.stop.Store(true)
	if err := <-w.done; err != nil {
		t.Error(err)
	}
	if s := w.first.Load(); s != nil {
		t.Errorf("%d TCP packets arrived wrong; the first: %s", w.wrong.Load(), *s)
	}
	if w.right.Load() == 0 {
		t.Error("no TCP packet was seen")
	}
}
