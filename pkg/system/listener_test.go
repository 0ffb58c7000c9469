// SPDX-License-Identifier: Apache-2.0

package system

import (
	"fmt"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/lab/test/nstest"
)

// Of what was lost because there was no room, nobody knows what it was about: it may have been of an interface. (Here it
// was of addresses, of which nothing is said.)
func TestListenerOverrun(t *testing.T) {
	n := nstest.New(t, "a")
	n.Run("a", "ip", "link", "add", "d0", "type", "veth", "peer", "name", "d1")
	for _, c := range []struct {
		addresses int
		heard     bool
	}{{1, false}, {200, true}} {
		changed, added, last := make(chan struct{}, 1), make(chan struct{}), make(chan struct{})
		hear, number := hearLinks(changed), -1
		l, err := Listen(Source{Protocol: unix.NETLINK_ROUTE, Groups: []int{unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV4_RULE}, Hear: func(h Heard) bool {
			<-added
			if len(h.Messages) > 0 && h.Messages[0].Header.Type == unix.RTM_NEWRULE && h.Number == number {
				close(last)
			}
			return hear(h)
		}})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		var small error
		if err := l.socks[0].conn.Control(func(fd uintptr) { small = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, 1) }); err != nil || small != nil {
			t.Errorf("%v, %v", err, small)
		}
		if number, err = l.Number(placeOf(t, n, "a")); err != nil {
			t.Fatal(err)
		}
		for i := range c.addresses {
			n.Run("a", "ip", "address", "add", fmt.Sprintf("10.0.%d.%d/32", c.addresses, i+1), "dev", "d0")
		}
		close(added)
		if c.heard {
			nstest.WaitFor(t, "that something was lost", func() bool { return len(changed) > 0 })
			continue
		}
		n.Run("a", "ip", "rule", "add", "to", "10.9.9.9", "table", "100")
		<-last
		if len(changed) > 0 {
			t.Errorf("%d addresses: an interface has changed", c.addresses)
		}
	}
}

// An interface of a node is heard of, and that another one is gone is no error.
func TestListenLinks(t *testing.T) {
	n := nstest.New(t, "a")
	l, changed, err := ListenLinks()
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := l.NumberAll(placeOf(t, n, "a"), Place{Name: "gone", Path: "/proc/1/ns/none", Inum: 1}); err != nil {
		t.Error(err)
	}
	n.Run("a", "ip", "link", "add", "d0", "type", "veth", "peer", "name", "d1")
	<-changed
}

func placeOf(t *testing.T, n *nstest.Net, node string) Place {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Stat(n.Path(node), &st); err != nil {
		t.Fatal(err)
	}
	return Place{Name: node, Spec: "netns:" + n.Name(node), Path: n.Path(node), Inum: uint32(st.Ino)}
}
