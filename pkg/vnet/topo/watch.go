// SPDX-License-Identifier: Apache-2.0

package topo

import (
	"fmt"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/system"
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
// Its methods may be called from any goroutine.
type Watcher struct {
	listener *system.Listener
	quiet    time.Duration
	out      chan struct{} // to the listener; holds one event
	raw      chan struct{} // from the socket; holds one event
	urgent   chan struct{} // the same for what must not wait
	done     chan struct{}
	wait     sync.WaitGroup

	// Of hear alone.
	lastRoute time.Time
	links     budget

	mu     sync.Mutex // serialises FollowRoutes
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
	var err error
	w.listener, err = system.Listen(system.Source{Protocol: unix.NETLINK_ROUTE, Hear: w.hear, Groups: []int{
		unix.RTNLGRP_LINK, unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR, unix.RTNLGRP_TC, unix.RTNLGRP_NSID,
		unix.RTNLGRP_NEIGH,        // of VXLAN's forwarding tables
		unix.RTNLGRP_IPV6_NETCONF, // forwarding, with which anycast addresses come and go
	}})
	if err != nil {
		return nil, fmt.Errorf("watch namespaces: %w", err)
	}
	w.wait.Go(w.settle)
	return w, nil
}

// Set adds the nodes that are not watched yet. Namespaces that have vanished are
// left out. One that left the domain goes on causing events until it ends. Known ones are added again: inode numbers are used again.
func (w *Watcher) Set(nodes []NodeSpec) error {
	for _, n := range nodes {
		if err := w.listener.NumberAll(n.Place); err != nil {
			return err
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
	if err := w.listener.Follow(on, routeGroups...); err != nil {
		return false, fmt.Errorf("watch routes: %w", err)
	}
	w.routes = on
	return true, nil
}

// C delivers the events. It is never closed.
func (w *Watcher) C() <-chan struct{} { return w.out }

// Close ends the watcher and waits for its goroutines.
func (w *Watcher) Close() {
	w.listener.Close()
	close(w.done)
	w.wait.Wait()
}

// hear turns whatever is heard into raw events.
func (w *Watcher) hear(h system.Heard) (more bool) {
	if h.Err == nil && !slices.ContainsFunc(h.Messages, matters) {
		return false
	}
	// Even an error is an event: messages were lost.
	to := w.raw
	if h.Err != nil || changesBridge(h.Messages) {
		to = w.urgent
	}
	if slices.ContainsFunc(h.Messages, system.ChangesLink) && w.links.take(time.Now()) {
		to = w.urgent
	}
	if slices.ContainsFunc(h.Messages, ofRoutes) {
		if time.Since(w.lastRoute) > routeGap {
			to = w.urgent
		}
		w.lastRoute = time.Now()
	}
	system.Leave(to)
	return false
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
	timer := time.NewTimer(0)
	<-timer.C
	var latest time.Time // an event must be out by then; zero: none is waiting
	var last time.Time   // when the last urgent one went out
	tell := func() { system.Leave(w.out) }
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
