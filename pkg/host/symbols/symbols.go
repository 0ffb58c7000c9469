// SPDX-License-Identifier: Apache-2.0

package symbols

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	"github.com/vnetradar/radar/pkg/host/kernel"
)

// Table names functions and drop reasons. It is safe for concurrent use.
type Table struct {
	functions lazy[*functions]
	reasons   lazy[map[uint32]string]
}

// Load returns the table of the running kernel. Nothing is read until a name is
// asked for; what cannot be read gives no names, and Err says why.
func Load() *Table {
	t := &Table{}
	t.functions.read, t.reasons.read = loadFunctions, loadReasons
	return t
}

// lazy is what is read when it is first asked for.
type lazy[T any] struct {
	read  func() (T, error)
	once  sync.Once
	value T
	err   atomic.Pointer[error] // nil: none so far
}

func (l *lazy[T]) get() T {
	l.once.Do(func() {
		var err error
		if l.value, err = l.read(); err != nil {
			l.err.Store(&err)
		}
	})
	return l.value
}

func (l *lazy[T]) failure() error {
	if err := l.err.Load(); err != nil {
		return *err
	}
	return nil
}

// Function returns the name of the kernel function that addr lies in, without what
// compilers add (.isra.0, .cold); "" if there is none.
func (t *Table) Function(addr uint64) string {
	f := t.functions.get()
	if f == nil {
		return ""
	}
	return f.find(addr)
}

// Reason returns the name of a drop reason as kfree_skb reports it, without
// SKB_DROP_REASON_; "" if the kernel has no such reason. Reasons of subsystems have
// the subsystem in the upper 16 bits.
func (t *Table) Reason(code uint32) string {
	return t.reasons.get()[code]
}

// Err says why names that were asked for are missing and what to change; nil if none are,
// or none was asked for.
func (t *Table) Err() error { return errors.Join(t.functions.failure(), t.reasons.failure()) }

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
	spec, err := kernel.Types().Kernel()
	if err != nil {
		return nil, fmt.Errorf("read the kernel's BTF (needs CONFIG_DEBUG_INFO_BTF): %w", err)
	}
	return parseReasons(spec), nil
}
