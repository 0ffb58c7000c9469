// SPDX-License-Identifier: Apache-2.0

package topo

import (
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

var errNotNetns = errors.New("not a network namespace")

// nsGlobs are where namespaces can be reached.
var nsGlobs = []string{netnsDir + "/*", "/run/docker/netns/*", "/proc/[0-9]*/ns/net"}

// nsGetType is the ioctl NS_GET_NSTYPE: which kind of namespace a file is.
const nsGetType = 0xb703

// identify returns the inode number of the network namespace at path.
func identify(path string) (uint32, error) {
	ns, inum, err := openAt(path)
	if err != nil {
		return 0, err
	}
	ns.Close()
	return inum, nil
}

// openAt opens the network namespace at path. The caller closes it.
func openAt(path string) (netns.NsHandle, uint32, error) {
	// O_NONBLOCK: the user may have named a FIFO.
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return netns.None(), 0, &os.PathError{Op: "open", Path: path, Err: err}
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		unix.Close(fd)
		return netns.None(), 0, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	if kind, err := unix.IoctlRetInt(fd, nsGetType); err != nil || kind != unix.CLONE_NEWNET {
		unix.Close(fd)
		return netns.None(), 0, fmt.Errorf("%s: %w", path, errNotNetns)
	}
	return netns.NsHandle(fd), uint32(st.Ino), nil
}

// host is the namespace of the host: that of process 1 where it can be seen, else
// the one this process began in; without Inum if neither can be read. It is read
// before any thread can have moved: what /proc shows of a process is its main
// thread, which is in a node for moments, or for good if it cannot return. hostNS
// stays open: the path may lead elsewhere for moments.
var host, hostNS = findHost()

// hostInum identifies it.
var hostInum = host.Inum

func findHost() (NodeSpec, netns.NsHandle) {
	for _, path := range []string{processPath(1), "/proc/self/ns/net"} {
		if ns, inum, err := openAt(path); err == nil {
			return NodeSpec{Name: "host", Spec: hostSpec, Path: path, Inum: inum}, ns
		}
	}
	return NodeSpec{Name: "host", Spec: hostSpec, Path: processPath(1)}, netns.None()
}

// Host returns the host's own namespace, as node "host".
func Host() NodeSpec { return host }

// Open opens the node's namespace at its path; the caller closes the handle.
// ErrGone: the path is gone, or leads to another namespace now.
func (s NodeSpec) Open() (netns.NsHandle, error) {
	if s.IsHost() {
		return openHost()
	}
	ns, inum, err := openAt(s.Path)
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

// openHost opens the host's namespace once more.
func openHost() (netns.NsHandle, error) {
	fd, err := unix.FcntlInt(uintptr(hostNS), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return netns.None(), fmt.Errorf("open the host's network namespace: %w", err)
	}
	return netns.NsHandle(fd), nil
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
	ns, got, err := openAt(path)
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
		seen := map[uint32]bool{hostInum: true}
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
	return DoIn(ns, f)
}

// DoIn is Do for a namespace that is open already.
func DoIn(ns netns.NsHandle, f func() error) error {
	return elsewhere(func() error {
		if err := netns.Set(ns); err != nil {
			return fmt.Errorf("enter network namespace: %w", err)
		}
		return f()
	})
}

// DoInNew is DoIn for a new namespace, which lives as long as a socket that f
// opens in it.
func DoInNew(f func() error) error {
	return elsewhere(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("create network namespace: %w", err)
		}
		return f()
	})
}

// elsewhere runs f, which changes the thread's namespace, on a locked thread. The
// goroutine is its own so that a thread that cannot return dies with it.
func elsewhere(f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		home, err := netns.Get()
		if err != nil {
			done <- fmt.Errorf("open own network namespace: %w", err)
			return
		}
		err = f()
		if netns.Set(home) == nil {
			runtime.UnlockOSThread()
		}
		home.Close() // before the caller goes on, who may count what is open
		done <- err
	}()
	return <-done
}
