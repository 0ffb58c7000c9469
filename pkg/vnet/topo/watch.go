// SPDX-License-Identifier: Apache-2.0

package topo

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/host"
)

// maxDelay is how many quiet times an event waits at most while changes go on.
const maxDelay = 10

// urgentGap is the least time between events that do not wait: a bridge got or lost
// a port. They come in bursts when containers start.
const urgentGap = 10 * time.Millisecond

// urgentLinks is how many messages about interfaces that come, go, or are set up or down are
// urgent in a second; others wait: whoever controls a node can cause any number.
const urgentLinks = 20

// routeGap is how long routes must have stayed the same for the next change to be urgent.
// A routing protocol changes them all the time.
const routeGap = time.Second

// routeGroups tell of routes, of their next hops, and of the rules that choose tables.
var routeGroups = []int{
	unix.RTNLGRP_IPV4_ROUTE, unix.RTNLGRP_IPV6_ROUTE, unix.RTNLGRP_IPV4_RULE, unix.RTNLGRP_IPV6_RULE, unix.RTNLGRP_NEXTHOP,
}

// Watcher tells that something changed in the watched namespaces: interfaces,
// addresses, queueing disciplines, or a namespace that ended; routes where that is asked
// for. It says no more than that: whoever listens looks at the whole again. It tells at
// once when an interface comes, goes, or is set up or down, when a bridge gets or loses a port,
// or routes change, since packets may leave there that nobody restores; other changes wait
// until all is quiet.
//
// One socket hears all namespaces. It lives in an empty namespace of its own, in
// which each watched one has an id (NETLINK_LISTEN_ALL_NSID). So watching keeps
// no namespace alive after `ip netns del`, and leaves no id behind in the host's.
// It needs CAP_NET_ADMIN and CAP_NET_BROADCAST.
//
// Its methods may be called from any goroutine.
type Watcher struct {
	quiet  time.Duration
	out    chan struct{} // to the listener; holds one event
	raw    chan struct{} // from the socket; holds one event
	urgent chan struct{} // the same for what must not wait
	done   chan struct{}
	wait   sync.WaitGroup
	sock   *nl.NetlinkSocket
	handle *netlink.Handle // in the watcher's namespace, to give ids

	mu     sync.Mutex // serialises Set and FollowRoutes
	routes bool       // routeGroups are heard
}

// NewWatcher starts a watcher that watches nothing yet. An event is sent when
// nothing has changed for the time quiet, and at the latest after ten times
// that. The caller closes it.
func NewWatcher(quiet time.Duration) (*Watcher, error) {
	w := &Watcher{
		quiet: quiet,
		out:   make(chan struct{}, 1), done: make(chan struct{}),
		raw: make(chan struct{}, 1), urgent: make(chan struct{}, 1),
	}
	if err := host.InNewNetns(w.open); err != nil {
		return nil, fmt.Errorf("watch namespaces: %w", err)
	}
	w.wait.Add(2)
	go w.receive()
	go w.settle()
	return w, nil
}

// open opens both sockets in the thread's namespace, which they keep alive.
func (w *Watcher) open() (err error) {
	w.sock, err = nl.Subscribe(unix.NETLINK_ROUTE,
		unix.RTNLGRP_LINK, unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR, unix.RTNLGRP_TC, unix.RTNLGRP_NSID,
		unix.RTNLGRP_NEIGH,        // of VXLAN's forwarding tables
		unix.RTNLGRP_IPV6_NETCONF) // forwarding, with which anycast addresses come and go
	if err != nil {
		return fmt.Errorf("open netlink socket: %w", err)
	}
	if err := unix.SetsockoptInt(w.sock.GetFd(), unix.SOL_NETLINK, unix.NETLINK_LISTEN_ALL_NSID, 1); err != nil {
		w.sock.Close()
		return fmt.Errorf("listen to all namespaces: %w", err)
	}
	if w.handle, err = netlink.NewHandle(unix.NETLINK_ROUTE); err != nil {
		w.sock.Close()
		return fmt.Errorf("open netlink socket: %w", err)
	}
	return nil
}

// Set adds the nodes that are not watched yet. Namespaces that have vanished are
// left out. One that left the domain goes on causing events until it ends.
func (w *Watcher) Set(nodes []NodeSpec) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, n := range nodes {
		ns, err := n.Open()
		if errors.Is(err, ErrGone) {
			continue
		}
		if err != nil {
			return err
		}
		// Known ones too: inode numbers are used again.
		err = w.handle.SetNetNsIdByFd(int(ns), -1)
		ns.Close()
		if err != nil && !errors.Is(err, unix.EEXIST) {
			return fmt.Errorf("watch node %s: %w", n.Name, err)
		}
	}
	return nil
}

