// SPDX-License-Identifier: Apache-2.0

//go:build !cgo || nopcap

package filter

import "golang.org/x/net/bpf"

// Available reports whether expressions are built in.
const Available = false

// Library names the library that compiles expressions.
func Library() string { return "" }

func compile(string) ([]bpf.RawInstruction, error) { return nil, ErrNotBuilt }
