// SPDX-License-Identifier: Apache-2.0

//go:build cgo && !nosql

package engine

import (
	"context"
	"database/sql/driver"
	"errors"
	"io"
	"reflect"
	"strings"
	"unsafe"

	bindings "github.com/duckdb/duckdb-go-bindings"
	"github.com/duckdb/duckdb-go/v2"
	"github.com/duckdb/duckdb-go/v2/mapping"

	"github.com/vnetradar/radar/pkg/store/query"
)

// The driver holds a whole answer in memory that DuckDB's limit does not count. As a stream, DuckDB makes rows when they
// are asked for.
func init() {
	mapping.PendingPrepared = bindings.PendingPreparedStreaming
}

// rows are an answer of DuckDB, a stream.
type rows struct {
	driver.Rows
	e       *engine
	ctx     context.Context
	columns []query.Column
	raw     []driver.Value
	values  []any
	release func()
	selects bool
	plan    bool
}

func (e *engine) newRows(ctx context.Context, r driver.Rows) *rows {
	names := r.Columns()
	all := &rows{Rows: r, e: e, ctx: ctx, raw: make([]driver.Value, len(names)), values: make([]any, len(names))}
	for i, name := range names {
		all.columns = append(all.columns, query.Column{Name: name, Type: r.(driver.RowsColumnTypeDatabaseTypeName).ColumnTypeDatabaseTypeName(i)})
	}
	done := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		mapping.Interrupt(connectionOf(e.raw))
		close(done)
	})
	all.release = func() {
		if !stop() {
			<-done // else it would end the next query
		}
	}
	return all
}

// Columns implements query.Rows.
func (r *rows) Columns() []query.Column { return r.columns }

// Selects implements query.Rows.
func (r *rows) Selects() bool { return r.selects }

// Plan implements query.Rows.
func (r *rows) Plan() bool { return r.plan }

// Next implements query.Rows.
func (r *rows) Next() ([]any, error) {
	err := r.ctx.Err()
	if err == nil {
		err = r.Rows.Next(r.raw)
	}
	if errors.Is(err, io.EOF) { // the driver says so of an error as well
		if err = failure(mapping.ResultError(resultOf(r.Rows))); err == nil {
			return nil, nil
		}
	}
	if err != nil {
		return nil, r.e.failed(r.ctx, err)
	}
	for i := range r.raw {
		r.values[i] = plain(r.raw[i], r.columns[i].Type)
	}
	return r.values, nil
}

// Close implements query.Rows.
func (r *rows) Close() error {
	if r.release == nil {
		return nil
	}
	r.release()
	r.release = nil
	return r.Rows.Close()
}

// failure is an error as the driver would make it of a text.
func failure(text string) error {
	if text == "" {
		return nil
	}
	err := &duckdb.Error{Msg: text}
	if strings.HasPrefix(text, "Out of Memory Error") {
		err.Type = duckdb.ErrorTypeOutOfMemory
	}
	return err
}

// What the driver does not give is read by reflection, of the version that go.mod names. TestDriver looks whether that is
// still so.
func resultOf(r driver.Rows) *mapping.Result {
	return (*mapping.Result)(unsafe.Pointer(reflect.ValueOf(r).Elem().FieldByName("res").UnsafeAddr()))
}

func connectionOf(c *duckdb.Conn) mapping.Connection {
	return mapping.Connection{Ptr: reflect.ValueOf(c).Elem().FieldByName("conn").Field(0).UnsafePointer()}
}
