// SPDX-License-Identifier: Apache-2.0

package topo

import (
	"fmt"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/host"
)

// observer sees the interfaces of all nodes from a namespace of its own, in which
// node number i has the id i. The kernel names the namespace of a veth's other
// end by its id as seen by who asks, and no other way: asked from here, the answer
// is the node's number. Other namespaces get ids that no node has, and all ids
// end with the observer.
type observer struct {
	sock   *nl.NetlinkSocket
	handle *netlink.Handle // to ask for ids
	size   int             // nodes
}

func newObserver(probes []probe) (*observer, error) {
	o := &observer{size: len(probes)}
	err := host.InNewNetns(func() (err error) {
		o.sock, err = nl.GetNetlinkSocketAt(netns.None(), netns.None(), unix.NETLINK_ROUTE)
		if err != nil {
			return fmt.Errorf("open netlink socket: %w", err)
		}
		if o.handle, err = netlink.NewHandle(unix.NETLINK_ROUTE); err != nil {
			o.sock.Close()
			return fmt.Errorf("open netlink socket: %w", err)
		}
		for i := range probes {
			if err := o.handle.SetNetNsIdByFd(int(probes[i].ns), i); err != nil {
				o.close()
				return fmt.Errorf("number the namespaces: %w", err)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return o, nil
}

func (o *observer) close() {
	o.sock.Close()
	o.handle.Close()
}

// links returns the interfaces of one node, and by interface number what pkg netlink does
// not tell of them.
func (o *observer) links(nsid int) ([]netlink.Link, map[int]traits, error) {
	type answer struct {
		links []netlink.Link
		about map[int]traits
	}
	a, err := host.RetryDump(func() (a answer, err error) {
		a.links, a.about, err = o.dumpLinks(nsid)
		return a, err
	})
	if err != nil {
		return nil, nil, fmt.Errorf("list interfaces: %w", err)
	}
	return a.links, a.about, nil
}

func (o *observer) dumpLinks(nsid int) ([]netlink.Link, map[int]traits, error) {
	req := nl.NewNetlinkRequest(unix.RTM_GETLINK, unix.NLM_F_DUMP)
	req.Sockets = map[int]*nl.SocketHandle{unix.NETLINK_ROUTE: {Socket: o.sock}}
	req.AddData(nl.NewIfInfomsg(unix.AF_UNSPEC))
	req.AddData(nl.NewRtAttr(unix.IFLA_TARGET_NETNSID, nl.Uint32Attr(uint32(nsid))))
	msgs, err := req.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWLINK)
	if err != nil {
		return nil, nil, err
	}
	links := make([]netlink.Link, 0, len(msgs))
	about := make(map[int]traits)
	for _, m := range msgs {
		l, err := netlink.LinkDeserialize(nil, m)
		if err != nil {
			return nil, nil, err
		}
		links = append(links, l)
		kind := rootQdisc(m)
		t := traits{fresh: kind == noQdisc, inherits: inheritsOuter(m)}
		if kind != noQdisc && kind != "noqueue" {
			t.queue = kind
		}
		about[l.Attrs().Index] = t
	}
	return links, about, nil
}

// traits are what pkg netlink leaves out of an interface.
type traits struct {
	queue    string // kind of the root queueing discipline; "": it queues nothing, or there is none
	fresh    bool   // it has none yet: the kernel makes it when the interface is first set up
	inherits bool   // see inheritsOuter
}

// noQdisc is the kind that an interface has before it is first set up.
const noQdisc = "noop"

// rootQdisc reads what pkg netlink leaves out of a message about an interface: the kind of its
// root queueing discipline. "": it is not told.
func rootQdisc(m []byte) string {
	attrs, err := nl.ParseRouteAttr(m[unix.SizeofIfInfomsg:])
	if err != nil {
		return ""
	}
	for _, a := range attrs {
		if a.Attr.Type == unix.IFLA_QDISC {
			return unix.ByteSliceToString(a.Value)
		}
	}
	return ""
}

// node says which node an id means that was seen at node self; ok is false if it
// is none of ours.
func (o *observer) node(self, nsid int) (node int, ok bool) {
	if nsid < 0 {
		return self, true
	}
	return nsid, nsid < o.size
}
