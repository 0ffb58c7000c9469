// SPDX-License-Identifier: Apache-2.0

package topo

import (
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"strconv"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/host"
)

// identify returns the inode number of the network namespace at path.
func identify(path string) (uint32, error) {
	ns, inum, err := host.OpenNetns(path)
	if err != nil {
		return 0, err
	}
	ns.Close()
	return inum, nil
}

// Host returns the host's own namespace, as node "host".
func Host() NodeSpec {
	own := host.OwnNetns()
	return NodeSpec{Name: "host", Spec: hostSpec, Path: own.Path, Inum: own.Inum}
}

// Open opens the node's namespace at its path; the caller closes the handle.
// ErrGone: the path is gone, or leads to another namespace now.
func (s NodeSpec) Open() (netns.NsHandle, error) { return s.opened(host.SameNetns(s.Path, s.Inum)) }

// Find opens the node's namespace wherever it can be reached, for cleaning up: host.FindNetns.
// ErrGone: it is nowhere.
func (s NodeSpec) Find() (netns.NsHandle, error) { return s.opened(host.FindNetns(s.Path, s.Inum)) }

func (s NodeSpec) opened(ns netns.NsHandle, err error) (netns.NsHandle, error) {
	switch {
	case err == nil:
		return ns, nil
	case errors.Is(err, host.ErrNetnsGone):
		return netns.None(), fmt.Errorf("node %s (%s): %w", s.Name, s.Spec, ErrGone)
	}
	return netns.None(), fmt.Errorf("node %s: %w", s.Name, err)
}

// Namespaces finds every network namespace that can be reached by a name or a
// process, except the host's, each once. Its specs have no node names. After an error, of no more files that can be
// opened, some are missing.
func Namespaces() (specs []NodeSpec, err error) {
	for spec, err := range namespaces() {
		if err != nil {
			return specs, fmt.Errorf("find network namespaces: %w", err)
		}
		specs = append(specs, spec)
	}
	return specs, nil
}

// namespaces is Namespaces one by one, those with a name first: to look at every
// process takes a while.
func namespaces() iter.Seq2[NodeSpec, error] {
	return func(yield func(NodeSpec, error) bool) {
		for file, err := range host.Namespaces() {
			if err != nil {
				yield(NodeSpec{}, err)
				return
			}
			if file.Inum != host.OwnNetns().Inum && !yield(NodeSpec{Spec: specOf(file.Path), Path: file.Path, Inum: file.Inum}, nil) {
				return
			}
		}
	}
}

func specOf(path string) string {
	if dir, name := filepath.Split(path); filepath.Clean(dir) == netnsDir {
		return "netns:" + name
	}
	var pid int
	if _, err := fmt.Sscanf(path, "/proc/%d/ns/net", &pid); err == nil {
		return "pid:" + strconv.Itoa(pid)
	}
	return "netns:" + path
}

// Do runs f on a thread of its own inside the node's namespace, and waits.
// Sockets and files that f opens stay in that namespace. f must not start
// goroutines that rely on it.
func (s NodeSpec) Do(f func() error) error {
	ns, err := s.Open()
	if err != nil {
		return err
	}
	defer ns.Close()
	return host.InNetns(ns, f)
}

// NumberIn gives the node's namespace a number in that of the handle, if it has none, and returns it: messages of
// host.ListenAll's bear it. ErrGone: the namespace is gone.
func (s NodeSpec) NumberIn(handle *netlink.Handle) (int, error) {
	ns, err := s.Open()
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
		return -1, fmt.Errorf("watch node %s: %w", s.Name, err)
	}
	return id, nil
}
