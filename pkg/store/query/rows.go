// SPDX-License-Identifier: Apache-2.0

//go:build cgo && !nosql

package query

import "database/sql"

// rows are an answer of DuckDB.
type rows struct {
	*sql.Rows
	columns []Column
	values  []any
	to      []any
}

func newRows(r *sql.Rows) (*rows, error) {
	types, err := r.ColumnTypes()
	if err != nil {
		r.Close()
		return nil, err
	}
	all := &rows{Rows: r, values: make([]any, len(types)), to: make([]any, len(types))}
	for i, t := range types {
		all.columns = append(all.columns, Column{t.Name(), t.DatabaseTypeName()})
		all.to[i] = &all.values[i]
	}
	return all, nil
}

// Columns implements Rows.
func (r *rows) Columns() []Column { return r.columns }

// Next implements Rows.
func (r *rows) Next() ([]any, error) {
	if !r.Rows.Next() {
		return nil, r.Rows.Err()
	}
	clear(r.values)
	if err := r.Scan(r.to...); err != nil {
		return nil, err
	}
	for i := range r.values {
		r.values[i] = plain(r.values[i], r.columns[i].Type)
	}
	return r.values, nil
}
