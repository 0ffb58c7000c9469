// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"encoding/binary"
	"net"
	"net/netip"
	"testing"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/vnet/topo"
)

func spec(t *testing.T, n *nstest.Net, name string) topo.NodeSpec {
	t.Helper()
	list, err := topo.ParseSpecs([]string{n.Spec(name)})
	if err != nil {
		t.Fatal(err)
	}
	return list[0]
}

// TestRoutes: a node says how it sends to an address, of both versions, or why not.
func TestRoutes(t *testing.T) {
	t.Parallel()
	n := nstest.New(t, "a", "b")
	n.Veth("a", "e0", "b", "e0")
	n.Address("a", "e0", "10.0.1.1/24")
	n.Address("a", "e0", "fd00:1::1/64")
	n.Run("a", "sh", "-c", "ip link set e0 mtu 1400; ip route add 10.2.0.0/16 via 10.0.1.9 mtu 1300; ip route add blackhole 10.3.0.0/16; "+
		"ip route add prohibit 10.4.0.0/16; ip route add unreachable 10.5.0.0/16; ip -6 route add blackhole fd00:3::/64; ip -6 route add prohibit fd00:4::/64")
	node := spec(t, n, "a")
	for to, want := range map[string]Route{
		"10.0.1.7":  {Kind: Unicast, Port: "e0", MTU: 1400},
		"10.2.0.1":  {Kind: Unicast, Port: "e0", MTU: 1300, Gateway: netip.MustParseAddr("10.0.1.9")},
		"10.0.1.1":  {Kind: Local},
		"10.3.0.1":  {Kind: Blackhole},
		"10.4.0.1":  {Kind: Prohibit},
		"10.5.0.1":  {Kind: Unreachable},
		"10.9.0.1":  {Kind: None},
		"fd00:1::7": {Kind: Unicast, Port: "e0", MTU: 1400},
		"fd00:3::1": {Kind: Blackhole},
		"fd00:4::1": {Kind: Prohibit},
		"fd00:9::1": {Kind: None},
	} {
		dst := netip.MustParseAddr(to)
		for _, src := range []netip.Addr{{}, netip.MustParseAddr("10.0.1.1")} {
			if src.IsValid() && dst.Is6() {
				continue
			}
			got, err := RouteTo(node, dst, src)
			if got.Ifindex = 0; want.Kind == Local {
				got.Port, got.MTU = "", 0
			}
			if err != nil || got != want {
				t.Errorf("to %s from %v: %+v, %v, want %+v", to, src, got, err, want)
			}
		}
	}
	if has, err := HasDefault(node, netip.MustParseAddr("10.9.0.1")); has || err != nil {
		t.Errorf("a default route: %v, %v", has, err)
	}
	n.Run("a", "ip", "route", "add", "default", "via", "10.0.1.9")
	if has, err := HasDefault(node, netip.MustParseAddr("10.9.0.1")); !has || err != nil {
		t.Errorf("no default route: %v, %v", has, err)
	}
}

