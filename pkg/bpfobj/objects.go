// SPDX-License-Identifier: Apache-2.0

package bpfobj

import "github.com/cilium/ebpf"

// Object is one of the BPF objects that radar has.
type Object struct {
	Name   string                               // as in NAME_x86_bpfel.o
	System string                               // the folder of bpf/ that has its sources
	Load   func() (*ebpf.CollectionSpec, error) // reads it, and loads nothing into the kernel
	Pinned bool                                 // another radar than the one that loaded it may read its maps: their layout has a version
	From   [2]int                               // the first Linux that has such programs, {6, 4}; the zero value: all that radar supports
}

// Objects are all of them: what loads programs on other kernels, holds the layout of maps, or measures sizes goes
// through this list. A test holds that no object is missing.
var Objects = []Object{
	{Name: "tc", System: "backpack", Load: LoadTc, Pinned: true},
	{Name: "trace", System: "backpack", Load: LoadTrace, Pinned: true},
	{Name: "deliver", System: "backpack", Load: LoadDeliver, Pinned: true, From: [2]int{6, 4}}, // netfilter programs
	{Name: "change", System: "backpack", Load: LoadChange, Pinned: true},
	{Name: "payload", System: "backpack", Load: LoadPayload}, // its own maps end with the capture
	{Name: "collect", System: "collect", Load: LoadCollect},
	{Name: "dut", System: "dut", Load: LoadDut},
	{Name: "int", System: "int", Load: LoadInt, Pinned: true},
}
