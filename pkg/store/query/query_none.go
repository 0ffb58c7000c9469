// SPDX-License-Identifier: Apache-2.0

//go:build !cgo || nosql

package query

import (
	"context"

	"github.com/vnetradar/radar/pkg/store/recording"
)

// Available says whether SQL is built in.
const Available = false

// engine is DuckDB, which is not built in.
type engine struct{}

func newEngine(context.Context, *recording.Recording, *Options) (*engine, error) {
	return nil, ErrNotBuilt
}

// Close ends it.
func (*engine) Close() {}

// Query answers a statement.
func (*engine) Query(context.Context, string, int) (Rows, error) { return nil, ErrNotBuilt }

// Parquet writes the answer to a statement as Parquet.
func (*engine) Parquet(context.Context, string) error { return ErrNotBuilt }
