// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/host"
)

// netnsDir is where iproute2 keeps names of network namespaces.
const netnsDir = "/run/netns"

func netnsPath(name string) string { return filepath.Join(netnsDir, name) }

// prepareNetnsDir makes netnsDir what "ip netns add" makes of it: a mount point
// that is shared, so that a namespace removed here goes away in the other mount
// namespaces too. A mount that was added before that would be stuck below it.
func prepareNetnsDir() error {
	if err := os.MkdirAll(netnsDir, 0o755); err != nil {
		return fmt.Errorf("create %s: %w", netnsDir, err)
	}
	dir, err := os.Open(netnsDir)
	if err != nil {
		return fmt.Errorf("open %s: %w", netnsDir, err)
	}
	defer dir.Close()
	// iproute2 takes the same lock.
	if err := unix.Flock(int(dir.Fd()), unix.LOCK_EX); err != nil {
		return fmt.Errorf("lock %s: %w", netnsDir, err)
	}
	err = unix.Mount("", netnsDir, "none", unix.MS_SHARED|unix.MS_REC, "")
	if errors.Is(err, unix.EINVAL) { // no mount point yet
		if err = unix.Mount(netnsDir, netnsDir, "none", unix.MS_BIND|unix.MS_REC, ""); err == nil {
			err = unix.Mount("", netnsDir, "none", unix.MS_SHARED|unix.MS_REC, "")
		}
	}
	if err != nil {
		return fmt.Errorf("make %s a shared mount: %w", netnsDir, err)
	}
	return nil
}

// createNetNS makes a named network namespace, runs setup in it, and returns
// its inode number. It fails if the name is taken; on failure nothing is left.
func createNetNS(name string, setup func() error) (uint32, error) {
	path := netnsPath(name)
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDONLY, 0o444)
	if err != nil {
		return 0, fmt.Errorf("create network namespace: %w", err)
	}
	file.Close()
	err = host.OnOwnThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return err
		}
		self := fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid())
		if err := unix.Mount(self, path, "none", unix.MS_BIND, ""); err != nil {
			return err
		}
		return setup()
	})
	var inum uint32
	if err == nil {
		inum, err = netnsInum(path)
	}
	if err != nil {
		return 0, errors.Join(fmt.Errorf("create network namespace %s: %w", name, err), removeNetNS(name))
	}
	return inum, nil
}

// removeNetNS removes the name; the namespace goes when nothing uses it any
// more. A name that is not there is fine.
func removeNetNS(name string) error {
	path := netnsPath(name)
	// EINVAL: the file is there, but the namespace was never mounted on it.
	err := unix.Unmount(path, unix.MNT_DETACH)
	if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove network namespace %s: %w", name, err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove network namespace %s: %w", name, err)
	}
	return nil
}

// netnsInum is the inode number of the namespace at path, which identifies it
// while it exists.
func netnsInum(path string) (uint32, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return 0, fmt.Errorf("stat %s: %w", path, err)
	}
	return uint32(st.Ino), nil
}