// FollowRoutes says whether changes of routes and rules cause events, which they do not
// at first: only a tunnel depends on them, and a router can have many. It returns whether
// that is new.
func (w *Watcher) FollowRoutes(on bool) (changed bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if on == w.routes {
		return false, nil
	}
	option := unix.NETLINK_DROP_MEMBERSHIP
	if on {
		option = unix.NETLINK_ADD_MEMBERSHIP
	}
	for _, group := range routeGroups {
		if err := unix.SetsockoptInt(w.sock.GetFd(), unix.SOL_NETLINK, option, group); err != nil {
			return false, fmt.Errorf("watch routes: %w", err)
		}
	}
	w.routes = on
	return true, nil
}

// C delivers the events. It is never closed.
func (w *Watcher) C() <-chan struct{} { return w.out }

// Close ends the watcher and waits for its goroutines.
func (w *Watcher) Close() {
	close(w.done)
	w.sock.Close()
	w.handle.Close()
	w.wait.Wait()
}

// receive turns whatever the socket says into raw events.
func (w *Watcher) receive() {
	defer w.wait.Done()
	var lastRoute time.Time
	var links budget
	for {
		msgs, _, err := w.sock.Receive()
		if err == nil && !slices.ContainsFunc(msgs, matters) {
			continue
		}
		pause := time.Duration(0)
		if err != nil && !errors.Is(err, unix.ENOBUFS) {
			pause = time.Second // of no kind that is known: do not spin on it
		}
		select {
		case <-w.done:
			return
		case <-time.After(pause):
		}
		// Even an error is an event: messages were lost.
		to := w.raw
		if err != nil || changesBridge(msgs) {
			to = w.urgent
		}
		if slices.ContainsFunc(msgs, changesLink) {
			if links.take(time.Now()) {
				to = w.urgent
			}
		}
		if slices.ContainsFunc(msgs, ofRoutes) {
			if time.Since(lastRoute) > routeGap {
				to = w.urgent
			}
			lastRoute = time.Now()
		}
		select {
		case to <- struct{}{}:
		default:
		}
	}
}

// changesBridge says whether a message is of a bridge about one of its ports.
func changesBridge(msgs []syscall.NetlinkMessage) bool {
	for _, m := range msgs {
		link := m.Header.Type == unix.RTM_NEWLINK || m.Header.Type == unix.RTM_DELLINK
		if link && len(m.Data) > 0 && m.Data[0] == unix.AF_BRIDGE { // ifinfomsg.ifi_family
			return true
		}
	}
	return false
}

// budget counts the urgent changes of interfaces.
type budget struct {
	second time.Time // when the count began
	n      int
}

// take says whether one more may be urgent.
func (b *budget) take(now time.Time) bool {
	if now.Sub(b.second) > time.Second {
		b.second, b.n = now, 0
	}
	b.n++
	return b.n <= urgentLinks
}

// changesLink says whether a message is of an interface that has come, has gone, or was set up
// or down.
func changesLink(m syscall.NetlinkMessage) bool {
	const change = 12 // offset of ifinfomsg.ifi_change: all ones for a new interface
	switch m.Header.Type {
	case unix.RTM_DELLINK:
		return true
	case unix.RTM_NEWLINK:
		return len(m.Data) >= unix.SizeofIfInfomsg && binary.NativeEndian.Uint32(m.Data[change:])&unix.IFF_UP != 0
	}
	return false
}

// ofRoutes says whether a message is of routeGroups.
func ofRoutes(m syscall.NetlinkMessage) bool {
	switch m.Header.Type {
	case unix.RTM_NEWROUTE, unix.RTM_DELROUTE, unix.RTM_NEWRULE, unix.RTM_DELRULE, unix.RTM_NEWNEXTHOP, unix.RTM_DELNEXTHOP:
		return true
	}
	return false
}

// matters says whether a message can be about something that Discover looks at: not of
// ids that Set gave, and of neighbours only where a tunnel learned a far end.
func matters(m syscall.NetlinkMessage) bool {
	switch m.Header.Type {
	case unix.RTM_NEWNSID:
		return false
	case unix.RTM_NEWNEIGH, unix.RTM_DELNEIGH:
		n, err := netlink.NeighDeserialize(m.Data)
		return err != nil || n.Family == unix.AF_BRIDGE && n.IP != nil
	}
	return true
}

// settle joins raw events that come close together into one.
func (w *Watcher) settle() {
	defer w.wait.Done()
	timer := time.NewTimer(0)
	<-timer.C
	var latest time.Time // an event must be out by then; zero: none is waiting
	var last time.Time   // when the last urgent one went out
	tell := func() {
		select {
		case w.out <- struct{}{}:
		default:
		}
	}
	for {
		delay := w.quiet
		select {
		case <-w.done:
			return
		case <-timer.C:
			latest = time.Time{}
			tell()
			continue
		case <-w.urgent:
			if since := time.Since(last); since < urgentGap {
				delay = min(delay, urgentGap-since)
			} else {
				last = time.Now()
				tell() // and once more when all is quiet
			}
		case <-w.raw:
		}
		if latest.IsZero() {
			latest = time.Now().Add(maxDelay * w.quiet)
		}
		if delay < w.quiet {
			latest = time.Now().Add(delay) // not later, whatever else happens
		}
		timer.Reset(min(delay, time.Until(latest)))
	}
}
