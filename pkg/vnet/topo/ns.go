// SPDX-License-Identifier: Apache-2.0

package topo

import (
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/host"
)

// nsGlobs are where namespaces can be reached.
var nsGlobs = []string{netnsDir + "/*", "/run/docker/netns/*", "/proc/[0-9]*/ns/net"}

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
func (s NodeSpec) Open() (netns.NsHandle, error) {
	if s.IsHost() {
		return host.OwnNetns().Open()
	}
	ns, inum, err := host.OpenNetns(s.Path)
	if err == nil && inum == s.Inum {
		return ns, nil
	}
	if err == nil {
		ns.Close()
	} else if errors.Is(err, fs.ErrPermission) {
		return netns.None(), fmt.Errorf("node %s: %w", s.Name, err)
	}
	return netns.None(), fmt.Errorf("node %s (%s): %w", s.Name, s.Spec, ErrGone)
}

// Find opens the node's namespace wherever it can be reached, for cleaning up:
// it lives as long as any process or mount holds it. Inode numbers are used
// again, so what it returns may be another namespace; touch only what is ours.
// ErrGone: it is nowhere.
func (s NodeSpec) Find() (netns.NsHandle, error) {
	if ns, err := s.Open(); err == nil {
		return ns, nil
	}
	for _, glob := range nsGlobs {
		paths, _ := filepath.Glob(glob) // the patterns are well formed
		for _, path := range paths {
			if ns, ok := openIf(path, s.Inum); ok {
				return ns, nil
			}
		}
	}
	return netns.None(), fmt.Errorf("node %s (%s): %w", s.Name, s.Spec, ErrGone)
}

func openIf(path string, inum uint32) (netns.NsHandle, bool) {
	var st unix.Stat_t
	if unix.Stat(path, &st) != nil || uint32(st.Ino) != inum {
		return netns.None(), false
	}
	ns, got, err := host.OpenNetns(path)
	if err != nil {
		return netns.None(), false
	}
	if got != inum {
		ns.Close()
		return netns.None(), false
	}
	return ns, true
}

// Namespaces finds every network namespace that can be reached by a name or a
// process, except the host's, each once. Its specs have no node names.
func Namespaces() []NodeSpec { return slices.Collect(namespaces()) }

// namespaces is Namespaces one by one, those with a name first: to look at every
// process takes a while.
func namespaces() iter.Seq[NodeSpec] {
	return func(yield func(NodeSpec) bool) {
		seen := map[uint32]bool{host.OwnNetns().Inum: true}
		for _, glob := range nsGlobs {
			paths, _ := filepath.Glob(glob) // the patterns are well formed
			for _, path := range paths {
				// Files of nsfs are cheap to stat; only new inodes are opened.
				var st unix.Stat_t
				if unix.Stat(path, &st) != nil || seen[uint32(st.Ino)] {
					continue
				}
				inum, err := identify(path)
				if err != nil {
					continue
				}
				seen[inum] = true
				if !yield(NodeSpec{Spec: specOf(path), Path: path, Inum: inum}) {
					return
				}
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
