// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"sync"
	"syscall"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/host"
	"github.com/vnetradar/radar/pkg/vnet/topo"
)

// Watcher tells of rules that use the mark, and of some that change packets, as soon as they come: of nf_tables (so of
// iptables-nft and ebtables-nft, too), of `ip rule`, of IPsec. It reads what the message
// says and asks nobody, since packets meet the rule already. What no message tells of is
// found by FindQuiet.
//
// Like topo.Watcher it has sockets in a namespace of its own, which hear all namespaces that
// have an id there. It needs CAP_NET_ADMIN and CAP_NET_BROADCAST. Its methods may be called
// from any goroutine.
type Watcher struct {
	uses   chan Conflict
	lost   chan struct{}
	handle *netlink.Handle // in the watcher's namespace, to give ids
	socks  []*os.File
	wait   sync.WaitGroup

	changing chan struct{}

	mu     sync.Mutex
	names  map[int]string // of nodes, by id
	matter map[int]Kind   // see SetChanging, by id
}

// mostWaiting is how many conflicts wait for the listener at most; what comes then counts
// as lost, and is found by looking.
const mostWaiting = 256

// markSources are the protocols and groups that tell of rules, and what reads a message.
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
	if err := host.InNewNetns(w.open); err != nil {
		w.Close()
		return nil, fmt.Errorf("watch users of the mark: %w", err)
	}
	return w, nil
}

// open opens the sockets in the thread's namespace, which they keep alive.
func (w *Watcher) open() (err error) {
	if w.handle, err = netlink.NewHandle(unix.NETLINK_ROUTE); err != nil {
		return fmt.Errorf("open netlink socket: %w", err)
	}
	for _, source := range markSources {
		sock, conn, err := host.ListenAll(source.protocol, nil, source.groups)
		if errors.Is(err, unix.EPROTONOSUPPORT) {
			continue // a kernel without it has no such rules
		}
		if err != nil {
			return err
		}
		w.socks = append(w.socks, sock)
		w.wait.Add(1)
		go w.receive(conn, source.read)
	}
	return nil
}

// Close ends the watcher and waits for its goroutines.
func (w *Watcher) Close() {
	for _, s := range w.socks {
		s.Close()
	}
	w.wait.Wait()
	if w.handle != nil {
		w.handle.Close()
	}
}

// C delivers what is told, with the node's name. It is never closed.
func (w *Watcher) C() <-chan Conflict { return w.uses }

// Lost says that messages were lost: Find has to look. It is never closed.
func (w *Watcher) Lost() <-chan struct{} { return w.lost }

// Set watches these nodes, and no others. Namespaces that have vanished are left out.
func (w *Watcher) Set(nodes []topo.NodeSpec) error {
	names := make(map[int]string)
	for _, n := range nodes {
		id, err := n.NumberIn(w.handle)
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

// Changing says that a rule has come that does to packets what SetChanging was told, or that messages were lost. It is never
// closed.
func (w *Watcher) Changing() <-chan struct{} { return w.changing }

// SetChanging watches these nodes, and no others, for rules of nf_tables that change packets in one of these ways.
// Of what translates addresses it is not known whether they are the node's own. Namespaces that have vanished are left out.
func (w *Watcher) SetChanging(kinds map[topo.NodeSpec]Kind) error {
	matter := make(map[int]Kind)
	for n, kind := range kinds {
		id, err := n.NumberIn(w.handle)
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

// noteChanging tells of a message about a rule that does so.
func (w *Watcher) noteChanging(m *syscall.NetlinkMessage, kinds Kind) {
	if kinds == 0 || m.Header.Type != newRule {
		return
	}
	r := readRule(m.Data)
	if r.changes(func(_, _ netip.Addr) bool { return true })&kinds != 0 {
		tell(w.changing)
	}
}

// newRule is the type of messages about a rule of nf_tables that has come.
const newRule = unix.NFNL_SUBSYS_NFTABLES<<8 | unix.NFT_MSG_NEWRULE

// receive reads messages until the socket is closed.
func (w *Watcher) receive(conn syscall.RawConn, read func(uint16, []byte) Conflict) {
	defer w.wait.Done()
	b, oob := make([]byte, 1<<16), make([]byte, 256)
	for {
		var n, noob, flags int
		var err error
		closed := conn.Read(func(fd uintptr) bool {
			n, noob, flags, _, err = unix.Recvmsg(int(fd), b, oob, 0)
			return !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR)
		})
		if closed != nil {
			return
		}
		if err != nil || flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0 {
			w.miss() // the kernel tells once that its buffer was full
			continue
		}
		msgs, err := syscall.ParseNetlinkMessage(b[:n])
		if err != nil {
			w.miss()
			continue
		}
		w.mu.Lock()
		id := host.NSIDOf(oob[:noob])
		name, known := w.names[id]
		kinds := w.matter[id]
		w.mu.Unlock()
		if !known && kinds == 0 {
			continue
		}
		for _, m := range msgs {
			w.noteChanging(&m, kinds)
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
}

// miss tells that something was lost.
func (w *Watcher) miss() {
	tell(w.lost)
	tell(w.changing)
}

// tell leaves word for who listens.
func tell(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
