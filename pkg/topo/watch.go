// SPDX-License-Identifier: Apache-2.0

package topo

import (
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// maxDelay is how many quiet times an event waits at most while changes go on.
const maxDelay = 10

// Watcher tells that something changed in the watched namespaces: interfaces,
// IPv4 addresses, or a namespace that ended. It says no more than that: whoever
// listens looks at the whole again.
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
	done   chan struct{}
	wait   sync.WaitGroup
	sock   *nl.NetlinkSocket
	handle *netlink.Handle // in the watcher's namespace, to give ids

	mu sync.Mutex // serialises Set
}

// NewWatcher starts a watcher that watches nothing yet. An event is sent when
// nothing has changed for the time quiet, and at the latest after ten times
// that. The caller closes it.
func NewWatcher(quiet time.Duration) (*Watcher, error) {
	w := &Watcher{
		quiet: quiet,
		out:   make(chan struct{}, 1), raw: make(chan struct{}, 1), done: make(chan struct{}),
	}
	if err := DoInNew(w.open); err != nil {
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
		unix.RTNLGRP_LINK, unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_NSID)
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
	for {
		msgs, _, err := w.sock.Receive()
		if err == nil && onlyIDs(msgs) {
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
		select {
		case w.raw <- struct{}{}:
		default:
		}
	}
}

// onlyIDs says whether the messages tell of nothing but ids that Set gave.
func onlyIDs(msgs []syscall.NetlinkMessage) bool {
	for _, m := range msgs {
		if m.Header.Type != unix.RTM_NEWNSID {
			return false
		}
	}
	return true
}

// settle joins raw events that come close together into one.
func (w *Watcher) settle() {
	defer w.wait.Done()
	timer := time.NewTimer(0)
	<-timer.C
	var latest time.Time // an event must be out by then; zero: none is waiting
	for {
		select {
		case <-w.done:
			return
		case <-w.raw:
			now := time.Now()
			if latest.IsZero() {
				latest = now.Add(maxDelay * w.quiet)
			}
			timer.Reset(min(w.quiet, time.Until(latest)))
		case <-timer.C:
			latest = time.Time{}
			select {
			case w.out <- struct{}{}:
			default:
			}
		}
	}
}
