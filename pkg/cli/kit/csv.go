// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"encoding/csv"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
)

// CSVWriter prints rows of one type as CSV (RFC 4180): a line with the names that
// the JSON form has, then one line a row, with the same raw numbers. A field of a
// nested object is OBJECT_FIELD; a list is JSON in one cell; what is absent from the
// JSON is empty.
type CSVWriter struct {
	w      *csv.Writer
	titled bool
	Absent []string // fields that are not known in the next row
}

// NewCSVWriter returns a writer that has not printed a title yet.
func NewCSVWriter(w io.Writer) *CSVWriter { return &CSVWriter{w: csv.NewWriter(w)} }

// Row prints v, a struct. extra are cells in front of its own, by name.
func (c *CSVWriter) Row(v any, extra ...[2]string) error {
	var names, cells []string
	for _, e := range extra {
		names, cells = append(names, e[0]), append(cells, e[1])
	}
	value := reflect.Indirect(reflect.ValueOf(v))
	more, err := csvCells(value.Type(), value, "", &names)
	if err != nil {
		return err
	}
	if !c.titled {
		c.titled = true
		if err := c.w.Write(names); err != nil {
			return err
		}
	}
	cells = append(cells, more...)
	for i, name := range names {
		if slices.Contains(c.Absent, name) {
			cells[i] = ""
		}
	}
	return c.w.Write(cells)
}

// CSVTitle prints the names of type T alone, if nothing has been printed.
func CSVTitle[T any](c *CSVWriter, extra ...string) error {
	if c.titled {
		return nil
	}
	c.titled = true
	names := extra
	if _, err := csvCells(reflect.TypeFor[T](), reflect.Value{}, "", &names); err != nil {
		return err
	}
	return c.w.Write(names)
}

// Flush writes what is buffered.
func (c *CSVWriter) Flush() error {
	c.w.Flush()
	return c.w.Error()
}

// csvCells returns the cells of a struct of type t, empty ones if v is not valid,
// and appends their names.
func csvCells(t reflect.Type, v reflect.Value, prefix string, names *[]string) ([]string, error) {
	var cells []string
	for i := range t.NumField() {
		field := t.Field(i)
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "-" || !field.IsExported() {
			continue
		}
		kind, fv := field.Type, reflect.Value{}
		if v.IsValid() {
			fv = v.Field(i)
		}
		if kind.Kind() == reflect.Pointer {
			kind = kind.Elem()
			if fv.IsValid() {
				fv = fv.Elem() // not valid if nil
			}
		} else if fv.IsValid() && strings.Contains(options, "omitempty") && fv.IsZero() {
			fv = reflect.Value{}
		}
		if kind.Kind() == reflect.Struct {
			inner := prefix
			if !field.Anonymous {
				inner += name + "_"
			}
			more, err := csvCells(kind, fv, inner, names)
			if err != nil {
				return nil, err
			}
			cells = append(cells, more...)
			continue
		}
		cell, err := csvCell(fv)
		if err != nil {
			return nil, fmt.Errorf("print %s as CSV: %w", name, err)
		}
		*names = append(*names, prefix+name)
		cells = append(cells, cell)
	}
	return cells, nil
}

// csvCell is one value: text as it is, everything else as in JSON.
func csvCell(v reflect.Value) (string, error) {
	switch {
	case !v.IsValid():
		return "", nil
	case v.Kind() == reflect.String:
		return v.String(), nil
	case v.Kind() == reflect.Slice && v.Len() == 0:
		return "", nil
	}
	var b strings.Builder
	err := PrintJSON(&b, v.Interface())
	return strings.TrimSuffix(b.String(), "\n"), err
}
