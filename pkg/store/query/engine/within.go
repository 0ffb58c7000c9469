// SPDX-License-Identifier: Apache-2.0

//go:build cgo && !nosql

package engine

import (
	"database/sql/driver"
	"fmt"
	"net/netip"
	"strings"
	"sync/atomic"

	"github.com/duckdb/duckdb-go/v2"
)

// within is the function within(address, prefix): whether an address is in a prefix. DuckDB's own extension for addresses
// would have to be fetched, and compares no texts.
type within struct {
	text duckdb.TypeInfo
	is   duckdb.TypeInfo
	last atomic.Pointer[knownPrefix] // most statements have one
}

type knownPrefix struct {
	text   string
	prefix netip.Prefix
}

func (e *engine) functions() error {
	text, err := duckdb.NewTypeInfo(duckdb.TYPE_VARCHAR)
	if err != nil {
		return err
	}
	is, err := duckdb.NewTypeInfo(duckdb.TYPE_BOOLEAN)
	if err != nil {
		return err
	}
	if err := duckdb.RegisterScalarUDF(e.conn, "within", &within{text: text, is: is}); err != nil {
		return fmt.Errorf("make the function within: %w", err)
	}
	return nil
}

// Config implements duckdb.ScalarFunc. What is NULL has the answer NULL.
func (w *within) Config() duckdb.ScalarFuncConfig {
	return duckdb.ScalarFuncConfig{InputTypeInfos: []duckdb.TypeInfo{w.text, w.text}, ResultTypeInfo: w.is}
}

// Executor implements duckdb.ScalarFunc.
func (w *within) Executor() duckdb.ScalarFuncExecutor {
	return duckdb.ScalarFuncExecutor{RowExecutor: w.of}
}

func (w *within) of(values []driver.Value) (any, error) {
	address, _ := values[0].(string)
	text, _ := values[1].(string)
	known := w.last.Load()
	if known == nil || known.text != text {
		p, err := prefixOf(text)
		if err != nil {
			return nil, err
		}
		known = &knownPrefix{strings.Clone(text), p}
		w.last.Store(known)
	}
	a, err := netip.ParseAddr(address)
	if err != nil {
		return nil, nil // it is no address: nothing is known of it
	}
	return known.prefix.Contains(a.Unmap().WithZone("")), nil
}

// prefixOf is a prefix, or that of one address. Bits behind its length do not matter.
func prefixOf(text string) (netip.Prefix, error) {
	if p, err := netip.ParsePrefix(text); err == nil {
		return p.Masked(), nil
	}
	a, err := netip.ParseAddr(text)
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("within: %q is no prefix: use one such as '10.0.0.0/8' or '2001:db8::/32'", text)
	}
	a = a.Unmap().WithZone("")
	return netip.PrefixFrom(a, a.BitLen()), nil
}
