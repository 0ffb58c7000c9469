// SPDX-License-Identifier: Apache-2.0

//go:build cgo && !nosql

package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/duckdb/duckdb-go/v2"

	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/store/query"
)

// changing are words that begin statements which ask nothing. What they would do the settings forbid as well.
var changing = strings.Fields("alter attach begin call checkpoint commit copy delete detach drop export import insert install load merge pragma reset rollback set update use vacuum")

var (
	// explains matches how a plan is asked for, before the statement that it is of.
	explains = regexp.MustCompile(`(?i)^explain\b\s*(analyze\b\s*)?(\((\s*(analyze|format\s+'?\w+'?)\s*,?)+\)\s*)?`)
	// acts matches table functions that change DuckDB, or run what nobody has looked at, as plans name them.
	acts = regexp.MustCompile(`(?i)^((enable|disable)_.*|(force_)?checkpoint|truncate_.*|json_execute_.*|arrow_scan.*)$`)
	// hides matches texts in which such a function may stand where no plan is made before it runs.
	hides = regexp.MustCompile(`(?i)\b(enable|disable|truncate)_\w*|\b\w*checkpoint\b|\b\w*execute_serialized\w*|\barrow_scan\w*|\bquery\b`)
	// makesOwn matches what makes a table, view or macro, none of which outlasts the session.
	makesOwn = regexp.MustCompile(`(?i)^\s*create\s+(or\s+replace\s+)?(temp\s+|temporary\s+)?(table|view|macro|function)\b`)
	// makesTable matches those of them that make a table.
	makesTable = regexp.MustCompile(`(?i)^\s*create\s+(or\s+replace\s+)?(temp\s+|temporary\s+)?table\b`)
	// pivots matches what may be PIVOT.
	pivots = regexp.MustCompile(`(?i)\bpivot(_wider)?\b`)
)

// check finds what is wrong with a statement before it runs, and refuses what asks nothing. It returns what may run, and
// whether that is a SELECT that can stand in another one.
func (e *engine) check(ctx context.Context, text string) (runs string, selects bool, err error) {
	first := query.FirstWord(text)
	refused := fault.Usage.Errorf("%s asks nothing: use SELECT, SHOW, DESCRIBE, EXPLAIN, or CREATE of a table, view or macro of your own", strings.ToUpper(first))
	if slices.Contains(changing, first) {
		return "", false, refused
	}
	if first == "explain" {
		bare := query.Uncommented(text)
		how := explains.FindString(bare)
		runs, _, err := e.check(ctx, bare[len(how):])
		return how + " " + runs, false, err
	}
	kind, one, err := e.kindOf(text)
	own := kind == duckdb.STATEMENT_TYPE_CREATE && makesOwn.MatchString(query.Uncommented(text))
	switch {
	case err != nil:
		return "", false, err
	case !one && !strings.Contains(text, ";"), own && !makesTable.MatchString(query.Uncommented(text)):
		if name := hides.FindString(text); name != "" {
			return "", false, fault.Usage.Errorf("%q cannot stand in a view, in a macro, or in PIVOT without IN: it may change something", name)
		}
		return text, false, nil
	case kind == duckdb.STATEMENT_TYPE_SELECT:
		selects = first == "select" || first == "with" || first == "from" || first == "values" || first == "("
		return text, selects, e.harmless(ctx, "SELECT * FROM (\n"+text+"\n)")
	case own:
		return text, false, e.harmless(ctx, text)
	}
	return "", false, refused
}

// kindOf is the kind of a statement, if it is one. PIVOT without IN is more than one.
func (e *engine) kindOf(text string) (kind duckdb.StmtType, one bool, err error) {
	s, err := e.raw.Prepare(text) // PrepareContext would run all but the last one
	if of := (*duckdb.Error)(nil); err != nil && !errors.As(err, &of) && pivots.MatchString(text) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	defer s.Close()
	kind, err = s.(*duckdb.Stmt).StatementType()
	return kind, true, err
}

// operator is a part of a plan.
type operator struct {
	Name     string         `json:"name"`
	Children []operator     `json:"children"`
	Extra    map[string]any `json:"extra_info"`
}

// harmless looks for functions that change something in the plan of a statement. DuckDB has put there what views, macros
// and texts stand for.
func (e *engine) harmless(ctx context.Context, text string) error {
	r, err := e.raw.QueryContext(ctx, "EXPLAIN (FORMAT json) "+text, nil)
	if err != nil {
		return err
	}
	plan := e.newRows(ctx, r)
	defer plan.Close()
	for {
		values, err := plan.Next()
		if values == nil || err != nil {
			return err
		}
		var all []operator
		if err := json.Unmarshal([]byte(fmt.Sprint(values[len(values)-1])), &all); err != nil {
			return fmt.Errorf("read the plan: %w", err)
		}
		if name := acting(all); name != "" {
			return fault.Usage.Errorf("the function %s asks nothing", strings.ToLower(name))
		}
	}
}

// acting is the name of a function that changes something; "": there is none.
func acting(all []operator) string {
	for i := range all {
		name, _ := all[i].Extra["Function"].(string)
		for _, name := range []string{name, all[i].Name} {
			if acts.MatchString(strings.TrimSpace(name)) {
				return name
			}
		}
		if name := acting(all[i].Children); name != "" {
			return name
		}
	}
	return ""
}
