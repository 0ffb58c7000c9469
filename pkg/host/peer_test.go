// SPDX-License-Identifier: Apache-2.0

package host

import (
	"net"
	"net/netip"
	"os"
	"testing"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/lab/test/nstest"
)

// addrPort is an end of a connection.
func addrPort(a net.Addr) netip.AddrPort { return a.(*net.TCPAddr).AddrPort() }

// TestOwnerOf: the kernel says which user has the other end, whatever addresses and versions of IP it has chosen.
func TestOwnerOf(t *testing.T) {
	need.AsRoot(t)
	for _, c := range []struct{ listen, from, to string }{
		{"127.0.0.1:0", "127.0.0.1", "127.0.0.1"}, {"127.0.0.1:0", "127.9.8.7", "127.0.0.1"}, {"[::]:0", "127.0.0.3", "127.0.0.1"}, {"[::]:0", "::1", "::1"},
	} {
		l, err := net.Listen("tcp", c.listen)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		for _, uid := range []int{0, 65534, 4242} {
			_, port, err := net.SplitHostPort(l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			client := nstest.DialAs(t, uid, c.from, net.JoinHostPort(c.to, port))
			conn, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			local, remote := addrPort(conn.LocalAddr()), addrPort(conn.RemoteAddr())
			if got, err := OwnerOf(remote, local); err != nil || got != uint32(uid) {
				t.Errorf("%v: user %d, %v, want %d", c, got, err, uid)
			}
			client.Close()
			nstest.WaitFor(t, "the socket to have no owner", func() bool {
				_, err := OwnerOf(remote, local)
				return err != nil
			})
		}
	}
}

// TestIsOwn: also what is routed to the machine itself is its own.
func TestIsOwn(t *testing.T) {
	if text := os.Getenv("RADAR_TEST_OWN"); text != "" { // the child, in a namespace
		if !IsOwn(netip.MustParseAddr(text)) {
			os.Exit(3)
		}
		os.Exit(0)
	}
	n := nstest.New(t, "a", "b")
	n.Veth("a", "e0", "b", "e0")
	n.Address("a", "e0", "10.0.1.1/24")
	n.Address("a", "e0", "2001:db8::1/64")
	n.Run("a", "ip", "route", "add", "local", "10.77.0.0/16", "dev", "lo")
	for text, want := range map[string]bool{
		"127.0.0.1": true, "127.3.4.5": true, "::1": true, "::ffff:127.0.0.1": true, "10.0.1.1": true, "::ffff:10.0.1.1": true, "10.77.3.4": true, "2001:db8::1": true,
		"10.0.1.2": false, "2001:db8::2": false, "192.0.2.1": false,
	} {
		out, err := n.Try("a", "env", "RADAR_TEST_OWN="+text, os.Args[0], "-test.run=^TestIsOwn$")
		if (err == nil) != want {
			t.Errorf("%s: %v %s, want %v", text, err, out, want)
		}
	}
}
