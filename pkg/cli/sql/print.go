// SPDX-License-Identifier: Apache-2.0

package sql

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"

	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/store/query"
)

// print prints an answer, and returns how many rows it has.
func (a *asker) print(rows query.Rows) (n int, err error) {
	switch a.Output {
	case kit.FormatJSON:
		return a.printJSON(rows)
	case kit.FormatCSV:
		return a.printCSV(rows)
	}
	return a.printTable(rows)
}

// tableRows are how many rows decide how wide columns are; further ones come as they are.
const tableRows = 1000

// longCell is how many characters of a cell a table shows; wide ones show all.
const longCell = 100

func (a *asker) printTable(rows query.Rows) (n int, err error) {
	var columns []kit.Column
	for _, c := range rows.Columns() {
		columns = append(columns, kit.Column{Title: c.Name, Right: isNumber(c.Type)})
	}
	t := kit.NewTable(columns...)
	for {
		values, err := rows.Next()
		if err != nil {
			return n, err
		}
		if values == nil {
			break
		}
		if a.f.limit > 0 && n == int(a.f.limit) {
			a.Notef("these are the first %d rows; --limit 0 shows all", n)
			break
		}
		n++
		cells := make([]string, len(values))
		for i, v := range values {
			if cells[i] = textOf(v); !rows.Plan() {
				cells[i] = a.cell(cells[i])
			}
		}
		t.Add(cells...)
		if n%tableRows == 0 {
			if err := t.Flush(a.Out); err != nil {
				return n, err
			}
		}
	}
	if n == 0 {
		return 0, nil
	}
	return n, t.Flush(a.Out)
}

func isNumber(kind string) bool {
	for _, name := range []string{"INT", "DOUBLE", "FLOAT", "DECIMAL"} {
		if strings.Contains(kind, name) && !strings.HasPrefix(kind, "INTERVAL") && !strings.HasSuffix(kind, "]") {
			return true
		}
	}
	return false
}

// cell is a text in a table: its lines are one.
func (a *asker) cell(text string) string {
	text = strings.ReplaceAll(text, "\n", " ")
	if a.Output == kit.FormatTable {
		if r := []rune(text); len(r) > longCell {
			return string(r[:longCell-3]) + "..."
		}
	}
	return text
}

// textOf is a value as text; "" of one that is not there.
func textOf(v any) string {
	switch x := v.(type) {
	case nil:
		return ""
	case string:
		return x
	case query.Moment:
		return x.Table
	case float64:
		return strconv.FormatFloat(x, 'g', -1, 64)
	case []any, map[string]any:
		b, _ := encoded(v)
		return string(b)
	}
	return fmt.Sprint(v)
}

func (a *asker) printJSON(rows query.Rows) (n int, err error) {
	columns := rows.Columns()
	for {
		values, err := rows.Next()
		if err != nil || values == nil {
			return n, err
		}
		n++
		b := []byte{'{'}
		for i, v := range values {
			name, err := encoded(columns[i].Name)
			if err != nil {
				return n, err
			}
			text, err := encoded(v)
			if err != nil {
				return n, err
			}
			if i > 0 {
				b = append(b, ',')
			}
			b = append(append(append(b, name...), ':'), text...)
		}
		if _, err := a.Out.Write(append(b, "}\n"...)); err != nil {
			return n, err
		}
	}
}

// encoded is a value as JSON. Integers are exact; what JSON has no number for is null.
func encoded(v any) ([]byte, error) {
	switch x := v.(type) {
	case query.Moment:
		return json.Marshal(x.Raw)
	case float64:
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return []byte("null"), nil
		}
	case *big.Int:
		return []byte(x.String()), nil
	case []any:
		return encodedList(x)
	case map[string]any:
		return encodedMap(x)
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

func encodedList(list []any) ([]byte, error) {
	b := []byte{'['}
	for i, v := range list {
		text, err := encoded(v)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, text...)
	}
	return append(b, ']'), nil
}

func encodedMap(m map[string]any) ([]byte, error) {
	raw := make(map[string]json.RawMessage, len(m))
	for name, v := range m {
		text, err := encoded(v)
		if err != nil {
			return nil, err
		}
		raw[name] = text
	}
	return json.Marshal(raw)
}

func (a *asker) printCSV(rows query.Rows) (n int, err error) {
	w := csv.NewWriter(a.Out)
	var cells []string
	for _, c := range rows.Columns() {
		cells = append(cells, c.Name)
	}
	if err := w.Write(cells); err != nil {
		return 0, err
	}
	for {
		values, err := rows.Next()
		if err != nil {
			return n, err
		}
		if values == nil {
			break
		}
		n++
		for i, v := range values {
			cells[i] = textOf(v)
			if m, ok := v.(query.Moment); ok {
				cells[i] = m.Raw
			}
		}
		if err := w.Write(cells); err != nil {
			return n, err
		}
	}
	w.Flush()
	return n, w.Error()
}
