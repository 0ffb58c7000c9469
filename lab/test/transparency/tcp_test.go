// SPDX-License-Identifier: Apache-2.0

package transparency

import (
	"crypto/sha256"
	"fmt"
	"math/rand"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/lab/test/nstest"
)

// talk is one TCP connection, by the kernels of two nodes, and how much each side says.
type talk struct {
	client, from string // node, address and port
	server, to   string
	there, back  int // bytes
}

// Talk has a connection take place and observes what its sockets say of it.
func (w *World) Talk(t talk) {
	w.T.Helper()
	from, to := netip.MustParseAddrPort(t.from), netip.MustParseAddrPort(t.to)
	listener, client := w.tcpSocket(t.server, to), w.tcpSocket(t.client, from)
	defer unix.Close(listener)
	defer unix.Close(client)
	if err := unix.Listen(listener, 1); err != nil {
		w.T.Fatalf("listen at %s: %v", t.to, err)
	}
	w.talkOver(t, client, to, listener)
}

// talkOver connects a socket to an address, which a listener (of whatever address)
// accepts.
func (w *World) talkOver(t talk, client int, to netip.AddrPort, listener int) {
	w.T.Helper()
	if err := nstest.Again(func() error { return unix.Connect(client, sockaddr(to)) }); err != nil {
		w.T.Fatalf("connect %s to %v: %v", t.from, to, err)
	}
	var server int
	var peer unix.Sockaddr
	err := nstest.Again(func() (err error) { server, peer, err = unix.Accept(listener); return err })
	if err != nil {
		w.T.Fatalf("accept at %s: %v", t.to, err)
	}
	defer unix.Close(server)
	lines := []string{fmt.Sprintf("the server's peer is %s", addrOf(peer))}
	said := make(chan string)
	go func() { said <- "client to server: " + pour(client, server, t.there) }()
	lines = append(lines, <-said)
	go func() { said <- "server to client: " + pour(server, client, t.back) }()
	lines = append(lines, <-said)
	for _, end := range []struct {
		name   string
		fd, to int
	}{{"client", client, server}, {"server", server, client}} {
		// Acknowledgements that are put off on another CPU must not come after the end: the
		// kernel answers those by resets.
		w.caughtUp()
		if err := unix.Shutdown(end.fd, unix.SHUT_WR); err != nil {
			w.T.Fatalf("shut %s: %v", end.name, err)
		}
		var n int
		err := nstest.Again(func() (err error) { n, err = unix.Read(end.to, make([]byte, 1)); return err })
		info, infoErr := unix.GetsockoptTCPInfo(end.fd, unix.IPPROTO_TCP, unix.TCP_INFO)
		if infoErr != nil {
			w.T.Fatalf("TCP_INFO of %s: %v", end.name, infoErr)
		}
		lines = append(lines, fmt.Sprintf("%s shuts: the other reads %d, %v; MSS %d and %d, path MTU %d, options %x", end.name, n, err,
			info.Snd_mss, info.Advmss, info.Pmtu, info.Options))
	}
	w.Observe(fmt.Sprintf("TCP from %s to %v", t.from, to), func() []string { return lines })
}

func addrOf(sa unix.Sockaddr) string {
	switch a := sa.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(a.Addr), uint16(a.Port)).String()
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(a.Addr), uint16(a.Port)).String()
	}
	return fmt.Sprint(sa)
}

// pour writes size bytes into one socket, reads as many from the other, and says what
// came.
func pour(from, to, size int) string {
	data := make([]byte, size)
	rand.New(rand.NewSource(int64(size))).Read(data)
	wrote := make(chan error, 1)
	go func() {
		left := data
		for len(left) > 0 {
			var n int
			err := nstest.Again(func() (err error) { n, err = unix.Write(from, left); return err })
			if err != nil {
				wrote <- err
				return
			}
			left = left[n:]
		}
		wrote <- nil
	}()
	got := 0
	sum := sha256.New()
	var err error
	for buf := make([]byte, 1<<16); got < size; {
		var n int
		err = nstest.Again(func() (err error) { n, err = unix.Read(to, buf); return err })
		if n == 0 || err != nil {
			break
		}
		sum.Write(buf[:n])
		got += n
	}
	if err == nil {
		err = <-wrote
	}
	right := sha256.Sum256(data)
	return fmt.Sprintf("%d bytes, error %v, as sent: %v", got, err, string(sum.Sum(nil)) == string(right[:]))
}

// tcpSocket opens a blocking socket at an address; reading and writing end after a while.
func (w *World) tcpSocket(node string, at netip.AddrPort, opts ...[3]int) (fd int) {
	w.T.Helper()
	w.in(node, func() (err error) {
		if fd, err = unix.Socket(family(at.Addr()), unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0); err != nil {
			return err
		}
		for _, o := range append(opts, [3]int{unix.SOL_SOCKET, unix.SO_REUSEADDR, 1}) {
			if err := unix.SetsockoptInt(fd, o[0], o[1], o[2]); err != nil {
				return err
			}
		}
		limit := unix.NsecToTimeval(int64(mostWait))
		for _, o := range []int{unix.SO_RCVTIMEO, unix.SO_SNDTIMEO} {
			if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, o, &limit); err != nil {
				return err
			}
		}
		return unix.Bind(fd, sockaddr(at))
	})
	return fd
}