// TestListeners: sockets of one port are found, with their addresses and the queue of those that wait.
func TestListeners(t *testing.T) {
	t.Parallel()
	n := nstest.New(t, "a")
	node := spec(t, n, "a")
	var port uint16
	err := node.Do(func() error {
		one, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		port = uint16(one.Addr().(*net.TCPAddr).Port)
		other, err := net.ListenPacket("udp", "[::]:53")
		if err != nil {
			return err
		}
		t.Cleanup(func() { one.Close(); other.Close() })
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	list, err := Listeners(node, unix.IPPROTO_TCP, port)
	if err != nil || len(list) != 1 || list[0].Takes(netip.MustParseAddr("10.0.0.1")) || !list[0].Takes(netip.MustParseAddr("127.0.0.1")) || list[0].Backlog == 0 || list[0].Full() {
		t.Errorf("%+v, %v", list, err)
	}
	if list, err = Listeners(node, unix.IPPROTO_UDP, 53); err != nil || len(list) != 1 || !list[0].Takes(netip.MustParseAddr("10.0.0.1")) {
		t.Errorf("%+v, %v", list, err)
	}
	if list, err = Listeners(node, unix.IPPROTO_TCP, port+1); err != nil || len(list) != 0 {
		t.Errorf("%+v, %v", list, err)
	}
}

// TestConnectionOf: of the sockets of a node the one with these ends is found, also where it is an IPv6 socket that speaks
// IPv4, and its TCP_INFO is what the socket itself says.
func TestConnectionOf(t *testing.T) {
	t.Parallel()
	n := nstest.New(t, "a")
	n.Run("a", "ip", "link", "set", "lo", "up")
	node := spec(t, n, "a")
	for _, network := range []string{"tcp4", "tcp"} {
		var conn, other net.Conn
		err := node.Do(func() error {
			server, err := net.Listen(network, ":0")
			if err != nil {
				return err
			}
			t.Cleanup(func() { server.Close() })
			to := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), uint16(server.Addr().(*net.TCPAddr).Port)).String()
			if other, err = net.Dial("tcp", to); err == nil {
				conn, err = net.Dial("tcp", to)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close(); other.Close() })
		addr := func(a net.Addr) netip.AddrPort {
			is := a.(*net.TCPAddr).AddrPort()
			return netip.AddrPortFrom(is.Addr().Unmap(), is.Port())
		}
		ends := [2]netip.AddrPort{addr(conn.LocalAddr()), addr(conn.RemoteAddr())}
		for _, of := range [][2]netip.AddrPort{ends, {ends[1], ends[0]}} { // either end of it
			c, err := ConnectionOf(node, [][2]netip.AddrPort{{ends[0], ends[0]}, of})
			if err != nil || c == nil || c.Local != of[0] || c.Remote != of[1] || c.State != unix.BPF_TCP_ESTABLISHED || c.Snd_cwnd == 0 {
				t.Fatalf("%s: %+v, %v", network, c, err)
			}
		}
		c, _ := ConnectionOf(node, [][2]netip.AddrPort{ends})
		raw, err := conn.(*net.TCPConn).SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		if err := raw.Control(func(fd uintptr) {
			own, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
			if err != nil || c.Snd_mss != own.Snd_mss || c.Rto != own.Rto || c.Segs_out != own.Segs_out || c.Min_rtt != own.Min_rtt || c.Snd_wnd != own.Snd_wnd {
				t.Errorf("%s: %+v, the socket itself: %+v, %v", network, c, own, err)
			}
		}); err != nil {
			t.Fatal(err)
		}
		if c, err := ConnectionOf(node, [][2]netip.AddrPort{{ends[0], netip.AddrPortFrom(netip.MustParseAddr("127.0.0.9"), ends[1].Port())}}); c != nil || err != nil {
			t.Errorf("%s: of other addresses: %+v, %v", network, c, err)
		}
	}
	// Whatever a kernel says, of which version: its first bytes are bit fields.
	b := make([]byte, 8, 12)
	b[6], b[7] = 0x97, 1|2<<1
	if info, ok := tcpInfo(append(b, 1, 0, 0, 0)); !ok || info.Snd_wscale != 7 || info.Rcv_wscale != 9 || info.Delivery_rate_app_limited != 1 || info.Fastopen_client_fail != 2 || info.Rto != 1 {
		t.Errorf("%+v, %v", info, ok)
	}
}

// TestSettings: those that there are, and nothing beside /proc/sys/net.
func TestSettings(t *testing.T) {
	t.Parallel()
	n := nstest.New(t, "a")
	n.Run("a", "sysctl", "-qw", "net.ipv4.ip_forward=1")
	got, err := Settings(spec(t, n, "a"), "ipv4/ip_forward", "ipv4/no_such", "../kernel/ostype")
	if err != nil || len(got) != 1 || got["ipv4/ip_forward"] != "1" {
		t.Errorf("%v, %v", got, err)
	}
	if text := Sysctl("ipv4/ip_forward", "1"); text != "net.ipv4.ip_forward=1" {
		t.Error(text)
	}
}

// FuzzMessages: whatever a message holds, reading it ends.
func FuzzMessages(f *testing.F) {
	socket := make([]byte, 72)
	socket[0], socket[1] = unix.AF_INET, stateListen
	binary.BigEndian.PutUint16(socket[4:], 80)
	f.Add(socket)
	info := nl.NewIfInfomsg(unix.AF_BRIDGE).Serialize()
	f.Add(append(info, nl.NewRtAttr(unix.IFLA_IFNAME, nl.ZeroTerminated("p1")).Serialize()...))
	f.Fuzz(func(t *testing.T, b []byte) {
		listenerOf(b, 80)
		connectionOf(b)
		bridgePortOf(b)
	})
}
