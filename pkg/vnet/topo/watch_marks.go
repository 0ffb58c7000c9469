// SPDX-License-Identifier: Apache-2.0

package topo

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/host"
)

// MarkWatcher tells of rules that use the mark as soon as they come: of nf_tables (so of
// iptables-nft and ebtables-nft, too), of `ip rule`, of IPsec. It reads what the message
// says and asks nobody, since packets meet the rule already. What no message tells of is
// found by FindQuietConflicts.
//
// Like a Watcher it has sockets in a namespace of its own, which hear all namespaces that
// have an id there. It needs CAP_NET_ADMIN and CAP_NET_BROADCAST. Its methods may be called
// from any goroutine.
type MarkWatcher struct {
	uses   chan Conflict
	lost   chan struct{}
	handle *netlink.Handle // in the watcher's namespace, to give ids
	socks  []*os.File
	wait   sync.WaitGroup

	mu    sync.Mutex
	names map[int]string // of nodes, by id
}

const (
	// markUses is how many conflicts wait for the listener at most; what comes then counts
	// as lost, and is found by looking.
	markUses = 256
	// markBuffer is how many bytes of messages the kernel keeps: a large ruleset comes at once.
	markBuffer = 4 << 20
)

// markSources are the protocols and groups that tell of rules, and what reads a message.
var markSources = []struct {
	protocol int
	groups   []int
	read     func(kind uint16, msg []byte) Conflict
}{
	{unix.NETLINK_NETFILTER, []int{unix.NFNLGRP_NFTABLES}, func(kind uint16, msg []byte) (c Conflict) {
		if kind != unix.NFNL_SUBSYS_NFTABLES<<8|unix.NFT_MSG_NEWRULE {
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

// NewMarkWatcher starts a watcher that watches no node yet. The caller closes it.
func NewMarkWatcher() (*MarkWatcher, error) {
	w := &MarkWatcher{uses: make(chan Conflict, markUses), lost: make(chan struct{}, 1)}
	if err := host.InNewNetns(w.open); err != nil {
		w.Close()
		return nil, fmt.Errorf("watch users of the mark: %w", err)
	}
	return w, nil
}

// listenAll opens a socket of a netlink protocol that gets what the groups tell of the thread's
// namespace and of all that have a number there. filter is nil, or what the socket takes; the
// groups are joined after that. The caller closes the file.
func listenAll(protocol int, filter *unix.SockFprog, groups []int) (*os.File, syscall.RawConn, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, protocol)
	if err != nil {
		return nil, nil, fmt.Errorf("open netlink socket: %w", err)
	}
	sock := os.NewFile(uintptr(fd), "netlink")
	if err := joinAll(fd, filter, groups); err != nil {
		sock.Close()
		return nil, nil, fmt.Errorf("netlink protocol %d: %w", protocol, err)
	}
	conn, err := sock.SyscallConn()
	if err != nil {
		sock.Close()
		return nil, nil, err
	}
	return sock, conn, nil
}

func joinAll(fd int, filter *unix.SockFprog, groups []int) error {
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return fmt.Errorf("bind socket: %w", err)
	}
	if filter != nil {
		if err := unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, filter); err != nil {
			return fmt.Errorf("filter messages: %w", err)
		}
	}
	for _, group := range groups {
		if err := unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_ADD_MEMBERSHIP, group); err != nil {
			return fmt.Errorf("listen to group %d: %w", group, err)
		}
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_LISTEN_ALL_NSID, 1); err != nil {
		return fmt.Errorf("listen to all namespaces: %w", err)
	}
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, markBuffer) // else the default holds, and more is lost
	return nil
}

// open opens the sockets in the thread's namespace, which they keep alive.
func (w *MarkWatcher) open() (err error) {
	if w.handle, err = netlink.NewHandle(unix.NETLINK_ROUTE); err != nil {
		return fmt.Errorf("open netlink socket: %w", err)
	}
	for _, source := range markSources {
		sock, conn, err := listenAll(source.protocol, nil, source.groups)
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
func (w *MarkWatcher) Close() {
	for _, s := range w.socks {
		s.Close()
	}
	w.wait.Wait()
	if w.handle != nil {
		w.handle.Close()
	}
}

// C delivers what is told, with the node's name. It is never closed.
func (w *MarkWatcher) C() <-chan Conflict { return w.uses }

// Lost says that messages were lost: FindConflicts has to look. It is never closed.
func (w *MarkWatcher) Lost() <-chan struct{} { return w.lost }

// Set watches these nodes, and no others. Namespaces that have vanished are left out.
func (w *MarkWatcher) Set(nodes []NodeSpec) error {
	names := make(map[int]string)
	for _, n := range nodes {
		id, err := numberIn(w.handle, n)
		if errors.Is(err, ErrGone) {
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

// receive reads messages until the socket is closed.
func (w *MarkWatcher) receive(conn syscall.RawConn, read func(uint16, []byte) Conflict) {
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
		name, known := w.names[nsidOf(oob[:noob])]
		w.mu.Unlock()
		if !known {
			continue
		}
		for _, m := range msgs {
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
func (w *MarkWatcher) miss() {
	select {
	case w.lost <- struct{}{}:
	default:
	}
}

// nsidOf returns the id of the namespace that a message is from; -1: the watcher's own.
func nsidOf(oob []byte) int {
	msgs, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return -1
	}
	for _, m := range msgs {
		if m.Header.Level == unix.SOL_NETLINK && m.Header.Type == unix.NETLINK_LISTEN_ALL_NSID && len(m.Data) >= 4 {
			return int(int32(binary.NativeEndian.Uint32(m.Data)))
		}
	}
	return -1
}
