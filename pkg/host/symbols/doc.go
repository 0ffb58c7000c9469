// SPDX-License-Identifier: Apache-2.0

// Package symbols gives the names of the running kernel to what it numbers: its
// functions by address (/proc/kallsyms) and its drop reasons (the BTF of enum
// skb_drop_reason, and of the subsystems that add their own). Both change from
// kernel to kernel, so nothing is built in.
package symbols
