// SPDX-License-Identifier: Apache-2.0

package kernels

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/vnet/topo"
)

// Headers, as they are sent.
const (
	ipBytes      = 20
	udpBytes     = 8
	icmpBytes    = 8
	tcpBytes     = 32 // with timestamps
	payloadBytes = 64

	flagDF  = 0x4000
	sentTTL = 64
	sentTOS = 10<<2 | 2 // DSCP 10, ECN ECT(0)
	udpPort = 7007
	tcpPort = 7008
	echoID  = 0x7275

	typeReply       = 0
	typeUnreachable = 3
	typeEcho        = 8
)

// patience is how long to wait for one thing to happen: an emulated machine takes its time, and
// packets of whose end the kernel tells nobody end by timeout (program.Options, 10 s).
const patience = 2 * time.Minute

// rawSocket opens a raw socket in a node. Its reads give up after patience.
func rawSocket(t *testing.T, node topo.NodeSpec, proto int) int {
	t.Helper()
	fd := -1
	in(t, node, func() (err error) {
		fd, err = unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, proto)
		return err
	})
	t.Cleanup(func() { unix.Close(fd) })
	tv := unix.NsecToTimeval(int64(patience))
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &tv); err != nil {
		t.Fatal(err)
	}
	return fd
}

// receivePacket waits for a packet. Signals, which Go's runtime sends itself, do not end it.
func receivePacket(fd int, buf []byte) (n int, err error) {
	err = nstest.Again(func() (err error) { n, _, err = unix.Recvfrom(fd, buf, 0); return err })
	return n, err
}

// datagramID is the IP ID of a datagram.
func datagramID(seq int) int { return 0x1000 + seq*7 }

// datagram is a whole UDP packet from h1, with everything in it chosen here. No
// UDP checksum: the bytes after the IP header must come through as they are.
func datagram(dst net.IP, seq, payload int) []byte {
	b := make([]byte, ipBytes+udpBytes+payload)
	b[0] = 4<<4 | ipBytes/4
	b[1] = sentTOS
	binary.BigEndian.PutUint16(b[2:], uint16(len(b)))
	binary.BigEndian.PutUint16(b[4:], uint16(datagramID(seq)))
	binary.BigEndian.PutUint16(b[6:], flagDF)
	b[8], b[9] = sentTTL, unix.IPPROTO_UDP
	copy(b[12:], addrH1.To4())
	copy(b[16:], dst.To4())
	binary.BigEndian.PutUint16(b[20:], udpPort)
	binary.BigEndian.PutUint16(b[22:], udpPort)
	binary.BigEndian.PutUint16(b[24:], uint16(udpBytes+payload))
	for i := range payload {
		b[ipBytes+udpBytes+i] = byte(seq + i)
	}
	return b
}

// checksum is that of RFC 1071; over a right header it is 0.
func checksum(b []byte) uint16 {
	var sum uint32
	for ; len(b) >= 2; b = b[2:] {
		sum += uint32(binary.BigEndian.Uint16(b))
	}
	if len(b) == 1 {
		sum += uint32(b[0]) << 8
	}
	for sum>>16 != 0 {
		sum = sum&0xffff + sum>>16
	}
	return ^uint16(sum)
}

// arrived says what is wrong with a packet that got from h1 to h2 (or back): all
// of it must be as sent, but the TTL is one less and the checksum fits.
func arrived(got, sent []byte) error {
	if len(got) < ipBytes {
		return fmt.Errorf("%d bytes arrived", len(got))
	}
	if got[8] != sent[8]-1 {
		return fmt.Errorf("TTL %d arrived, want %d", got[8], sent[8]-1)
	}
	if sum := checksum(got[:ipBytes]); sum != 0 {
		return fmt.Errorf("header checksum is off by %#x", sum)
	}
	want := bytes.Clone(sent)
	want[8] = got[8]
	copy(want[10:12], got[10:12])
	if !bytes.Equal(got, want) {
		return fmt.Errorf("arrived % x, want % x", got, want)
	}
	return nil
}

func sockaddr(ip net.IP) *unix.SockaddrInet4 {
	return &unix.SockaddrInet4{Addr: [4]byte(ip.To4())}
}

// sendDatagrams sends n datagrams of growing size from h1 to h2, one after the
// other, and looks at each as a raw socket of h2 sees it.
func (w *network) sendDatagrams(t *testing.T, n int) {
	t.Helper()
	in(t, w.h2, func() error { // else h2 would answer that nobody listens
		c, err := net.ListenUDP("udp4", &net.UDPAddr{Port: udpPort})
		if err == nil {
			t.Cleanup(func() { c.Close() })
		}
		return err
	})
	tx, rx := rawSocket(t, w.h1, unix.IPPROTO_RAW), rawSocket(t, w.h2, unix.IPPROTO_UDP)
	buf := make([]byte, 1<<16)
	for seq := range n {
		sent := datagram(addrH2, seq, seq*7%1400)
		if err := unix.Sendto(tx, sent, 0, sockaddr(addrH2)); err != nil {
			t.Fatalf("send datagram %d: %v", seq, err)
		}
		got, err := receivePacket(rx, buf)
		if err != nil {
			t.Fatalf("datagram %d did not arrive: %v", seq, err)
		}
		if err := arrived(buf[:got], sent); err != nil {
			t.Fatalf("datagram %d: %v", seq, err) // one is enough to read
		}
	}
}

