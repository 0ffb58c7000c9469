// SPDX-License-Identifier: Apache-2.0

// Package query says what can be asked about a recording in SQL, and by whom it is answered: package engine, which holds
// DuckDB. DuckDB is some 60 MB, so only programs that answer SQL import it (for its effect alone). All others, such as
// tests of other commands, link without it.
package query

import (
	"context"
	"errors"

	"github.com/vnetradar/radar/pkg/store/recording"
)

// ErrNotBuilt says that this program has no engine.
var ErrNotBuilt = errors.New("this radar was built without SQL, which needs cgo: build it with CGO_ENABLED=1, a C and C++ compiler, and without -tags nosql")

// Options bound what a query may take. What is 0 has a default.
type Options struct {
	Memory  uint64 // bytes
	Threads int
	Temp    string // directory for what does not fit into memory; "": such a query fails
	MaxTemp uint64 // bytes there
	Out     string // the file that Parquet writes; "": it is not called
}

// Column is one of an answer.
type Column struct {
	Name string
	Type string // as DuckDB calls it
}

// DB is a recording that is asked. It is for one goroutine.
type DB interface {
	// Query answers a statement: of a SELECT the first rows, if limit is not 0. ctx cancels it.
	Query(ctx context.Context, text string, limit int) (Rows, error)
	// Parquet writes the answer to a SELECT into the file of Options.Out.
	Parquet(ctx context.Context, text string) error
	Close()
}

// opens is the engine of this program; nil: it has none.
var opens func(ctx context.Context, r *recording.Recording, o Options) (DB, error)

// Use makes an engine the one of this program. Package engine calls it.
func Use(open func(ctx context.Context, r *recording.Recording, o Options) (DB, error)) { opens = open }

// Available reports whether this program has an engine.
func Available() bool { return opens != nil }

// Open makes a recording ready to be asked. The caller closes the DB before the recording.
func Open(ctx context.Context, r *recording.Recording, o Options) (DB, error) {
	if opens == nil {
		return nil, ErrNotBuilt
	}
	return opens(ctx, r, o)
}

// Rows are an answer. The caller closes them.
type Rows interface {
	Columns() []Column
	// Next is the next row, valid until the one after; nil: there is none. Values are nil, bool, string, integers as int64,
	// uint64 or *big.Int, float64, Moment, []any, and map[string]any of structs.
	Next() ([]any, error)
	// Selects reports whether they are what a query found, which may be nothing.
	Selects() bool
	// Plan reports whether they are a plan, of which texts have lines.
	Plan() bool
	Close() error
}

// Moment is a time as text, RFC 3339 with nanoseconds for JSON and CSV.
type Moment struct{ Table, Raw string }
