// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/system"
	"github.com/vnetradar/radar/pkg/vnet/topo"
)

// Watcher reports rules that use the mark, and some that change packets, as soon as they come: of nf_tables (so of
// iptables-nft and ebtables-nft, too), of `ip rule`, of IPsec. It reads what the message
// says and asks nobody, since packets meet the rule already. FindQuiet finds what no message
// announces.
//
// Its methods may be called from any goroutine.
type Watcher struct {
	listener *system.Listener
	uses     chan Conflict
	lost     chan struct{}
	changing chan struct{}

	mu     sync.Mutex
	names  map[int]string // of nodes, by id
	matter map[int]Kind   // see SetChanging, by id
}

// mostWaiting is how many conflicts wait for the listener at most; what comes then counts
// as lost, and is found by looking.
const mostWaiting = 256

// markSources are the protocols and groups that announce rules, and what reads a message.
var markSources = []struct {
	protocol int
	groups   []int
	read     func(kind uint16, msg []byte) Conflict
}{
	{unix.NETLINK_NETFILTER, []int{unix.NFNLGRP_NFTABLES}, func(kind uint16, msg []byte) (c Conflict) {
		if kind != newRule {
			return c
		}
		u := nftUseOf(msg)
		return u.conflict()
	}},
	{unix.NETLINK_ROUTE, []int{unix.RTNLGRP_IPV4_RULE, unix.RTNLGRP_IPV6_RULE}, func(kind uint16, msg []byte) (c Conflict) {
		if kind != unix.RTM_NEWRULE {
			return c
		}
		return ruleConflict(msg)
	}},
	{unix.NETLINK_XFRM, []int{xfrmGroupPolicy, xfrmGroupSA}, xfrmConflict},
}

// Groups of NETLINK_XFRM.
const (
	xfrmGroupSA     = 3
	xfrmGroupPolicy = 4
)

// NewWatcher starts a watcher that watches no node yet. The caller closes it.
func NewWatcher() (*Watcher, error) {
	w := &Watcher{uses: make(chan Conflict, mostWaiting), lost: make(chan struct{}, 1), changing: make(chan struct{}, 1)}
	var sources []system.Source
	for _, source := range markSources { // a kernel without a protocol has no such rules
		sources = append(sources, system.Source{Protocol: source.protocol, Groups: source.groups, Optional: true, Hear: func(h system.Heard) bool {
			w.hear(h, source.read)
			return false
		}})
	}
	var err error
	if w.listener, err = system.Listen(sources...); err != nil {
		return nil, fmt.Errorf("watch users of the mark: %w", err)
	}
	return w, nil
}

// Close ends the watcher and waits for its goroutines.
func (w *Watcher) Close() { w.listener.Close() }

// C delivers conflicts, with the node's name. It is never closed.
func (w *Watcher) C() <-chan Conflict { return w.uses }

// Lost says that messages were lost: Find has to look. It is never closed.
func (w *Watcher) Lost() <-chan struct{} { return w.lost }

// Set watches these nodes, and no others. Namespaces that have vanished are left out.
func (w *Watcher) Set(nodes []topo.NodeSpec) error {
	names := make(map[int]string)
	for _, n := range nodes {
		id, err := w.listener.Number(n.Place)
		if errors.Is(err, topo.ErrGone) {
			continue
		}
		if err != nil {
			return err
		}
		names[id] = n.Name
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.names = names
	return nil
}

// Changing says that a rule has come that makes a change which SetChanging asks for, or that messages were lost. It is never
// closed.
func (w *Watcher) Changing() <-chan struct{} { return w.changing }

// SetChanging watches these nodes, and no others, for rules of nf_tables that make one of these changes to packets.
// If a rule translates addresses, it is not known whether they are the node's own. Namespaces that have vanished are left out.
func (w *Watcher) SetChanging(kinds map[topo.NodeSpec]Kind) error {
	matter := make(map[int]Kind)
	for n, kind := range kinds {
		id, err := w.listener.Number(n.Place)
		if errors.Is(err, topo.ErrGone) {
			continue
		}
		if err != nil {
			return err
		}
		matter[id] |= kind // two nodes can be one namespace
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.matter = matter
	return nil
}

// noteChanging reports a message about a rule that makes such a change.
func (w *Watcher) noteChanging(m *syscall.NetlinkMessage, kinds Kind) {
	if kinds == 0 || m.Header.Type != newRule {
		return
	}
	r := readRule(m.Data)
	if r.changes(func(_, _ netip.Addr) bool { return true })&kinds != 0 {
		system.Leave(w.changing)
	}
}

// newRule is the type of messages about a rule of nf_tables that has come.
const newRule = unix.NFNL_SUBSYS_NFTABLES<<8 | unix.NFT_MSG_NEWRULE

// hear reads what was heard.
func (w *Watcher) hear(h system.Heard, read func(uint16, []byte) Conflict) {
	if h.Err != nil {
		w.miss()
		return
	}
	w.mu.Lock()
	name, known := w.names[h.Number]
	kinds := w.matter[h.Number]
	w.mu.Unlock()
	for i := range h.Messages {
		m := &h.Messages[i]
		w.noteChanging(m, kinds)
		if !known {
			continue
		}
		c := read(m.Header.Type, m.Data)
		if c.Mask == 0 {
			continue
		}
		c.Node = name
		select {
		case w.uses <- c:
		default:
			w.miss()
		}
	}
}

// miss reports that something was lost.
func (w *Watcher) miss() {
	system.Leave(w.lost)
	system.Leave(w.changing)
}
