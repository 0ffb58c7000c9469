// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
	"golang.org/x/sys/unix"
)

// packetLog is a capture file in memory. Safe for concurrent use.
type packetLog struct {
	mu   sync.Mutex
	pcap bytes.Buffer
	w    *pcapgo.Writer
	err  error
}

func (l *packetLog) add(at time.Time, ip []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.w == nil {
		l.w = pcapgo.NewWriterNanos(&l.pcap)
		l.err = l.w.WriteFileHeader(262144, layers.LinkTypeRaw)
	}
	if l.err == nil {
		l.err = l.w.WritePacket(gopacket.CaptureInfo{Timestamp: at, CaptureLength: len(ip), Length: len(ip)}, ip)
	}
}

// finish makes a log without packets a valid file, too.
func (l *packetLog) finish() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.w == nil {
		l.w = pcapgo.NewWriterNanos(&l.pcap)
		l.err = l.w.WriteFileHeader(262144, layers.LinkTypeRaw)
	}
	return l.err
}

// rawSocket sees every packet of one protocol that a node gets, with its IP
// header, as any process would.
type rawSocket struct {
	packetLog
	node  string
	proto int
	fd    int
	quit  chan struct{}
	done  chan error
}

// listenRaw opens raw sockets in a node; what they get is kept.
func (c *captures) listenRaw(t *testing.T, node string, protos ...int) {
	t.Helper()
	for _, proto := range protos {
		s := &rawSocket{node: node, proto: proto, quit: make(chan struct{}), done: make(chan error, 1)}
		s.fd = c.net.receiveRaw(t, node, proto, 50*time.Millisecond)
		t.Cleanup(func() { unix.Close(s.fd) })
		go s.receive()
		c.sockets = append(c.sockets, s)
	}
}

func (s *rawSocket) receive() {
	buf := make([]byte, 1<<17)
	for {
		n, _, err := unix.Recvfrom(s.fd, buf, 0)
		switch {
		case errors.Is(err, unix.EAGAIN):
			select {
			case <-s.quit: // and nothing is left in the socket
				s.done <- nil
				return
			default:
			}
		case errors.Is(err, unix.EINTR):
		case err != nil:
			s.done <- fmt.Errorf("raw socket in %s: %w", s.node, err)
			return
		default:
			s.add(time.Now(), bytes.Clone(buf[:n]))
		}
	}
}

// stop reads what is left in the socket. What did not fit into it makes it incomplete.
func (s *rawSocket) stop() error {
	close(s.quit)
	err := errors.Join(<-s.done, s.finish())
	dropped, droppedErr := droppedBySocket(s.fd)
	if dropped > 0 {
		err = errors.Join(err, fmt.Errorf("%w: a raw socket in %s had no room for %d packets", errIncomplete, s.node, dropped))
	}
	return errors.Join(err, droppedErr)
}

// droppedBySocket is how many packets found no room in a socket (SO_MEMINFO, sock_diag(7)).
func droppedBySocket(fd int) (uint32, error) {
	const drops, all = 8, 9 // SK_MEMINFO_DROPS, SK_MEMINFO_VARS
	var info [all]uint32
	size := uint32(unsafe.Sizeof(info))
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_SOCKET, unix.SO_MEMINFO,
		uintptr(unsafe.Pointer(&info)), uintptr(unsafe.Pointer(&size)), 0)
	if errno != 0 {
		return 0, fmt.Errorf("ask a socket for its drops: %w", errno)
	}
	return info[drops], nil
}

// sink takes what comes to UDP ports of a node, so that nothing is refused. What
// no longer fits into the sockets is dropped behind everything that is looked at.
func (n *network) sink(t *testing.T, node string, ports ...int) {
	t.Helper()
	for _, port := range ports {
		var fd int
		err := n.within(node, func() (err error) {
			fd, err = unix.Socket(unix.AF_INET6, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0) // of both versions
			if err != nil {
				return err
			}
			return unix.Bind(fd, &unix.SockaddrInet6{Port: port})
		})
		if err != nil {
			t.Fatalf("take UDP port %d of %s: %v", port, node, err)
		}
		t.Cleanup(func() { unix.Close(fd) })
	}
}
