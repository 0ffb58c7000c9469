// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/vnet/topo"
)

// framed is a datagram in a frame to an address that nobody has, behind these tags.
func framed(t *testing.T, src, dst string, port uint16, payload string, tags ...byte) []byte {
	t.Helper()
	ip, err := AppendUDP(nil, netip.AddrPortFrom(netip.MustParseAddr(src), 5), netip.AddrPortFrom(netip.MustParseAddr(dst), port), []byte(payload))
	if err != nil {
		t.Fatal(err)
	}
	kind := []byte{8, 0}
	if ip[0]>>4 == 6 {
		kind = []byte{0x86, 0xdd}
	}
	return bytes.Join([][]byte{{2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8}, tags, kind, ip}, nil)
}

// behind puts a header of IPv6 between that of a frame and UDP.
func behind(frame []byte, next byte, header ...byte) []byte {
	const ip = 14
	b := bytes.Join([][]byte{frame[:ip+ipv6Header], header, frame[ip+ipv6Header:]}, nil)
	b[ip+6] = next
	binary.BigEndian.PutUint16(b[ip+4:], uint16(len(b)-ip-ipv6Header))
	return b
}

// altered is a frame with other bytes from a place on, whatever its checksum was.
func altered(frame []byte, at int, to ...byte) []byte {
	b := bytes.Clone(frame)
	copy(b[at:], to)
	return b
}

// openAt opens an interface of a namespace.
func openAt(t *testing.T, n *nstest.Net, name, device string, ports ...uint16) (in *Interface) {
	t.Helper()
	within(t, n, name, func() (err error) {
		in, err = OpenInterface(device, ports)
		return err
	})
	t.Cleanup(func() { in.Close() })
	return in
}

func sendFrom(t *testing.T, n *nstest.Net, name, device string, frames ...[]byte) {
	t.Helper()
	within(t, n, name, func() error {
		out, err := nstest.OpenFrames(device)
		if err != nil {
			return err
		}
		defer out.Close()
		for _, frame := range frames {
			if err := out.Send(frame); err != nil {
				return err
			}
		}
		return nil
	})
}

