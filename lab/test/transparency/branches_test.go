// SPDX-License-Identifier: Apache-2.0

package transparency

import (
	"net"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/record"
)

// checkBranches compares where copies of a packet ended with what the case says. That
// each was where the record says, and no other anywhere, captures say.
func (k *checker) checkBranches(rec *record.Record, want *Sent) {
	var ends []string
	for i, h := range rec.Hops {
		switch {
		case h.Outcome != "":
			ends = append(ends, h.Node+" "+string(h.Outcome))
		case i == len(rec.Hops)-1 && i == rec.PrevOf(i)+1 && !branched(rec):
			ends = append(ends, h.Node+" "+string(rec.State))
		}
	}
	expected := slices.Clone(want.branches)
	slices.Sort(ends)
	slices.Sort(expected)
	if !slices.Equal(ends, expected) {
		k.wrong(rec, "its copies end %q, want %q", ends, expected)
	}
	if want.state != "" && string(rec.State) != want.state {
		k.wrong(rec, "it is %s, want %s", rec.State, want.state)
	}
	for _, l := range rec.Losses {
		if l.AfterDelivery && !k.r.c.LocalDrops {
			k.wrong(rec, "a drop after delivery in %s that nobody expects", l.Node)
		}
	}
}

// branched reports whether there were copies.
func branched(rec *record.Record) bool {
	return slices.ContainsFunc(rec.Hops, func(h record.Hop) bool { return h.Outcome != "" })
}

// Bridge makes a bridge of ports in a node. Without snooping, and without its own
// say in who gets what.
func (w *World) Bridge(node, name string, ports ...string) {
	w.T.Helper()
	w.Run(node, "ip", "link", "add", "name", name, "type", "bridge", "mcast_snooping", "0")
	w.fixMAC(node, name)
	for _, p := range ports {
		w.Run(node, "ip", "link", "set", p, "master", name)
	}
	w.Up(node, name)
}

// Join makes a socket a member of a group, by the interface with that address.
func (w *World) Join(s *Socket, group, by string) {
	w.T.Helper()
	mreq := &unix.IPMreq{Multiaddr: [4]byte(net.ParseIP(group).To4()), Interface: [4]byte(net.ParseIP(by).To4())}
	if err := unix.SetsockoptIPMreq(s.fd, unix.IPPROTO_IP, unix.IP_ADD_MEMBERSHIP, mreq); err != nil {
		w.T.Fatalf("%s: join %s: %v", s.name, group, err)
	}
}

// The kernel's numbers of multicast routing, linux/mroute.h.
const (
	mrtInit    = 200
	mrtAddVif  = 202
	mrtAddMfc  = 204
	vifByIndex = 0x8
)

// MulticastRoute has a router send on what comes for group from src by its first port,
// by all others, as a multicast routing daemon would.
func (w *World) MulticastRoute(node, src, group string, ports ...string) {
	w.T.Helper()
	index := make([]int, len(ports))
	for i, p := range ports {
		index[i] = w.Index(node, p)
	}
	var fd int
	w.in(node, func() (err error) {
		fd, err = unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_IGMP)
		if err == nil {
			err = unix.SetsockoptInt(fd, unix.IPPROTO_IP, mrtInit, 1)
		}
		if err != nil {
			return err
		}
		mfc := make([]byte, 60) // struct mfcctl
		copy(mfc, net.ParseIP(src).To4())
		copy(mfc[4:], net.ParseIP(group).To4())
		for i := range ports {
			vif := make([]byte, 16) // struct vifctl: vifi, flags, threshold, rate, index, remote
			putNative16(vif, uint16(i))
			vif[2], vif[3] = vifByIndex, 1
			putNative32(vif[8:], uint32(index[i]))
			if err := unix.SetsockoptString(fd, unix.IPPROTO_IP, mrtAddVif, string(vif)); err != nil {
				return err
			}
			if i > 0 {
				mfc[10+i] = 1 // mfcc_ttls: sent on if the TTL is above
			}
		}
		return unix.SetsockoptString(fd, unix.IPPROTO_IP, mrtAddMfc, string(mfc))
	})
	w.T.Cleanup(func() { unix.Close(fd) })
}
