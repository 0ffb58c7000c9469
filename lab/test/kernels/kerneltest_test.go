// SPDX-License-Identifier: Apache-2.0

// Package kerneltest asks whether radar works on the kernel it runs on: every
// program loads, and a small real network is measured by the real data path.
//
// It is an ordinary test that needs root. Compiled as a static binary it is also
// what lab/test/kernels runs on kernels other than the machine's own, where there is
// nothing but the binary: so it uses netlink and sockets, and no tools.
package kernels
