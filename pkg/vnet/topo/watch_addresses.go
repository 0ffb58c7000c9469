// SPDX-License-Identifier: Apache-2.0

package topo

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"syscall"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/host/clock"
	"github.com/vnetradar/radar/pkg/system"
)

// AddressWatcher tells of nodes that have got or lost addresses, or an interface that has some,
// as soon as that happens. A Watcher waits until all is quiet; an address that moves to another
// node should be known when packets for it come.
//
// Its methods may be called from any goroutine.
type AddressWatcher struct {
	listener *system.Listener
	out      chan struct{}

	mu    sync.Mutex
	nodes map[int]NodeSpec // by id
	dirty map[int][]Told   // of nodes that may have changed
	lost  bool             // messages were lost: any node may have changed
	after uint64           // what is dirty was told of after that time
}

// Changed is a node that may have got addresses, or lost some.
type Changed struct {
	Node NodeSpec
	Told []Told // in order; what is not in it can have changed, too
}

// Told is what the kernel told of an address: packets to it end at the node from now on, or no
// longer. Times are CLOCK_MONOTONIC in ns.
type Told struct {
	Addr  netip.Addr
	Owned bool
	// The message came after the one time, and was read at the other. An address that has come
	// was the node's before that; one that goes is for some µs more.
	After, Read uint64
}

// maxTold bounds how many of them are kept of a node until they are taken.
const maxTold = 256

// NewAddressWatcher starts a watcher that watches no node yet. The caller closes it.
func NewAddressWatcher() (_ *AddressWatcher, err error) {
	w := &AddressWatcher{out: make(chan struct{}, 1), dirty: make(map[int][]Told)}
	// A router's routes are many, and only those to itself matter.
	w.listener, err = system.Listen(system.Source{Protocol: unix.NETLINK_ROUTE, Filter: localFilter(), Hear: w.hear, Groups: []int{
		unix.RTNLGRP_LINK, unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR, unix.RTNLGRP_IPV4_ROUTE, unix.RTNLGRP_IPV6_ROUTE,
	}})
	if err != nil {
		return nil, fmt.Errorf("watch addresses: %w", err)
	}
	return w, nil
}

// localFilter lets messages about routes pass only if these are to the namespace itself.
func localFilter() *unix.SockFprog {
	const (
		load2 = unix.BPF_LD | unix.BPF_H | unix.BPF_ABS // of bytes in network order
		load1 = unix.BPF_LD | unix.BPF_B | unix.BPF_ABS
		equal = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		end   = unix.BPF_RET | unix.BPF_K

		typeAt  = 4                       // of struct nlmsghdr
		routeAt = unix.SizeofNlMsghdr + 7 // rtm_type of struct rtmsg
		all     = 1<<31 - 1               // bytes to pass
	)
	code := []unix.SockFilter{
		{Code: load2, K: typeAt},
		{Code: equal, K: uint32(nl.Swap16(unix.RTM_NEWROUTE)), Jt: 1},
		{Code: equal, K: uint32(nl.Swap16(unix.RTM_DELROUTE)), Jf: 3},
		{Code: load1, K: routeAt},
		{Code: equal, K: unix.RTN_LOCAL, Jt: 1},
		{Code: end, K: 0},
		{Code: end, K: all},
	}
	return &unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
}

// Close ends the watcher and waits for its goroutine.
func (w *AddressWatcher) Close() { w.listener.Close() }

// NoteIdle is system.Listener's: it says how well it is known when an address came or went.
func (w *AddressWatcher) NoteIdle() { w.listener.NoteIdle() }

// C says that Take has something to tell. It is never closed.
func (w *AddressWatcher) C() <-chan struct{} { return w.out }

// Take returns the nodes that may have changed since the last call, all of them if messages
// were lost. They have changed after that time (CLOCK_MONOTONIC in ns; 0: not known).
func (w *AddressWatcher) Take() (nodes []Changed, after uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, spec := range w.nodes {
		if told, dirty := w.dirty[id]; w.lost || dirty {
			nodes = append(nodes, Changed{spec, told})
		}
	}
	after = w.after
	w.lost = false
	clear(w.dirty)
	return nodes, after
}

// Set watches these nodes, and no others. Namespaces that have vanished are left out.
func (w *AddressWatcher) Set(specs []NodeSpec) error {
	nodes := make(map[int]NodeSpec)
	for _, n := range specs {
		id, err := w.listener.Number(n.Place)
		if errors.Is(err, ErrGone) {
			continue
		}
		if err != nil {
			return err
		}
		nodes[id] = n
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.nodes = nodes
	return nil
}

// hear keeps what was heard, and reports whether that matters.
func (w *AddressWatcher) hear(h system.Heard) bool {
	now := clock.Monotonic()
	if h.Err == nil && !slices.ContainsFunc(h.Messages, changesAddress) {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, known := w.nodes[h.Number]; !known && h.Err == nil {
		return false
	}
	if len(w.dirty) == 0 && !w.lost {
		w.after = h.After
	}
	if h.Err != nil {
		w.lost = true
		clear(w.dirty) // what else has changed meanwhile is not known
	} else {
		w.dirty[h.Number] = appendTold(w.dirty[h.Number], h.Messages, h.After, now)
	}
	system.Leave(w.out)
	return true
}

// appendTold adds what messages say of addresses. Of too many it keeps none: then only what the
// node looks like says what has changed.
func appendTold(told []Told, msgs []syscall.NetlinkMessage, after, read uint64) []Told {
	for _, m := range msgs {
		if m.Header.Type != unix.RTM_NEWROUTE && m.Header.Type != unix.RTM_DELROUTE {
			continue
		}
		r, ok := destination(m.Data, unix.RTN_LOCAL)
		if !ok || !r.dst.IsSingleIP() {
			continue
		}
		if len(told) == maxTold {
			told = told[:0]
		}
		told = append(told, Told{Addr: r.dst.Addr(), Owned: m.Header.Type == unix.RTM_NEWROUTE, After: after, Read: read})
	}
	return told
}

// changesAddress says whether after a message a node may have other addresses.
func changesAddress(m syscall.NetlinkMessage) bool {
	switch m.Header.Type {
	case unix.RTM_NEWADDR, unix.RTM_DELADDR, unix.RTM_NEWROUTE, unix.RTM_DELROUTE:
		return true
	}
	return system.ChangesLink(m)
}

// Locals returns the addresses that the node delivers to itself, of both versions.
// ErrGone: the namespace is gone.
func (s NodeSpec) Locals() ([]netip.Addr, error) {
	ns, err := s.Open()
	if err != nil {
		return nil, err
	}
	defer ns.Close()
	addrs, _, err := localAddrs(ns)
	if err != nil {
		return nil, fmt.Errorf("node %s: %w", s.Name, err)
	}
	return addrs, nil
}
