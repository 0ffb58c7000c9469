// SPDX-License-Identifier: Apache-2.0

package system

import (
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/host"
)

// ErrGone says that a network namespace is not where it was.
var ErrGone = host.ErrNetnsGone

// Place is a network namespace, as a system knows one of its nodes.
type Place struct {
	Name string `json:"name"` // of the node
	Spec string `json:"spec"` // as the user named it, without the name: netns:NAME, pid:N, docker:NAME, ...
	Path string `json:"path"` // where it can be opened
	Inum uint32 `json:"inum"` // its inode number: what it is, whatever its path
}

// Open opens the namespace at its path; the caller closes the handle. ErrGone: the path is gone, or leads to another
// namespace now.
func (p Place) Open() (netns.NsHandle, error) { return p.opened(host.SameNetns(p.Path, p.Inum)) }

// Find opens the namespace wherever it can be reached, for cleaning up: host.FindNetns. ErrGone: it is nowhere.
func (p Place) Find() (netns.NsHandle, error) { return p.opened(host.FindNetns(p.Path, p.Inum)) }

func (p Place) opened(ns netns.NsHandle, err error) (netns.NsHandle, error) {
	switch {
	case err == nil:
		return ns, nil
	case errors.Is(err, ErrGone):
		return netns.None(), fmt.Errorf("node %s (%s): %w", p.Name, p.Spec, err)
	}
	return netns.None(), fmt.Errorf("node %s: %w", p.Name, err)
}

// IsGone reports whether the namespace is not there any more.
func (p Place) IsGone() bool {
	ns, err := p.Open()
	if err == nil {
		ns.Close()
	}
	return errors.Is(err, ErrGone)
}

// IsHost reports whether it is the machine's own namespace.
func (p Place) IsHost() bool { return p.Inum != 0 && p.Inum == host.OwnNetns().Inum }

// Do runs f on a thread of its own inside the namespace, and waits. Sockets and files that f opens stay in that namespace.
// f must not start goroutines that rely on it.
func (p Place) Do(f func() error) error {
	ns, err := p.Open()
	if err != nil {
		return err
	}
	defer ns.Close()
	return host.InNetns(ns, f)
}

// Handle opens a netlink socket in the namespace. The caller closes it.
func (p Place) Handle() (*netlink.Handle, error) {
	ns, err := p.Open()
	if err != nil {
		return nil, err
	}
	defer ns.Close()
	handle, err := netlink.NewHandleAt(ns, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("node %s: open netlink socket: %w", p.Name, err)
	}
	return handle, nil
}

// Links lists the interfaces there, by a netlink socket that the caller closes.
func (p Place) Links() (*netlink.Handle, []netlink.Link, error) {
	handle, err := p.Handle()
	if err != nil {
		return nil, nil, err
	}
	links, err := host.RetryDump(handle.LinkList)
	if err != nil {
		handle.Close()
		return nil, nil, fmt.Errorf("node %s: list interfaces: %w", p.Name, err)
	}
	return handle, links, nil
}

// NumberIn gives the namespace a number in that of the handle, if it has none, and returns it: messages of
// a Listener's bear it. ErrGone: the namespace is gone.
func (p Place) NumberIn(handle *netlink.Handle) (int, error) {
	ns, err := p.Open()
	if err != nil {
		return -1, err
	}
	defer ns.Close()
	if err = handle.SetNetNsIdByFd(int(ns), -1); errors.Is(err, unix.EEXIST) {
		err = nil
	}
	id := -1
	if err == nil {
		id, err = handle.GetNetNsIdByFd(int(ns))
	}
	if err != nil {
		return -1, fmt.Errorf("watch node %s: %w", p.Name, err)
	}
	return id, nil
}
