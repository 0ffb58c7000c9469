// SPDX-License-Identifier: Apache-2.0

//go:build cgo && !nosql

package engine

import (
	"encoding/json"
	"fmt"
	"math/big"
	"reflect"
	"time"

	"github.com/duckdb/duckdb-go/v2"

	"github.com/vnetradar/radar/pkg/store/query"
)

// Layouts of moments.
const (
	tableTime = "2006-01-02 15:04:05.000000000Z"
	rawTime   = "2006-01-02T15:04:05.000000000Z"
	dateOnly  = "2006-01-02"
	timeOnly  = "15:04:05.000000"
)

// plain makes a value of DuckDB one that needs no package of its: see query.Rows.
func plain(v any, kind string) any {
	switch x := v.(type) {
	case nil, bool, string, float64, *big.Int:
		return v
	case float32:
		return float64(x)
	case []byte:
		return fmt.Sprintf("%x", x)
	case time.Time:
		return momentOf(x, kind)
	case duckdb.Decimal:
		return json.Number(x.String())
	case duckdb.Interval:
		return intervalText(x)
	case duckdb.UUID:
		return x.String()
	case fmt.Stringer:
		return x.String()
	case []any:
		list := make([]any, len(x))
		for i := range x {
			list[i] = plain(x[i], "")
		}
		return list
	case map[string]any:
		m := make(map[string]any, len(x))
		for name := range x {
			m[name] = plain(x[name], "")
		}
		return m
	}
	return plainOf(reflect.ValueOf(v))
}

func plainOf(v reflect.Value) any {
	switch {
	case v.CanInt():
		return v.Int()
	case v.CanUint():
		return v.Uint()
	case v.Kind() == reflect.Map:
		m := make(map[string]any)
		for _, k := range v.MapKeys() {
			m[fmt.Sprint(k.Interface())] = plain(v.MapIndex(k).Interface(), "")
		}
		return m
	}
	return fmt.Sprint(v.Interface())
}

func momentOf(t time.Time, kind string) query.Moment {
	t = t.UTC()
	switch kind {
	case "DATE":
		return query.Moment{Table: t.Format(dateOnly), Raw: t.Format(dateOnly)}
	case "TIME", "TIMETZ":
		return query.Moment{Table: t.Format(timeOnly), Raw: t.Format(timeOnly)}
	}
	return query.Moment{Table: t.Format(tableTime), Raw: t.Format(rawTime)}
}

func intervalText(i duckdb.Interval) string {
	return fmt.Sprintf("%d months %d days %v", i.Months, i.Days, time.Duration(i.Micros)*time.Microsecond)
}
