// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// Down ends all processes in the lab's namespaces and removes the lab. A lab
// that is gone already is no error; one that another process is starting is
// ErrBusy. If processes do not end, the lab stays and Down can be repeated.
// The links vanish with the namespaces: at once, unless somebody outside still
// holds one of them open.
func (l *Lab) Down() error {
	now, err := Get(l.Name)
	if errors.Is(err, ErrNotRunning) {
		return nil
	}
	if err != nil {
		return err
	}
	if now.Status == Starting {
		return fmt.Errorf("lab %q: %w by process %d: end that one (Ctrl-C), it cleans up", l.Name, ErrBusy, now.Maker.PID)
	}
	return now.teardown()
}

// teardown removes what there is of the lab, its state last.
func (l *Lab) teardown() error {
	opened, foreign, err := l.openNamespaces()
	if err != nil {
		return err
	}
	defer func() {
		for _, ns := range opened {
			ns.handle.Close()
		}
	}()
	inums := make(map[uint32]bool)
	for _, ns := range opened {
		if ns.inum != 0 {
			inums[ns.inum] = true
		}
	}
	if err := killInside(inums); err != nil {
		return fmt.Errorf("take lab %s down: %w", l.Name, err)
	}
	for _, ns := range opened {
		if err := removeNetNS(ns.name); err != nil {
			return fmt.Errorf("take lab %s down: %w", l.Name, err)
		}
	}
	if err := os.RemoveAll(l.dir()); err != nil {
		return fmt.Errorf("take lab %s down: %w", l.Name, err)
	}
	if err := os.Remove(stateFile(l.Name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("take lab %s down: %w", l.Name, err)
	}
	return foreign
}

// openedNS is a namespace of the lab, held open so that its inode number cannot
// pass to another one.
type openedNS struct {
	name   string
	inum   uint32
	handle netns.NsHandle
}

// openNamespaces opens those that are there. Names that lead to a namespace
// that the lab did not make are left out and reported as foreign.
func (l *Lab) openNamespaces() (opened []openedNS, foreign, err error) {
	known := l.inums()
	for _, name := range l.namespaces() {
		handle, err := netns.GetFromPath(netnsPath(name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return opened, foreign, fmt.Errorf("open network namespace %s: %w", name, err)
		}
		ns, err := identify(name, handle)
		if err != nil {
			return opened, foreign, err
		}
		if !isOurs(ns, known[name]) {
			handle.Close()
			foreign = errors.Join(foreign, fmt.Errorf("network namespace %s is not the one that lab %s made: left alone", name, l.Name))
			continue
		}
		opened = append(opened, ns)
	}
	return opened, foreign, nil
}

// identify finds the inode number of an open namespace; 0 if the file is only
// the mount point of one that was never made. It closes handle on failure.
func identify(name string, handle netns.NsHandle) (openedNS, error) {
	var st unix.Stat_t
	var fsinfo unix.Statfs_t
	err := errors.Join(unix.Fstat(int(handle), &st), unix.Fstatfs(int(handle), &fsinfo))
	if err != nil {
		handle.Close()
		return openedNS{}, fmt.Errorf("stat network namespace %s: %w", name, err)
	}
	ns := openedNS{name: name, handle: handle}
	if fsinfo.Type == unix.NSFS_MAGIC {
		ns.inum = uint32(st.Ino)
	}
	return ns, nil
}

// isOurs reports whether the lab may have made the namespace. One that this
// process or the whole machine lives in it has not made, whatever its name.
func isOurs(ns openedNS, recorded uint32) bool {
	if ns.inum == 0 {
		return true
	}
	if recorded != 0 && recorded != ns.inum {
		return false
	}
	for _, path := range []string{"/proc/1/ns/net", "/proc/thread-self/ns/net"} {
		if inum, err := netnsInum(path); err == nil && inum == ns.inum {
			return false
		}
	}
	return true
}
