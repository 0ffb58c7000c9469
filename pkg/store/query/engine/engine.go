// SPDX-License-Identifier: Apache-2.0

//go:build cgo && !nosql

package engine

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"sync"

	"github.com/duckdb/duckdb-go/v2"

	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/store/parquet"
	"github.com/vnetradar/radar/pkg/store/query"
	"github.com/vnetradar/radar/pkg/store/recording"
	"github.com/vnetradar/radar/pkg/store/segments"
)

func init() { query.Use(open) }

func open(ctx context.Context, r *recording.Recording, o query.Options) (query.DB, error) {
	e, err := newEngine(ctx, r, &o)
	if err != nil {
		return nil, err // a nil engine would be a DB
	}
	return e, nil
}

// engine is DuckDB, in memory.
type engine struct {
	r       *recording.Recording
	db      *sql.DB
	conn    *sql.Conn
	raw     *duckdb.Conn // the same
	threads int
	out     string          // the file that Parquet writes
	run     context.Context // of the query under way

	find  sync.Once
	twice *recording.Twice
	err   error // of finding
}

func newEngine(ctx context.Context, r *recording.Recording, o *query.Options) (_ *engine, err error) {
	connector, err := duckdb.NewConnector("", nil)
	if err != nil {
		return nil, fmt.Errorf("start DuckDB: %w", err)
	}
	e := &engine{r: r, db: sql.OpenDB(connector), threads: o.Threads, run: ctx}
	defer func() {
		if err != nil {
			e.Close()
		}
	}()
	if e.threads <= 0 {
		e.threads = runtime.GOMAXPROCS(0)
	}
	if e.conn, err = e.db.Conn(ctx); err != nil {
		return nil, fmt.Errorf("start DuckDB: %w", err)
	}
	if err := e.conn.Raw(func(c any) error { e.raw = c.(*duckdb.Conn); return nil }); err != nil {
		return nil, fmt.Errorf("start DuckDB: %w", err)
	}
	if err := errors.Join(e.tables(), e.functions()); err != nil {
		return nil, err
	}
	return e, e.setUp(ctx, o)
}

// Close implements query.DB.
func (e *engine) Close() {
	if e.conn != nil {
		e.conn.Close()
	}
	e.db.Close()
}

// setUp makes the views, and takes everything from DuckDB that reaches out of it.
func (e *engine) setUp(ctx context.Context, o *query.Options) error {
	var all []string
	for i := range query.Views {
		all = append(all, query.Views[i].Definition())
	}
	all = append(all, query.Percentiles, fmt.Sprintf("SET threads = %d", e.threads), "SET temp_directory = "+quoted(o.Temp), "SET TimeZone = 'UTC'", "SET preserve_insertion_order = false")
	if o.Memory > 0 {
		all = append(all, fmt.Sprintf("SET memory_limit = '%dB'", o.Memory))
	}
	if o.MaxTemp > 0 {
		all = append(all, fmt.Sprintf("SET max_temp_directory_size = '%dB'", o.MaxTemp))
	}
	if o.Out != "" {
		e.out = o.Out
		all = append(all, "SET allowed_paths = ["+quoted(o.Out)+"]")
	}
	all = append(all, "SET autoinstall_known_extensions = false", "SET autoload_known_extensions = false", "SET allow_community_extensions = false",
		"SET enable_external_access = false", "SET lock_configuration = true")
	for _, text := range all {
		if _, err := e.conn.ExecContext(ctx, text); err != nil {
			return fmt.Errorf("prepare DuckDB: %s: %w", text, err)
		}
	}
	return nil
}

// quoted is a text of SQL.
func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }

// tables makes the table functions.
func (e *engine) tables() error {
	for _, t := range []*table{
		{name: "radar_packets", columns: packetColumns}, {name: "radar_hops", list: "hops", columns: hopColumns},
		{name: "radar_lost", lost: true, columns: packetColumns},
		// A median is that of all packets: those that differ in their latency alone are not counted as one, nor are the same.
		{name: "radar_packet_counts", counts: true, columns: counted(packetColumns, "latency_ns", "lost_after_ns", "t")},
		{name: "radar_hop_counts", list: "hops", counts: true, columns: counted(hopColumns)},
		{name: "radar_losses", list: "losses", columns: branchColumns}, {name: "radar_int", list: "int", columns: intColumns},
	} {
		var err error
		if t.info, err = info(t.columns); err != nil {
			return err
		}
		t.e = e
		if err := duckdb.RegisterTableUDF(e.conn, t.name, duckdb.ParallelChunkTableFunction{BindArguments: t.bind}); err != nil {
			return fmt.Errorf("make table %s: %w", t.name, err)
		}
	}
	return e.events()
}

