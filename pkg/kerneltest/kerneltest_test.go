// SPDX-License-Identifier: Apache-2.0

// Package kerneltest asks whether radar works on the kernel it runs on: every
// program loads, and a small real network is measured by the real data path.
//
// It is an ordinary test that needs root. Compiled as a static binary it is also
// what lab/kernels runs on kernels other than the machine's own, where there is
// nothing but the binary: so it uses netlink and sockets, and no tools.
package kerneltest

import (
	"os"
	"testing"
)

// needRoot fails the test of a user who cannot load programs.
func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("needs root: run make test as root, or lab/kernels/run.sh as any user")
	}
}
