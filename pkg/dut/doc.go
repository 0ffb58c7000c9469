// SPDX-License-Identifier: Apache-2.0

// Package dut measures a device under test: it sends packets into it at one port, receives them at
// another one, and says what became of each. The kernel stamps them at both ports, by programs of
// bpf/dut: docs/design/0033-dut.md.
//
// A Port is where a device hangs. A Rig is two ports with programs, and a sender. It runs trials,
// one after the other. A Sweep is a trial for each size and rate; RFC2544 are the procedures of
// that RFC.
package dut
