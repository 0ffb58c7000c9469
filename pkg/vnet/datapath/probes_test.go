// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/lab/test/nstest"
)

// A steady stream of packets whose IP ID and TTL are known, and what arrives outside.

const (
	probePort   = 4713
	probeEvery  = 200 * time.Microsecond
	probeTTL    = 40 // in no band, before routers and behind them
	probeIDStep = 40503
)

// probes sends packets with numbers from one port, routers on the way lower their TTL.
type probes struct {
	t      *testing.T
	frames *nstest.Frames
	to     net.HardwareAddr
	from   net.HardwareAddr
	src    netip.Addr
	dst    netip.Addr
	next   uint32
}

// openProbes opens the port of a node from which packets for dst go to the port of a router.
func (l *lab) openProbes(node, port, router, routerPort, src, dst string) *probes {
	l.t.Helper()
	p := &probes{t: l.t, src: netip.MustParseAddr(src), dst: netip.MustParseAddr(dst)}
	p.from, p.to = l.mac(node, port), l.mac(router, routerPort)
	err := l.specs(node)[0].Do(func() (err error) {
		p.frames, err = nstest.OpenFrames(port)
		return err
	})
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { p.frames.Close() })
	return p
}

func (l *lab) mac(node, port string) (mac net.HardwareAddr) {
	l.t.Helper()
	err := l.specs(node)[0].Do(func() error {
		itf, err := net.InterfaceByName(port)
		if err == nil {
			mac = itf.HardwareAddr
		}
		return err
	})
	if err != nil {
		l.t.Fatal(err)
	}
	return mac
}

// probeID is the IP ID of the packet with that number.
func probeID(n uint32) uint16 { return uint16(n*probeIDStep + 1) }

// send sends the next n packets at a steady rate.
func (p *probes) send(n int) {
	p.t.Helper()
	for range n {
		if err := p.frames.Send(p.frame(p.next)); err != nil && !errors.Is(err, unix.ENOBUFS) {
			p.t.Errorf("send: %v", err)
			return
		}
		p.next++
		time.Sleep(probeEvery)
	}
}

func (p *probes) frame(n uint32) []byte {
	const ip, udp, data = 14, 14 + 20, 14 + 28
	f := make([]byte, data+32)
	copy(f, p.to)
	copy(f[6:], p.from)
	binary.BigEndian.PutUint16(f[12:], unix.ETH_P_IP)
	f[ip] = 0x45
	binary.BigEndian.PutUint16(f[ip+2:], uint16(len(f)-ip))
	binary.BigEndian.PutUint16(f[ip+4:], probeID(n))
	f[ip+6] = 0x40 // DF: its ID means nothing, so that it may carry a GUID
	f[ip+8], f[ip+9] = probeTTL, unix.IPPROTO_UDP
	copy(f[ip+12:], p.src.AsSlice())
	copy(f[ip+16:], p.dst.AsSlice())
	var sum uint32
	for i := ip; i < udp; i += 2 {
		sum += uint32(binary.BigEndian.Uint16(f[i:]))
	}
	sum = sum&0xffff + sum>>16
	binary.BigEndian.PutUint16(f[ip+10:], ^uint16(sum+sum>>16))
	binary.BigEndian.PutUint16(f[udp:], probePort)
	binary.BigEndian.PutUint16(f[udp+2:], probePort)
	binary.BigEndian.PutUint16(f[udp+4:], uint16(len(f)-udp)) // without checksum
	binary.BigEndian.PutUint32(f[data:], n)
	return f
}

// outside captures the packets that come in by any interface of a namespace.
type outside struct {
	t    *testing.T
	fd   int
	done sync.WaitGroup

	mu    sync.Mutex
	seen  map[uint32]bool
	wrong []string
}

// capture begins to capture; hops is how many routers have lowered the TTL.
func (l *lab) capture(node string, hops int) *outside {
	l.t.Helper()
	o := &outside{t: l.t, seen: make(map[uint32]bool)}
	err := l.specs(node)[0].Do(func() (err error) {
		const all = unix.ETH_P_ALL
		o.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, int(uint16(all<<8|all>>8)))
		return err
	})
	if err == nil {
		err = unix.SetsockoptInt(o.fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 64<<20)
	}
	if err == nil {
		err = unix.SetsockoptTimeval(o.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 50_000})
	}
	if err != nil {
		l.t.Fatal(err)
	}
	stop := make(chan struct{})
	o.done.Go(func() {
		for {
			var b [256]byte
			n, from, err := unix.Recvfrom(o.fd, b[:], 0)
			switch {
			case err == nil:
				if a, ok := from.(*unix.SockaddrLinklayer); ok && a.Pkttype != unix.PACKET_OUTGOING {
					o.look(b[:n], hops)
				}
			case errors.Is(err, unix.EAGAIN):
				select {
				case <-stop:
					return
				default:
				}
			case !errors.Is(err, unix.EINTR) && !errors.Is(err, unix.ENETDOWN):
				o.t.Errorf("capture: %v", err)
				return
			}
		}
	})
	l.t.Cleanup(func() {
		close(stop)
		o.done.Wait()
		unix.Close(o.fd)
	})
	return o
}

func (o *outside) look(b []byte, hops int) {
	if len(b) < 32 || b[0] != 0x45 || b[9] != unix.IPPROTO_UDP || binary.BigEndian.Uint16(b[22:]) != probePort {
		return
	}
	n := binary.BigEndian.Uint32(b[28:])
	id, ttl := binary.BigEndian.Uint16(b[4:]), int(b[8])
	o.mu.Lock()
	defer o.mu.Unlock()
	o.seen[n] = true
	if id != probeID(n) || ttl != probeTTL-hops {
		o.wrong = append(o.wrong, fmt.Sprintf("packet %d: ID %#04x, TTL %d", n, id, ttl))
	}
}

// count is how many have come.
func (o *outside) count() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.seen)
}

// sendUntil sends until n more have come outside: the kernel drops some while a link comes up.
func (p *probes) sendUntil(o *outside, n int) {
	p.t.Helper()
	want := o.count() + n
	nstest.WaitFor(p.t, fmt.Sprintf("%d packets more outside", n), func() bool {
		p.send(10)
		return o.count() >= want
	})
}

// want wants at least that many packets outside, all of them as they were sent.
func (o *outside) want(least int) {
	o.t.Helper()
	o.wantBut(0, least)
}

// wantBut allows for some that are wrong.
func (o *outside) wantBut(most, least int) {
	o.t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	o.t.Logf("%d packets came outside, %d of them wrong", len(o.seen), len(o.wrong))
	if len(o.seen) < least {
		o.t.Errorf("%d packets came outside, want %d at least", len(o.seen), least)
	}
	if n := len(o.wrong); n > most {
		o.t.Errorf("%d of %d packets are wrong outside: %q ...", n, len(o.seen), o.wrong[:min(n, 3)])
	}
}