func within(t *testing.T, n *nstest.Net, name string, fn func() error) {
	t.Helper()
	spec, err := topo.ParseSpec(n.Spec(name))
	if err == nil {
		err = spec.Do(fn)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestInterface: what goes to a port of reports is taken, whatever is around it and whoever it is
// for; nothing else is. An interface that is down is waited for, one that has gone is an error.
func TestInterface(t *testing.T) {
	n := nstest.New(t, "a", "b")
	n.Veth("a", "eth0", "b", "eth0")
	in := openAt(t, n, "b", "eth0", 32766, 6000)
	if link, err := n.Handle("b").LinkByName("eth0"); err != nil || link.Attrs().Promisc != 1 {
		t.Fatalf("the interface is not promiscuous: %v", err)
	}
	var mu sync.Mutex
	var said []string
	in.Warn = func(text string) {
		mu.Lock()
		said = append(said, text)
		mu.Unlock()
	}
	warned := func(what string) func() bool {
		return func() bool {
			mu.Lock()
			defer mu.Unlock()
			return len(said) > 0 && strings.Contains(said[len(said)-1], what)
		}
	}
	packets, ended := make(chan string, 100), make(chan error, 1)
	go func() {
		for {
			p, err := in.Receive()
			if err != nil {
				ended <- err
				return
			}
			_, payload, err := p.UDP()
			if err != nil {
				payload = []byte(err.Error())
			}
			packets <- string(payload)
		}
	}()
	until := func(last string) (list []string) {
		t.Helper()
		nstest.WaitFor(t, last+" to come", func() bool {
			for {
				select {
				case p := <-packets:
					list = append(list, p)
				default:
					return slices.Contains(list, last)
				}
			}
		})
		return list
	}
	send := func(frames ...[]byte) {
		t.Helper()
		sendFrom(t, n, "a", "eth0", frames...)
	}
	four := func(port uint16, payload string, tags ...byte) []byte {
		return framed(t, "10.0.0.1", "10.0.0.2", port, payload, tags...)
	}
	six := func(port uint16, payload string) []byte {
		return framed(t, "2001:db8::1", "2001:db8::2", port, payload)
	}
	plain := four(32766, "x")
	send(
		four(32766, "four"), four(6000, "the other port"),
		altered(four(32766, "no checksum"), 14+10, 0, 0),
		four(32766, "tag", 0x81, 0, 0, 5), four(32766, "two tags", 0x88, 0xa8, 0, 5, 0x81, 0, 0, 6),
		six(32766, "six"), behind(six(32766, "options"), 0, 17, 0, 1, 4, 0, 0, 0, 0),
		altered(four(32766, "first fragment"), 14+6, 0x20, 0), // it cannot be read
		behind(six(32766, "fragment"), 44, 17, 0, 0, 1, 0, 0, 0, 1),
		// Not to be taken:
		four(32767, "no"), six(5, "no"), four(5, "no", 0x81, 0, 0, 5), four(5, "no", 0x88, 0xa8, 0, 5, 0x81, 0, 0, 6),
		altered(plain, 14+9, 6), altered(plain, 14+6, 0, 9), altered(plain, 12, 8, 6),
		behind(six(5, "no"), 0, 17, 0, 1, 4, 0, 0, 0, 0), behind(six(32766, "no"), 44, 17, 0, 0, 8, 0, 0, 0, 1),
		behind(six(5, "no"), 44, 17, 0, 0, 1, 0, 0, 0, 1), behind(six(32766, "no"), 44, 6, 0, 0, 1, 0, 0, 0, 1),
		four(32766, "last"),
	)
	want := []string{"four", "the other port", "no checksum", "tag", "two tags", "six", "options", ErrPart.Error(), ErrPart.Error(), "last"}
	if diff := cmp.Diff(want, until("last")); diff != "" {
		t.Error(diff)
	}
	// What the filter cannot tell: behind a second tag, and behind options, which the kernel's own
	// packets about groups have too.
	if i := in.about(); i.Parts != 2 || i.Other < 2 || i.Device != "eth0" || in.SocketDrops() != 0 {
		t.Errorf("%+v, %d found no room", i, in.SocketDrops())
	}
	n.Run("b", "ip", "link", "set", "eth0", "down")
	nstest.WaitFor(t, "the interface to be told down", warned("is down"))
	n.Up("b", "eth0")
	nstest.AwaitCarrier(t, n.Path("a"), n.Path("b"))
	send(four(32766, "again"))
	if got := until("again"); len(got) != 1 {
		t.Errorf("%q after it was down", got)
	}
	nstest.WaitFor(t, "the interface to be told up", warned("up again"))
	n.Run("b", "ip", "link", "del", "eth0")
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "interface eth0 has gone") {
		t.Error(err)
	}
	if i := in.about(); i.Downs < 1 { // a removal may come without being down first
		t.Errorf("%+v", i)
	}
}

// TestInterfaceGoesWithPackets: a packet that waited as the interface went down does not say that it is up, and
// that it goes away afterwards is noticed.
func TestInterfaceGoesWithPackets(t *testing.T) {
	n := nstest.New(t, "a", "b")
	n.Veth("a", "eth0", "b", "eth0")
	in := openAt(t, n, "b", "eth0", 32766)
	sendFrom(t, n, "a", "eth0", framed(t, "10.0.0.1", "10.0.0.2", 32766, "waited"))
	n.Run("b", "ip", "link", "set", "eth0", "down")
	var said []string
	in.Warn = func(text string) { said = append(said, text) }
	p, err := in.Receive()
	if err != nil {
		t.Fatal(err)
	}
	if _, payload, err := p.UDP(); string(payload) != "waited" || err != nil {
		t.Errorf("%q, %v", payload, err)
	}
	n.Run("b", "ip", "link", "del", "eth0")
	if _, err := in.Receive(); err == nil || !strings.Contains(err.Error(), "interface eth0 has gone") {
		t.Error(err)
	}
	if len(said) != 1 || !strings.Contains(said[0], "is down") {
		t.Errorf("it said %q", said)
	}
}

// TestInterfaceWithoutEthernet: the packets of a tun device have no frame.
func TestInterfaceWithoutEthernet(t *testing.T) {
	n := nstest.New(t, "a")
	tun := -1
	within(t, n, "a", func() (err error) {
		if tun, err = unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC, 0); err != nil {
			return err
		}
		request, err := unix.NewIfreq("tun0")
		if err != nil {
			return err
		}
		request.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
		return unix.IoctlIfreq(tun, unix.TUNSETIFF, request)
	})
	defer unix.Close(tun)
	n.Up("a", "tun0")
	in := openAt(t, n, "a", "tun0", 32766)
	for _, packet := range [][]byte{
		framed(t, "10.0.0.1", "10.0.0.2", 5, "no")[14:], framed(t, "10.0.0.1", "10.0.0.2", 32766, "four")[14:], framed(t, "fd00::1", "fd00::2", 32766, "six")[14:],
	} {
		if _, err := unix.Write(tun, packet); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{"four", "six"} {
		p, err := in.Receive()
		if err != nil {
			t.Fatal(err)
		}
		if port, payload, err := p.UDP(); port != 32766 || string(payload) != want || err != nil {
			t.Errorf("port %d, %q, %v, want %s", port, payload, err, want)
		}
	}
}

// TestInterfaceLoopback: what comes in by the loopback device has gone out by it, and is one packet. What
// found no room is counted, and what waits at the end is taken or counted, as of a Socket.
func TestInterfaceLoopback(t *testing.T) {
	n := nstest.New(t, "a")
	in := openAt(t, n, "a", "lo", 32766)
	const sent = 2000
	frame := framed(t, "127.0.0.1", "127.0.0.1", 32766, "report")
	frames := make([][]byte, sent)
	for i := range frames {
		frames[i] = frame
	}
	sendFrom(t, n, "a", "lo", frames...)
	if left := in.Finish(0); left+in.SocketDrops() != sent || left == 0 {
		t.Errorf("%d left, %d found no room, of %d", left, in.SocketDrops(), sent)
	}
	if _, err := in.Receive(); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
}
