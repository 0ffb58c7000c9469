// SPDX-License-Identifier: Apache-2.0

//go:build cgo && !nosql

package engine

import (
	"os"
	"strings"
	"testing"

	"github.com/vnetradar/radar/pkg/store/query"
	"github.com/vnetradar/radar/pkg/store/segments"
)

// TestHostile: a query reads no file, writes none, and changes no setting; neither where there is a directory for what
// does not fit.
func TestHostile(t *testing.T) {
	dir, out := t.TempDir(), t.TempDir()
	keep(t, dir, segments.Options{}, several(3)...)
	for _, temp := range []string{"", out} {
		db, _ := opened(t, dir, query.Options{Temp: temp})
		const settings = "SELECT name, value FROM duckdb_settings() ORDER BY name"
		before := answer(t, db, settings)
		for _, text := range hostile(dir, out) {
			if got := answer(t, db, text); !strings.HasPrefix(got, "error: ") {
				t.Errorf("%q: %s: %.100q", temp, text, got)
			}
		}
		if left, err := os.ReadDir(out); err != nil || len(left) > 0 {
			t.Errorf("written: %v, %v", left, err)
		}
		if now := answer(t, db, settings); now != before || before == "" {
			t.Errorf("settings\n%s\nwere\n%s", now, before)
		}
		if got := answer(t, db, "SELECT count(*) FROM packets"); got != "3" {
			t.Errorf("then: %s", got)
		}
	}
}

// hostile are statements that would do so.
func hostile(dir, out string) (all []string) {
	for _, name := range []string{
		"enable_profiling", "disable_profiling", "enable_logging", "disable_logging", "enable_peg_parser", "disable_peg_parser", "checkpoint", "force_checkpoint", "truncate_duckdb_logs",
		`system.main."Enable_Profiling"`, "enable_profiling\u00a0/* x */",
	} {
		all = append(all, "SELECT * FROM "+name+"()", "SELECT (SELECT count(*) FROM "+name+"()) FROM packets", "CREATE TABLE x AS SELECT * FROM "+name+"()", "EXPLAIN ANALYZE SELECT * FROM "+name+"()",
			"SELECT * FROM query('SELECT * FROM ' || '"+strings.ReplaceAll(name, "_", "_' || '")+"()')", "SUMMARIZE FROM "+name+"()", "CREATE VIEW v AS SELECT * FROM "+name+"()", "CREATE MACRO m() AS TABLE SELECT * FROM "+name+"()",
			"PIVOT (SELECT * FROM "+name+"()) ON Success", "PIVOT (SELECT 1 AS a FROM query('SELECT 1')) ON a")
	}
	for _, text := range []string{"COPY (SELECT 1) TO '" + out + "/e.csv'", "SET threads = 3", "CHECKPOINT", "PRAGMA enable_profiling", "CALL enable_profiling()", "DROP VIEW packets", "EXPLAIN ANALYZE CHECKPOINT"} {
		all = append(all, "EXPLAIN "+text, "EXPLAIN ANALYZE "+text, "/* x */ EXPLAIN (ANALYZE, FORMAT json) "+text, "SELECT 1 /* /* */ ' */; "+text+"; SELECT 1 -- '", "PIVOT packets ON state; "+text+"; SELECT 1")
	}
	return append(all,
		"SELECT * FROM enable_profiling(mode = 'detailed', save_location = '"+out+"/p.json')", "SELECT * FROM enable_logging(storage = 'file', storage_config = {'path': '"+out+"'})",
		"FROM json_execute_serialized_sql(json_serialize_sql('SELECT 1'))", "--\rCREATE SECRET s (TYPE s3, SCOPE $$\ncreate table $$)",
		"SELECT * FROM read_csv('/etc/passwd')", "SELECT * FROM read_text('/etc/passwd')", "SELECT * FROM read_blob('/etc/passwd')", "FROM '/etc/passwd'", "SELECT * FROM glob('/*')",
		"SELECT * FROM read_parquet('"+dir+"/*/*.parquet')", "SELECT * FROM read_parquet('/proc/self/fd/3')", "SELECT * FROM read_json('https://example.com/x.json')",
		"SELECT getenv('HOME')", "COPY (SELECT 1) TO '"+out+"/x.csv'", "COPY packets TO '"+out+"/x.parquet'", "EXPORT DATABASE '"+out+"/x'", "ATTACH '"+out+"/x.db'", "ATTACH ':memory:' AS m",
		"INSTALL httpfs", "LOAD httpfs", "SET enable_external_access = true", "SET threads = 100", "RESET lock_configuration", "PRAGMA enable_profiling", "PRAGMA disable_checkpoint_on_shutdown",
		"CREATE SECRET s (TYPE s3)", "CALL pragma_version()", "CHECKPOINT", "INSERT INTO packets SELECT * FROM packets", "SELECT 1; COPY (SELECT 1) TO '"+out+"/y.csv'",
		"CREATE TABLE x AS SELECT * FROM read_csv('/etc/passwd')", "EXPLAIN ANALYZE COPY (SELECT 1) TO '"+out+"/z.csv'", "SELECT * FROM query('COPY (SELECT 1) TO ''"+out+"/q.csv''')",
		"SELECT * FROM read_duckdb('"+out+"/x.db')", "SELECT * FROM sniff_csv('/etc/passwd')", "SELECT * FROM parquet_metadata('"+dir+"/*/*.parquet')",
	)
}

// TestAllowed: what asks is answered, whatever words or comments it has.
func TestAllowed(t *testing.T) {
	dir := t.TempDir()
	keep(t, dir, segments.Options{}, several(3)...)
	db, _ := opened(t, dir, query.Options{})
	for _, text := range []string{
		"-- own\n/* of /* the */ session */ CREATE TABLE a AS SELECT 1 AS b", "-- x\nCREATE VIEW v AS SELECT b AS \"checkpoints\" FROM a", "/* x */ CREATE OR REPLACE MACRO twice(x) AS 2 * x",
		"-- enable_profiling()\nSELECT 'query(', 1 AS checkpoint", "FROM query('FROM a')", "PIVOT a ON b", "SELECT * FROM (PIVOT a ON b)", "PIVOT a ON b IN (1)", "SUMMARIZE packets", "TABLE a", "SHOW TABLES", "DESCRIBE a",
		"EXPLAIN SELECT * FROM packets", "/* x */ EXPLAIN ANALYZE SELECT 1", "EXPLAIN (FORMAT json) SELECT 1", "EXPLAIN (SELECT 1)", "VALUES (1)", "(SELECT 1)",
	} {
		if got := answer(t, db, text); got == "" || strings.HasPrefix(got, "error: ") {
			if !strings.Contains(text, "CREATE") || got != "" {
				t.Errorf("%s: %q", text, got)
			}
		}
	}
}
