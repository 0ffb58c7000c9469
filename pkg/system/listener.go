// SPDX-License-Identifier: Apache-2.0

package system

import (
	"encoding/binary"
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
	"github.com/vnetradar/radar/pkg/host/clock"
)

// Listener hears what groups of netlink say about nodes, as soon as the kernel says it. Its sockets are in an empty namespace of
// its own, in which each node's has a number (NETLINK_LISTEN_ALL_NSID). So it keeps no namespace alive after `ip netns del`, and
// leaves no number behind in the machine's. It needs CAP_NET_ADMIN and CAP_NET_BROADCAST. Its methods may be called from any
// goroutine.
type Listener struct {
	handle *netlink.Handle // in that namespace, to give numbers
	socks  []*socket
	wait   sync.WaitGroup
}

// Source is a socket of a Listener, which has a goroutine of its own.
type Source struct {
	Protocol int
	Groups   []int
	Filter   *unix.SockFprog // what the socket takes; nil: all
	Optional bool            // a kernel without the protocol is no error
	// Hear gets what the socket hears, and reports whether there may be more soon: then it is looked at often, so that it is known
	// well when that came.
	Hear func(Heard) (more bool)
}

// Heard is what a socket has heard at once.
type Heard struct {
	Number   int // of the namespace: Listener.Number; -1: the listener's own
	Messages []syscall.NetlinkMessage
	Err      error  // messages were lost, or cannot be read
	After    uint64 // all that was said before that time (CLOCK_MONOTONIC in ns) had been heard; 0: not known
}

// How often a socket is looked at while there may be more, and how long after the last message.
const (
	moreEvery  = 10 * time.Millisecond
	moreWithin = time.Second
)

// netlinkBuffer is how many bytes of messages the kernel keeps: a large ruleset comes at once.
const netlinkBuffer = 4 << 20

// Listen begins to hear, of no node yet. The caller closes it.
func Listen(sources ...Source) (*Listener, error) {
	l := &Listener{}
	err := host.InNewNetns(func() (err error) {
		if l.handle, err = netlink.NewHandle(unix.NETLINK_ROUTE); err != nil {
			return fmt.Errorf("open netlink socket: %w", err)
		}
		for i := range sources {
			err := l.open(&sources[i])
			if err != nil && !(sources[i].Optional && errors.Is(err, unix.EPROTONOSUPPORT)) {
				return err
			}
		}
		return nil
	})
	if err != nil {
		l.Close()
		return nil, err
	}
	for _, s := range l.socks {
		l.wait.Go(s.receive)
	}
	return l, nil
}

// ListenLinks is Listen for interfaces: there is something in the channel once one has come, gone or changed. It says no more than
// that: whoever listens looks. The channel is never closed.
func ListenLinks() (*Listener, <-chan struct{}, error) {
	changed := make(chan struct{}, 1)
	l, err := Listen(Source{Protocol: unix.NETLINK_ROUTE, Groups: []int{unix.RTNLGRP_LINK}, Hear: hearLinks(changed)})
	if err != nil {
		return nil, nil, fmt.Errorf("hear of interfaces: %w", err)
	}
	return l, changed, nil
}

func hearLinks(changed chan<- struct{}) func(Heard) bool {
	return func(h Heard) bool {
		if h.Err != nil || slices.ContainsFunc(h.Messages, isOfLink) { // what was lost may have been of one
			Leave(changed)
		}
		return false
	}
}

// Leave leaves word for who listens to a channel that holds one, unless there is some already.
func Leave(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Number gives the node's namespace a number, by which it is heard from now on, and returns it. ErrGone: the namespace is gone.
func (l *Listener) Number(p Place) (int, error) { return p.NumberIn(l.handle) }

// NumberAll is Number of places, of which those that are gone are left out.
func (l *Listener) NumberAll(places ...Place) error {
	var errs []error
	for _, p := range places {
		if _, err := l.Number(p); err != nil && !errors.Is(err, ErrGone) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Follow hears of groups of the first source from now on, or no more.
func (l *Listener) Follow(on bool, groups ...int) error {
	option := unix.NETLINK_DROP_MEMBERSHIP
	if on {
		option = unix.NETLINK_ADD_MEMBERSHIP
	}
	var failed error
	err := l.socks[0].conn.Control(func(fd uintptr) { failed = join(int(fd), option, groups) })
	return errors.Join(err, failed)
}

// NoteIdle looks whether all messages have been heard: nothing before now was overlooked then. Call it some times a second: that is
// how well it is known when something came that is the first one for long.
func (l *Listener) NoteIdle() {
	for _, s := range l.socks {
		_ = s.conn.Control(func(fd uintptr) { // it fails when the socket is closed
			s.hearing.Lock()
			defer s.hearing.Unlock()
			now := clock.Monotonic()
			// Unlike recvmsg, poll leaves an error where receive will find it.
			if n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0); n == 0 && err == nil {
				s.idle = now
			}
		})
	}
}

// Close ends it, and waits until nothing hears any more.
func (l *Listener) Close() {
	for _, s := range l.socks {
		close(s.closed)
		s.file.Close()
	}
	l.wait.Wait()
	if l.handle != nil {
		l.handle.Close()
	}
}

type socket struct {
	file   *os.File
	conn   syscall.RawConn // file's
	hear   func(Heard) bool
	closed chan struct{}

	hearing sync.Mutex // held from when a message is read until it has been heard
	idle    uint64     // all that was said before that has been heard
}

// open opens a socket in the thread's namespace, which it keeps alive.
func (l *Listener) open(s *Source) error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, s.Protocol)
	if err != nil {
		return fmt.Errorf("open netlink socket: %w", err)
	}
	file := os.NewFile(uintptr(fd), "netlink")
	conn, err := file.SyscallConn()
	if err == nil {
		err = s.bind(fd)
	}
	if err != nil {
		file.Close()
		return fmt.Errorf("netlink protocol %d: %w", s.Protocol, err)
	}
	l.socks = append(l.socks, &socket{file: file, conn: conn, hear: s.Hear, closed: make(chan struct{})})
	return nil
}

