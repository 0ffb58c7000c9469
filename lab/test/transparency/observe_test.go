// SPDX-License-Identifier: Apache-2.0

package transparency

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// observer is something inside the network whose view must not depend on radar.
type observer struct {
	name string
	see  func() []string
}

// Observe adds an observer, asked after everything is sent. Each line that it returns
// must be the same in all runs.
func (w *World) Observe(name string, see func() []string) {
	w.watchers = append(w.watchers, observer{name, see})
}

// Counters observes the rules of a node with their counters.
func (w *World) Counters(node string) {
	w.Observe("nft rules of "+node, func() []string {
		return strings.Split(w.Run(node, "nft", "list", "ruleset"), "\n")
	})
}

// Listen opens a UDP socket ("0.0.0.0:7", "[::]:7") and observes what it gets: from
// whom, TTL, TOS and payload; in order of each sender, as processors overtake each other.
func (w *World) Listen(node, addr string) *Socket {
	w.T.Helper()
	opts := [][3]int{{unix.IPPROTO_IP, unix.IP_RECVTTL, 1}, {unix.IPPROTO_IP, unix.IP_RECVTOS, 1}}
	if strings.HasPrefix(addr, "[") {
		opts = [][3]int{{unix.IPPROTO_IPV6, unix.IPV6_RECVHOPLIMIT, 1}, {unix.IPPROTO_IPV6, unix.IPV6_RECVTCLASS, 1}}
	}
	s := w.Socket(node, addr, opts...)
	w.Observe("UDP socket "+s.name, func() []string { return w.drain(s.fd, s.name) })
	return s
}

// RawSocket observes all packets of a protocol that a node's stack hands to sockets,
// IPv4 with their header.
func (w *World) RawSocket(node string, proto int) {
	w.T.Helper()
	var fd int
	name := fmt.Sprintf("raw socket %d of %s", proto, node)
	w.in(node, func() (err error) {
		fd, err = unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, proto)
		if err == nil {
			err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, captureBuffer)
		}
		return err
	})
	w.T.Cleanup(func() { unix.Close(fd) })
	w.Observe(name, func() []string {
		var lines []string
		buf := make([]byte, maxFrame)
		for {
			n, _, err := unix.Recvfrom(fd, buf, 0)
			if errors.Is(err, unix.EAGAIN) {
				return lines
			}
			if err != nil {
				w.T.Fatalf("%s: %v", name, err)
			}
			b := append([]byte(nil), buf[:n]...)
			normalizeIP(b)
			lines = append(lines, fmt.Sprintf("%x", b))
		}
	})
}

// drain reads datagrams with their control messages.
func (w *World) drain(fd int, name string) (lines []string) {
	from := make(map[string]string)
	defer func() {
		slices.SortStableFunc(lines, func(a, b string) int { return strings.Compare(from[a], from[b]) })
	}()
	buf, oob := make([]byte, maxFrame), make([]byte, 512)
	for {
		n, oobn, _, sender, err := unix.Recvmsg(fd, buf, oob, 0)
		if errors.Is(err, unix.EAGAIN) {
			return lines
		}
		if err != nil { // such as an ICMP error
			lines = append(lines, "error: "+err.Error())
			continue
		}
		who := fmt.Sprint(sender)
		switch a := sender.(type) {
		case *unix.SockaddrInet4:
			who = fmt.Sprintf("%v:%d", a.Addr, a.Port)
		case *unix.SockaddrInet6:
			who = fmt.Sprintf("%x:%d", a.Addr, a.Port)
		}
		line := fmt.Sprintf("%d bytes from %s, token %d", n, who, tokenIn(buf[:n]))
		messages, err := unix.ParseSocketControlMessage(oob[:oobn])
		if err != nil {
			w.T.Fatalf("%s: %v", name, err)
		}
		for _, m := range messages {
			line += fmt.Sprintf(", option %d: %d", m.Header.Type, m.Data[0])
		}
		line += fmt.Sprintf(", payload %x", buf[:n])
		from[line] = who
		lines = append(lines, line)
	}
}
