// SPDX-License-Identifier: Apache-2.0

package host

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/pkg/host/statedir"
)

// inode is the number of the namespace at path.
func inode(t *testing.T, path string) uint32 {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		t.Error(err)
	}
	return uint32(st.Ino)
}

// TestNetns: a function runs where it shall, and nobody else moves.
func TestNetns(t *testing.T) {
	need.AsRoot(t)
	const here = "/proc/thread-self/ns/net"
	home := inode(t, here)
	ns, inum, err := OpenNetns(here)
	if err != nil || inum != home {
		t.Fatalf("opened %d, %v; want %d", inum, err, home)
	}
	defer ns.Close()
	var inside uint32
	err = InNewNetns(func() error {
		inside = inode(t, here)
		return InNetns(ns, func() error {
			if at := inode(t, here); at != home {
				t.Errorf("in namespace %d, want %d", at, home)
			}
			return nil
		})
	})
	if err != nil || inside == home || inode(t, here) != home {
		t.Errorf("%v; inside %d, and then %d; home is %d", err, inside, inode(t, here), home)
	}
	want := errors.New("its own")
	if err := InNetns(ns, func() error { return want }); !errors.Is(err, want) {
		t.Errorf("the function's error: %v", err)
	}
}

// TestOwnNetns: the host's namespace is the one that the tests run in, whatever becomes of threads.
func TestOwnNetns(t *testing.T) {
	need.AsRoot(t)
	own := OwnNetns()
	if home := inode(t, "/proc/thread-self/ns/net"); own.Inum != home {
		t.Errorf("%+v, want %d", own, home)
	}
	err := InNewNetns(func() error {
		ns, err := OwnNetns().Open()
		if err != nil {
			return err
		}
		defer ns.Close()
		var st unix.Stat_t
		if err := unix.Fstat(int(ns), &st); err != nil || uint32(st.Ino) != own.Inum {
			t.Errorf("opened %d, %v; want %d", st.Ino, err, own.Inum)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestNoNetns(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]error{file: ErrNotNetns, "/proc/self/ns/mnt": ErrNotNetns, file + ".not": os.ErrNotExist} {
		if _, _, err := OpenNetns(path); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", path, err, want)
		}
	}
}

// TestNoMoreFiles: a namespace that cannot be opened for want of file descriptors is not gone, and is not left out.
func TestNoMoreFiles(t *testing.T) {
	need.AsRoot(t)
	ns, inum, err := OpenNetns("/proc/thread-self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	other := func() error { // the host's own stays open
		_, err := SameNetns("/proc/self/ns/net", inum+1)
		return err
	}
	OwnNetns()
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	none := limit
	none.Cur = 0
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &none); err != nil {
		t.Fatal(err)
	}
	err = other()
	var listed error
	for _, e := range Namespaces() {
		listed = e
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(err, unix.EMFILE) || errors.Is(err, ErrNetnsGone) {
		t.Errorf("no more files: %v", err)
	}
	if !errors.Is(listed, unix.EMFILE) {
		t.Errorf("no more files, listing: %v", listed)
	}
	if err := other(); !errors.Is(err, ErrNetnsGone) {
		t.Errorf("another one is there: %v", err)
	}
}

func TestLockHolders(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	for _, held := range []bool{false, true} {
		if held {
			fd, err := statedir.TryLock(path, unix.O_RDWR)
			if err != nil {
				t.Fatal(err)
			}
			defer unix.Close(fd)
		}
		file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		pids, err := LockHolders(file)
		if err != nil || slices.Contains(pids, os.Getpid()) != held {
			t.Errorf("held %v: processes %v, %v", held, pids, err)
		}
	}
}
