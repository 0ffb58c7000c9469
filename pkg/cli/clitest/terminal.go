// SPDX-License-Identifier: Apache-2.0

package clitest

import (
	"fmt"
	"io"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// OpenTerminal returns a terminal that nobody looks at.
func OpenTerminal(t *testing.T) *os.File {
	t.Helper()
	_, slave := openTerminal(t)
	return slave
}

// WatchTerminal returns a terminal, and what is written to it.
func WatchTerminal(t *testing.T) (*os.File, *Growing) {
	t.Helper()
	master, slave := openTerminal(t)
	seen := new(Growing)
	go func() { _, _ = io.Copy(seen, master) }() // until it is closed
	return slave, seen
}

func openTerminal(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatalf("this test needs pseudo terminals: %v", err)
	}
	t.Cleanup(func() { master.Close() })
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { slave.Close() })
	return master, slave
}
