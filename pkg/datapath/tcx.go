// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
)

// attachTCX puts the program before all others on the interface and pins the
// link, which keeps it there when the process ends.
func attachTCX(ifindex int, d direction, prog *ebpf.Program, pin string) error {
	l, err := link.AttachTCX(link.TCXOptions{
		Interface: ifindex, Program: prog, Attach: d.attach, Anchor: link.Head(),
	})
	if err != nil {
		return bpfError("attach "+d.stub, err)
	}
	if err := l.Pin(pin); err != nil {
		err = bpfError("pin link", err)
		return errors.Join(err, l.Close())
	}
	return l.Close()
}

// detachTCX takes both links of a port away.
func detachTCX(domainName string, port uint16) error {
	var errs []error
	for i := len(directions) - 1; i >= 0; i-- {
		errs = append(errs, removeLink(linkPin(domainName, port, directions[i])))
	}
	return errors.Join(errs...)
}

// removeLink detaches a pinned link and removes the pin. Removing the pin alone
// would detach too, but some time later.
func removeLink(pin string) error {
	l, err := link.LoadPinnedLink(pin, nil)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		// Not a link, or one of a kind that is not known: the pin is ours anyway.
		return removePin(pin)
	}
	// Tracing links cannot be detached, and one whose interface is gone need not
	// be: closing the last reference does it.
	_ = l.Detach()
	err = removePin(pin)
	return errors.Join(err, l.Close())
}

func removePin(pin string) error {
	if err := os.Remove(pin); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove pin: %w", err)
	}
	return nil
}

// tcxAttached says whether the pinned link is on that interface. The link of an
// interface that is gone shows number 0.
func tcxAttached(pin string, ifindex int) bool {
	l, err := link.LoadPinnedLink(pin, nil)
	if err != nil {
		return false
	}
	defer l.Close()
	info, err := l.Info()
	if err != nil {
		return false
	}
	tcx := info.TCX()
	return tcx != nil && int(tcx.Ifindex) == ifindex
}