// bind begins to hear with the filter in place.
func (s *Source) bind(fd int) error {
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return fmt.Errorf("bind socket: %w", err)
	}
	if s.Filter != nil {
		if err := unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, s.Filter); err != nil {
			return fmt.Errorf("filter messages: %w", err)
		}
	}
	if err := join(fd, unix.NETLINK_ADD_MEMBERSHIP, s.Groups); err != nil {
		return err
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_LISTEN_ALL_NSID, 1); err != nil {
		return fmt.Errorf("listen to all namespaces: %w", err)
	}
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, netlinkBuffer) // else the default holds, and more is lost
	return nil
}

func join(fd, option int, groups []int) error {
	for _, group := range groups {
		if err := unix.SetsockoptInt(fd, unix.SOL_NETLINK, option, group); err != nil {
			return fmt.Errorf("listen to group %d: %w", group, err)
		}
	}
	return nil
}

// receive reads messages until the socket is closed.
func (s *socket) receive() {
	b, oob := make([]byte, 1<<16), make([]byte, 256)
	var until time.Time // it is looked at often
	for {
		var deadline time.Time // none
		if now := time.Now(); now.Before(until) {
			deadline = now.Add(moreEvery)
		}
		var n, noob, flags int
		var err error
		_ = s.file.SetReadDeadline(deadline) // fails when it is closed, as Read does
		ended := s.conn.Read(func(fd uintptr) bool {
			s.hearing.Lock()
			now := clock.Monotonic()
			n, noob, flags, _, err = unix.Recvmsg(int(fd), b, oob, 0)
			if errors.Is(err, unix.EAGAIN) {
				s.idle = now
			}
			if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
				s.hearing.Unlock()
				return false
			}
			return true // hearing stays locked until the message has been heard
		})
		switch {
		case errors.Is(ended, os.ErrDeadlineExceeded):
			continue
		case ended != nil:
			return
		}
		h := Heard{Number: -1, After: s.idle}
		switch {
		case err != nil:
		case flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0:
			err = unix.EMSGSIZE
		default:
			h.Number = numberIn(oob[:noob])
			h.Messages, err = syscall.ParseNetlinkMessage(b[:n])
		}
		h.Err = err // the kernel says once that its buffer was full
		if s.hear(h) {
			until = time.Now().Add(moreWithin)
		}
		s.hearing.Unlock()
		if err != nil && !errors.Is(err, unix.ENOBUFS) && n <= 0 { // of no kind that is known: do not spin on it
			select {
			case <-s.closed:
			case <-time.After(time.Second):
			}
		}
	}
}

// numberIn is the number of the namespace that a message is from, by what came beside it; -1: the socket's own.
func numberIn(oob []byte) int {
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

func isOfLink(m syscall.NetlinkMessage) bool {
	return m.Header.Type == unix.RTM_NEWLINK || m.Header.Type == unix.RTM_DELLINK
}

// ChangesLink reports whether a message says that an interface has come, has gone, or was set up or down.
func ChangesLink(m syscall.NetlinkMessage) bool {
	const change = 12 // offset of ifinfomsg.ifi_change: all ones for a new interface
	switch m.Header.Type {
	case unix.RTM_DELLINK:
		return true
	case unix.RTM_NEWLINK:
		return len(m.Data) >= unix.SizeofIfInfomsg && binary.NativeEndian.Uint32(m.Data[change:])&unix.IFF_UP != 0
	}
	return false
}