// bind begins to read a table. What is left out is found out before the first one.
func (t *table) bind(map[string]any, ...any) (duckdb.ParallelChunkTableSource, error) {
	t.e.find.Do(func() { t.e.twice, t.e.err = t.e.r.FindTwice(t.e.run) })
	if t.e.err != nil {
		t.e.find = sync.Once{} // it may have been interrupted
		return nil, t.e.err
	}
	return &scan{table: t, places: t.e.r.Dir.Places(), twice: t.e.twice, ctx: t.e.run}, nil
}

// eventRows are the events, of which there are few.
type eventRows struct {
	info []duckdb.ColumnInfo
	all  []segments.Event
	next int
}

func (e *engine) events() error {
	columns, err := info(append(row(moment, "t"), row(word, "kind", "fields")...))
	if err != nil {
		return err
	}
	err = duckdb.RegisterTableUDF(e.conn, "radar_events", duckdb.RowTableFunction{BindArguments: func(map[string]any, ...any) (duckdb.RowTableSource, error) {
		rows := &eventRows{info: columns}
		return rows, e.r.Dir.Events(e.run, func(ev segments.Event) error {
			rows.all = append(rows.all, ev)
			return nil
		})
	}})
	if err != nil {
		err = fmt.Errorf("make table radar_events: %w", err)
	}
	return err
}

// ColumnInfos implements duckdb.RowTableSource.
func (r *eventRows) ColumnInfos() []duckdb.ColumnInfo { return r.info }

// Cardinality implements duckdb.RowTableSource.
func (r *eventRows) Cardinality() *duckdb.CardinalityInfo {
	return &duckdb.CardinalityInfo{Cardinality: uint(len(r.all)), Exact: true}
}

// Init implements duckdb.RowTableSource. A recursive query reads the same rows again.
func (r *eventRows) Init() { r.next = 0 }

// FillRow implements duckdb.RowTableSource.
func (r *eventRows) FillRow(to duckdb.Row) (bool, error) {
	if r.next == len(r.all) {
		return false, nil
	}
	e := r.all[r.next]
	r.next++
	err := errors.Join(duckdb.SetRowValue(to, 0, e.Time), duckdb.SetRowValue(to, 1, strings.ToValidUTF8(e.Kind, "\ufffd")),
		duckdb.SetRowValue(to, 2, strings.ToValidUTF8(e.JSON(), "\ufffd")))
	return err == nil, err
}

// Query implements query.DB.
func (e *engine) Query(ctx context.Context, text string, limit int) (query.Rows, error) {
	e.run = ctx
	text, selects, err := e.check(ctx, text)
	if err != nil {
		return nil, e.failed(ctx, err)
	}
	if selects && limit > 0 {
		text = fmt.Sprintf("SELECT * FROM (\n%s\n) LIMIT %d", text, limit)
	}
	r, err := e.raw.QueryContext(ctx, text, nil)
	if err != nil {
		return nil, e.failed(ctx, err)
	}
	all := e.newRows(ctx, r)
	all.selects, all.plan = selects, query.FirstWord(text) == "explain"
	return all, nil
}

// Parquet implements query.DB.
func (e *engine) Parquet(ctx context.Context, text string) error {
	e.run = ctx
	text, selects, err := e.check(ctx, text)
	if err != nil {
		return e.failed(ctx, err)
	}
	if !selects {
		return fault.Usage.Errorf("only what SELECT answers can be written as Parquet")
	}
	_, err = e.conn.ExecContext(ctx, fmt.Sprintf("COPY (\n%s\n) TO %s (FORMAT parquet, COMPRESSION zstd, USE_TMP_FILE false)", text, quoted(e.out)))
	if err != nil {
		return e.failed(ctx, err)
	}
	return markUTC(e.out)
}

// markUTC says of the moments of a file that they are UTC, as all of radar's are.
func markUTC(name string) error {
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	return parquet.MarkUTC(f, size)
}

// failed is an error of DuckDB for people.
func (e *engine) failed(ctx context.Context, err error) error {
	if err == nil || errors.Is(err, fault.Usage) {
		return err
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if of, ok := errors.AsType[*duckdb.Error](err); ok {
		text := of.Msg
		if of.Type == duckdb.ErrorTypeOutOfMemory {
			text += "\nMore memory: ‹memory›; a directory for what does not fit: ‹temp›"
		}
		return errors.New(text)
	}
	return err
}
