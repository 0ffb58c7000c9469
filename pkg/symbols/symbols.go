// SPDX-License-Identifier: Apache-2.0

package symbols

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/cilium/ebpf/btf"
)

// Table names functions and drop reasons. It is safe for concurrent use.
type Table struct {
	functions func() (*functions, error)
	reasons   func() (map[uint32]string, error)
}

// Load returns the table of the running kernel. Nothing is read until a name is
// asked for; what cannot be read gives no names, and Err says why.
func Load() *Table {
	return &Table{
		functions: sync.OnceValues(loadFunctions),
		reasons:   sync.OnceValues(loadReasons),
	}
}

// Function returns the name of the kernel function that addr lies in, without what
// compilers add (.isra.0, .cold); "" if there is none.
func (t *Table) Function(addr uint64) string {
	f, err := t.functions()
	if err != nil {
		return ""
	}
	return f.find(addr)
}

// Reason returns the name of a drop reason as kfree_skb reports it, without
// SKB_DROP_REASON_; "" if the kernel has no such reason. Reasons of subsystems have
// the subsystem in the upper 16 bits.
func (t *Table) Reason(code uint32) string {
	r, err := t.reasons()
	if err != nil {
		return ""
	}
	return r[code]
}

// Err says which names are missing and what to change; nil if none are. It reads
// the files if no name has been asked for so far.
func (t *Table) Err() error {
	_, ferr := t.functions()
	_, rerr := t.reasons()
	return errors.Join(ferr, rerr)
}

func loadFunctions() (*functions, error) {
	f, err := os.Open("/proc/kallsyms")
	if err != nil {
		return nil, fmt.Errorf("read kernel symbols: %w", err)
	}
	defer f.Close()
	fns, err := parseFunctions(f)
	if err != nil {
		return nil, fmt.Errorf("read kernel symbols: %w", err)
	}
	return fns, nil
}

func loadReasons() (map[uint32]string, error) {
	spec, err := btf.LoadKernelSpec()
	if err != nil {
		return nil, fmt.Errorf("read the kernel's BTF (needs CONFIG_DEBUG_INFO_BTF): %w", err)
	}
	return parseReasons(spec), nil
}
