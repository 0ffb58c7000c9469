// SPDX-License-Identifier: Apache-2.0

// Package p4test runs radar's P4 program on BMv2 (make p4-test), and holds what was recorded of it
// against radar.
//
// A case is a set of table entries and some frames. Its evidence is what was sent, what tcpdump has
// captured on each link of lab int-p4, and what the switches have counted. The evidence comes from
// a switch that runs, or from p4/testdata. The checks are the same for both: they know the case's
// settings, and nothing of the program.
//
// Nothing here uses package intwire: its decoder is held against this one.
package p4test
