// SPDX-License-Identifier: Apache-2.0

// Package query answers SQL about recordings, by DuckDB in this process. DuckDB opens no file: a table function gives it
// the columns that a query names, as package segments reads and checks them.
package query

import (
	"context"
	"errors"

	"github.com/vnetradar/radar/pkg/store/recording"
)

// ErrNotBuilt says that this radar was built without SQL.
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
type DB struct {
	r *recording.Recording
	*engine
}

// Open makes a recording ready to be asked. The caller closes the DB before the recording.
func Open(ctx context.Context, r *recording.Recording, o Options) (*DB, error) {
	e, err := newEngine(ctx, r, &o)
	if err != nil {
		return nil, err
	}
	return &DB{r, e}, nil
}

// Rows are an answer. The caller closes them.
type Rows interface {
	Columns() []Column
	// Next is the next row, valid until the one after; nil: there is none. Values are as Plain gives them.
	Next() ([]any, error)
	// Selects reports whether they are what a query found, which may be nothing.
	Selects() bool
	// Plan reports whether they are a plan, of which texts have lines.
	Plan() bool
	Close() error
}

// Plain are the values of an answer: nil, bool, string, integers as int64, uint64 or *big.Int, float64, Moment, []any, and
// map[string]any of structs.

// Moment is a time as text, RFC 3339 with nanoseconds for JSON and CSV.
type Moment struct{ Table, Raw string }
