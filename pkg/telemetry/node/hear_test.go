// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"testing"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/host"
)

// Of what was lost because there was no room, nobody knows what it was about: it may have been of an interface. (Here it
// was of addresses, of which nothing is told.)
func TestHearingOverrun(t *testing.T) {
	n := nstest.New(t, "a")
	n.Run("a", "ip", "link", "add", "d0", "type", "veth", "peer", "name", "d1")
	for _, c := range []struct {
		addresses int
		heard     bool
	}{{1, false}, {200, true}} {
		h := &Hearing{heard: make(chan struct{}, 1)}
		ns, err := netns.GetFromPath(n.Path("a"))
		if err != nil {
			t.Fatal(err)
		}
		err = host.InNetns(ns, func() error {
			sock, conn, err := host.ListenAll(unix.NETLINK_ROUTE, nil, []int{unix.RTNLGRP_IPV4_IFADDR})
			if err != nil {
				return err
			}
			var small error
			if err := conn.Control(func(fd uintptr) { small = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, 1) }); err != nil || small != nil {
				t.Errorf("%v, %v", err, small)
			}
			for i := range c.addresses {
				n.Run("a", "ip", "address", "add", fmt.Sprintf("10.0.%d.%d/32", c.addresses, i+1), "dev", "d0")
			}
			h.sock = sock
			h.wait.Add(1)
			go h.receive(conn)
			return nil
		})
		ns.Close()
		if err != nil {
			t.Fatal(err)
		}
		if c.heard {
			nstest.WaitFor(t, "that something was lost", func() bool { return len(h.heard) > 0 })
		}
		h.Close()
		if heard := len(h.heard) > 0; heard != c.heard {
			t.Errorf("%d addresses: heard is %v", c.addresses, heard)
		}
	}
}