// sendNowhere sends n datagrams that r1 has no route for, and looks at what the
// first answer of r1 quotes: the datagram as r1 got it, which is as it was sent.
func (w *network) sendNowhere(t *testing.T, n int) {
	t.Helper()
	tx, rx := rawSocket(t, w.h1, unix.IPPROTO_RAW), rawSocket(t, w.h1, unix.IPPROTO_ICMP)
	for seq := range n {
		if err := unix.Sendto(tx, datagram(addrNone, seq, payloadBytes), 0, sockaddr(addrNone)); err != nil {
			t.Fatalf("send datagram %d: %v", seq, err)
		}
	}
	buf := make([]byte, 1<<16)
	got, err := receivePacket(rx, buf)
	if err != nil {
		t.Fatalf("r1 did not answer that there is no route: %v", err)
	}
	if got < 2*ipBytes+icmpBytes || buf[ipBytes] != typeUnreachable {
		t.Fatalf("r1 answered % x", buf[:got])
	}
	quote, sent := buf[ipBytes+icmpBytes:got], datagram(addrNone, 0, payloadBytes)
	sent = sent[:min(len(sent), len(quote))]
	copy(sent[10:12], quote[10:12]) // the checksum, which the kernel filled in
	if !bytes.Equal(quote, sent) || checksum(quote[:ipBytes]) != 0 {
		t.Errorf("r1 quotes % x, sent was % x", quote, sent)
	}
}

// ping exchanges n echoes between h1 and h2, one after the other.
func (w *network) ping(t *testing.T, n int) {
	t.Helper()
	fd := rawSocket(t, w.h1, unix.IPPROTO_ICMP)
	buf := make([]byte, 1<<16)
	for seq := range n {
		echo := make([]byte, icmpBytes+payloadBytes)
		echo[0] = typeEcho
		binary.BigEndian.PutUint16(echo[4:], echoID)
		binary.BigEndian.PutUint16(echo[6:], uint16(seq))
		binary.BigEndian.PutUint16(echo[2:], checksum(echo))
		if err := unix.Sendto(fd, echo, 0, sockaddr(addrH2)); err != nil {
			t.Fatalf("send echo %d: %v", seq, err)
		}
		got, err := receivePacket(fd, buf)
		if err != nil {
			t.Fatalf("echo %d was not answered: %v", seq, err)
		}
		if got != ipBytes+len(echo) || buf[8] != sentTTL-1 || checksum(buf[:ipBytes]) != 0 ||
			buf[ipBytes] != typeReply || binary.BigEndian.Uint16(buf[ipBytes+6:]) != uint16(seq) {
			t.Fatalf("answer to echo %d is wrong: % x", seq, buf[:got])
		}
	}
}

// stream sends size bytes over TCP from h1 to h2 and compares what arrives. The
// queue of r1 cuts its GSO packets. It returns how many bytes TCP sent once more.
func (w *network) stream(t *testing.T, size int64) (again int) {
	t.Helper()
	var l net.Listener
	in(t, w.h2, func() (err error) {
		l, err = net.ListenTCP("tcp4", &net.TCPAddr{Port: tcpPort})
		return err
	})
	defer l.Close()
	var got hash.Hash
	received := make(chan error, 1)
	go func() {
		var err error
		got, err = receive(l)
		received <- err
	}()
	var c *net.TCPConn
	var err error
	in(t, w.h1, func() error {
		dialer := net.Dialer{Timeout: patience}
		var conn net.Conn
		if conn, err = dialer.Dial("tcp4", (&net.TCPAddr{IP: addrH2, Port: tcpPort}).String()); err == nil {
			c = conn.(*net.TCPConn)
		}
		return err
	})
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	defer c.Close()
	sent, err := send(c, size)
	if err != nil {
		t.Fatalf("send stream: %v", err)
	}
	if err := <-received; err != nil {
		t.Fatalf("receive stream: %v", err)
	}
	if !bytes.Equal(got.Sum(nil), sent.Sum(nil)) {
		t.Error("the stream arrived changed")
	}
	return sentAgain(t, c)
}

// sentAgain is how many bytes TCP sent more than once: more on a machine that lets
// acknowledgements wait.
func sentAgain(t *testing.T, c *net.TCPConn) int {
	t.Helper()
	raw, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var info *unix.TCPInfo
	if controlErr := raw.Control(func(fd uintptr) {
		info, err = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
	}); controlErr != nil || err != nil {
		t.Fatalf("TCP_INFO: %v, %v", controlErr, err)
	}
	return int(info.Bytes_retrans)
}

// receive takes one connection and returns the hash of what comes until its end.
func receive(l net.Listener) (hash.Hash, error) {
	c, err := l.Accept()
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(2 * patience)); err != nil {
		return nil, err
	}
	h := sha256.New()
	_, err = io.Copy(h, c)
	return h, err
}

// send writes size bytes of a pattern, says that no more come, and returns their hash.
func send(c *net.TCPConn, size int64) (hash.Hash, error) {
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		return nil, err
	}
	h := sha256.New()
	_, err := io.CopyN(io.MultiWriter(c, h), &pattern{}, size)
	return h, errors.Join(err, c.CloseWrite())
}

// pattern is an endless row of bytes that does not repeat at packet sizes.
type pattern struct{ state uint32 }

func (p *pattern) Read(b []byte) (int, error) {
	for i := range b {
		p.state = p.state*1664525 + 1013904223 // Numerical Recipes' generator
		b[i] = byte(p.state >> 24)
	}
	return len(b), nil
}
