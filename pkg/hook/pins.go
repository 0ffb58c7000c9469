// SPDX-License-Identifier: Apache-2.0

package hook

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/host/kernel"
)

// BPFFS is where everyone has the BPF file system, in which pins are.
const BPFFS = "/sys/fs/bpf"

// ErrFleeting: this process has a mount namespace of its own, with which what is mounted here
// would end.
var ErrFleeting = errors.New("pins would not outlive this mount namespace")

// IsMounted reports whether the BPF file system is mounted at BPFFS.
func IsMounted() bool {
	var st unix.Statfs_t
	return unix.Statfs(BPFFS, &st) == nil && st.Type == unix.BPF_FS_MAGIC
}

// Mount mounts the BPF file system where it is missing. It stays: other programs may come to use
// it. ErrFleeting: it would not stay. Other errors are *Error.
func Mount() error {
	if IsMounted() {
		return nil
	}
	if kernel.InOtherMountNS() {
		return ErrFleeting
	}
	if err := unix.Mount("bpf", BPFFS, "bpf", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=0700"); err != nil {
		return &Error{Step: "mount the BPF file system at", Subject: BPFFS, Kind: kindOf(err), Cause: err}
	}
	return nil
}

// Pins are the pins in a directory whose names begin with prefix, as full paths in the order of
// their names. No such directory is an error: fs.ErrNotExist.
func Pins(dir, prefix string) (pins []string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), prefix) {
			pins = append(pins, filepath.Join(dir, e.Name()))
		}
	}
	return pins, nil
}

// RemoveDir removes an empty directory of pins, and those above it, up to BPFFS, that are empty
// then: they are shared.
func RemoveDir(dir string) error {
	if err := remove(dir); err != nil {
		return err
	}
	for parent := filepath.Dir(dir); parent != BPFFS && len(parent) > len(BPFFS); parent = filepath.Dir(parent) {
		if os.Remove(parent) != nil {
			break
		}
	}
	return nil
}
