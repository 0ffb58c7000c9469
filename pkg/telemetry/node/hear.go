// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/host"
)

// Hearing tells that an interface of a domain's nodes has come, gone or changed, as soon as the kernel says so: at one
// that is made anew no program stands, and what leaves there has INT. It tells no more: whoever listens looks.
//
// Its socket lives in an empty namespace of its own, in which each node's has a number. So it keeps no namespace alive.
// It needs CAP_NET_ADMIN and CAP_NET_BROADCAST.
type Hearing struct {
	handle *netlink.Handle // in that namespace, to give numbers
	sock   *os.File
	heard  chan struct{} // holds one
	wait   sync.WaitGroup
}

// Hear begins to hear, of no node yet. The caller closes it.
func Hear() (*Hearing, error) {
	h := &Hearing{heard: make(chan struct{}, 1)}
	err := host.InNewNetns(func() (err error) {
		if h.handle, err = netlink.NewHandle(unix.NETLINK_ROUTE); err != nil {
			return fmt.Errorf("open netlink socket: %w", err)
		}
		sock, conn, err := host.ListenAll(unix.NETLINK_ROUTE, nil, []int{unix.RTNLGRP_LINK})
		if err != nil {
			return err
		}
		h.sock = sock
		h.wait.Add(1)
		go h.receive(conn)
		return nil
	})
	if err != nil {
		h.Close()
		return nil, fmt.Errorf("hear of interfaces: %w", err)
	}
	return h, nil
}

// Close ends it.
func (h *Hearing) Close() {
	if h.sock != nil {
		h.sock.Close()
	}
	h.wait.Wait()
	if h.handle != nil {
		h.handle.Close()
	}
}

// C has something once an interface has changed. It is never closed.
func (h *Hearing) C() <-chan struct{} { return h.heard }

// Of hears of the nodes of a domain, and goes on with those that it hears of already. What happened there before, nobody
// has told. Nodes that are gone are left out.
func (h *Hearing) Of(d *Domain) error {
	var errs []error
	for i := range d.Nodes {
		ns, err := d.Nodes[i].Open()
		if gone(err) {
			continue
		}
		if err == nil {
			err = h.handle.SetNetNsIdByFd(int(ns), -1)
			ns.Close()
		}
		if err != nil && !errors.Is(err, unix.EEXIST) {
			errs = append(errs, fmt.Errorf("hear of the interfaces of node %s: %w", d.Nodes[i].Name, err))
		}
	}
	return errors.Join(errs...)
}

// receive reads messages until the socket is closed.
func (h *Hearing) receive(conn syscall.RawConn) {
	defer h.wait.Done()
	b := make([]byte, 1<<16)
	for {
		var n, flags int
		var err error
		closed := conn.Read(func(fd uintptr) bool {
			n, _, flags, _, err = unix.Recvmsg(int(fd), b, nil, 0)
			return !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR)
		})
		if closed != nil {
			return
		}
		if err != nil && !errors.Is(err, unix.ENOBUFS) {
			time.Sleep(time.Second) // of no kind that is known: do not spin on it
		}
		if err != nil || flags&unix.MSG_TRUNC != 0 || ofLinks(b[:n]) { // what was lost may have been of one
			select {
			case h.heard <- struct{}{}:
			default:
			}
		}
	}
}

// ofLinks reports whether one of some messages is about an interface, or they cannot be read.
func ofLinks(b []byte) bool {
	msgs, err := syscall.ParseNetlinkMessage(b)
	return err != nil || slices.ContainsFunc(msgs, func(m syscall.NetlinkMessage) bool {
		return m.Header.Type == unix.RTM_NEWLINK || m.Header.Type == unix.RTM_DELLINK
	})
}
