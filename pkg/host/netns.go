// SPDX-License-Identifier: Apache-2.0

package host

import (
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"runtime"
	"sync"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// ErrNotNetns says that a file is there, and is no network namespace.
var ErrNotNetns = errors.New("not a network namespace")

// nsGetType is the ioctl NS_GET_NSTYPE: which kind of namespace a file is.
const nsGetType = 0xb703

// OpenNetns opens the network namespace at path. Its inode number identifies it while it exists.
// The caller closes it.
func OpenNetns(path string) (ns netns.NsHandle, inum uint32, err error) {
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
		return netns.None(), 0, fmt.Errorf("%s: %w", path, ErrNotNetns)
	}
	return netns.NsHandle(fd), uint32(st.Ino), nil
}

// Netns is the network namespace of the host.
type Netns struct {
	Path string
	Inum uint32 // 0: it cannot be read

	ns netns.NsHandle
}

// OwnNetns returns the namespace of the host: that of process 1 where it can be seen, else the one
// that this process began in. It is opened at the first call, and stays open: the path may lead
// elsewhere for moments, since what /proc shows of a process is its main thread. OnOwnThread is
// such a call, before any thread moves.
func OwnNetns() Netns { return ownNetns() }

var ownNetns = sync.OnceValue(func() Netns {
	const first = "/proc/1/ns/net"
	for _, at := range []struct{ path, open string }{{first, first}, {"/proc/self/ns/net", "/proc/thread-self/ns/net"}} {
		if ns, inum, err := OpenNetns(at.open); err == nil {
			return Netns{Path: at.path, Inum: inum, ns: ns}
		}
	}
	return Netns{Path: first, ns: netns.None()}
})

// Open opens the namespace once more. The caller closes it.
func (n Netns) Open() (netns.NsHandle, error) {
	fd, err := unix.FcntlInt(uintptr(n.ns), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return netns.None(), fmt.Errorf("open the host's network namespace: %w", err)
	}
	return netns.NsHandle(fd), nil
}

// ErrNetnsGone says that a network namespace is not where it was.
var ErrNetnsGone = errors.New("the network namespace is gone")

// NetnsPaths are patterns of the files by which namespaces can be reached.
var NetnsPaths = []string{"/run/netns/*", "/run/docker/netns/*", "/proc/[0-9]*/ns/net"}

// SameNetns opens the network namespace at path if its inode number is inum. ErrNetnsGone: the path
// is gone, or leads to another one now. The caller closes it.
func SameNetns(path string, inum uint32) (netns.NsHandle, error) {
	if own := OwnNetns(); inum != 0 && inum == own.Inum {
		return own.Open()
	}
	ns, got, err := OpenNetns(path)
	switch {
	case err == nil && got == inum:
		return ns, nil
	case err == nil:
		ns.Close()
	case errors.Is(err, fs.ErrPermission) || isShort(err):
		return netns.None(), err
	}
	return netns.None(), ErrNetnsGone
}

// isShort reports whether something could not be opened since the process or the machine has no more of what that takes.
func isShort(err error) bool {
	return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) || errors.Is(err, unix.ENOMEM)
}

// NetnsFile is a file by which a network namespace can be reached.
type NetnsFile struct {
	Path string
	Inum uint32
}

// Namespaces are the network namespaces that can be reached by a file, each once, those with a name first: to look at every
// process takes a while. They end with an error when no more files can be opened.
func Namespaces() iter.Seq2[NetnsFile, error] {
	return func(yield func(NetnsFile, error) bool) {
		// filepath.Glob says nothing of directories that it could not read.
		dir, err := os.Open("/proc")
		if err != nil {
			yield(NetnsFile{}, err)
			return
		}
		dir.Close()
		seen := make(map[uint32]bool)
		for _, pattern := range NetnsPaths {
			paths, _ := filepath.Glob(pattern) // the patterns are well formed
			for _, path := range paths {
				// Files of nsfs are cheap to stat; only new inodes are opened.
				var st unix.Stat_t
				if unix.Stat(path, &st) != nil || seen[uint32(st.Ino)] {
					continue
				}
				ns, inum, err := OpenNetns(path)
				if isShort(err) {
					yield(NetnsFile{}, err)
					return
				}
				if err != nil {
					continue
				}
				ns.Close()
				seen[inum] = true
				if !yield(NetnsFile{path, inum}, nil) {
					return
				}
			}
		}
	}
}

// FindNetns is SameNetns wherever the namespace can be reached, for cleaning up: it lives as long as
// any process or mount holds it. Inode numbers are used again, so what it returns may be another
// namespace; touch only what is ours.
func FindNetns(path string, inum uint32) (netns.NsHandle, error) {
	if ns, err := SameNetns(path, inum); err == nil {
		return ns, nil
	}
	if path := NetnsPath(inum); path != "" {
		return SameNetns(path, inum)
	}
	return netns.None(), ErrNetnsGone
}

// NetnsPath is a file by which the namespace with that inode number can be reached; "" if there is
// none.
func NetnsPath(inum uint32) string {
	for _, pattern := range NetnsPaths {
		paths, _ := filepath.Glob(pattern) // the patterns are well formed
		for _, path := range paths {
			// Files of nsfs are cheap to stat; only the one that is wanted is opened.
			var st unix.Stat_t
			if unix.Stat(path, &st) != nil || uint32(st.Ino) != inum {
				continue
			}
			if ns, err := SameNetns(path, inum); err == nil {
				ns.Close()
				return path
			}
		}
	}
	return ""
}

// InNetns runs f on a thread of its own inside a network namespace, and waits. Sockets and files
// that f opens stay in that namespace. f must not start goroutines that rely on it.
func InNetns(ns netns.NsHandle, f func() error) error {
	return OnOwnThread(func() error {
		if err := netns.Set(ns); err != nil {
			return fmt.Errorf("enter network namespace: %w", err)
		}
		return f()
	})
}

// InNewNetns is InNetns for a new namespace, which lives as long as a socket that f
// opens in it.
func InNewNetns(f func() error) error {
	return OnOwnThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("create network namespace: %w", err)
		}
		return f()
	})
}

// OnOwnThread runs f, which may change the network namespace of its thread, and waits. A thread
// that cannot be brought back is never used again.
func OnOwnThread(f func() error) error {
	OwnNetns()
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		home, err := netns.Get()
		if err != nil {
			runtime.UnlockOSThread()
			done <- fmt.Errorf("open own network namespace: %w", err)
			return
		}
		err = f()
		// The goroutine ends: with it a thread that cannot return.
		if netns.Set(home) == nil {
			runtime.UnlockOSThread()
		}
		home.Close() // before the caller goes on, who may count what is open
		done <- err
	}()
	return <-done
}
