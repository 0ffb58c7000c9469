// SPDX-License-Identifier: Apache-2.0

//go:build cgo && !nosql

package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/duckdb/duckdb-go/v2"
	"github.com/duckdb/duckdb-go/v2/mapping"

	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/store/parquet"
	"github.com/vnetradar/radar/pkg/store/query"
	"github.com/vnetradar/radar/pkg/store/recording"
	"github.com/vnetradar/radar/pkg/store/segments"
)

// names are those of the packets that tests add.
type names struct{}

func (names) NodeName(n uint16) string { return fmt.Sprintf("n%d", n) }
func (names) PortName(p uint16) string {
	if p == packet.NoPort {
		return ""
	}
	return fmt.Sprintf("e%d", p)
}
func (names) PortNode(p uint16) uint16 { return p / 2 }
func (names) WallOffset() int64        { return 1e18 }
func (names) Host() string             { return "here" }

// packetAt is a packet over three nodes.
func packetAt(pos uint64) *segments.Packet {
	p := &segments.Packet{Source: record.EBPF, Packet: packet.Packet{
		Pos: pos, T0: pos * 1000, State: record.Delivered, HasTuple: true, Proto: record.ProtoUDP, TTL: 64, SentTTL: 63, Segs: 1, Len: 100, LatencyNs: 60, LastNs: 60, FragOff: 1 << 14,
		Tuple: packet.Tuple{Src: packet.AddrFrom4([4]byte{10, 0, 0, 1}), Dst: packet.AddrFrom4([4]byte{10, 0, 0, byte(pos % 3)}), SrcPort: 1000, DstPort: 53},
	}}
	for i := range uint16(3) {
		h := packet.Hop{Node: i, In: 2 * i, Out: 2*i + 1, InNs: int64(i) * 30, OutNs: int64(i)*30 + 10, DequeueNs: packet.NoTime}
		if i == 0 {
			h.In, h.InNs, h.OutNs = packet.NoPort, packet.NoTime, 0
		}
		if i == 2 {
			h.Out, h.OutNs = packet.NoPort, packet.NoTime
		}
		p.Hops = append(p.Hops, h)
	}
	return p
}

// keep writes packets into a directory, as one recorder.
func keep(t *testing.T, dir string, o segments.Options, packets ...*segments.Packet) {
	t.Helper()
	o.MaxAge = time.Hour
	w, err := segments.Create(dir, segments.Meta{Epoch: 0xab, Slots: 16, Host: "here"}, o)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range packets {
		if err := w.Add(p, names{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.AddEvent(time.Unix(7, 8), recording.EventBegin, map[string]any{"big": uint64(1) << 63}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

func several(n uint64) (all []*segments.Packet) {
	for i := range n {
		all = append(all, packetAt(i))
	}
	return all
}

// opened is a recording that can be asked.
func opened(t *testing.T, dir string, o query.Options) (*engine, *recording.Recording) {
	t.Helper()
	r, err := recording.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	db, err := query.Open(t.Context(), r, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close(); r.Dir.Close() })
	return db.(*engine), r
}

// answer is what a statement says: rows by lines, values by spaces.
func answer(t *testing.T, db *engine, text string) string {
	t.Helper()
	rows, err := db.Query(t.Context(), text, 0)
	if err != nil {
		return "error: " + err.Error()
	}
	defer rows.Close()
	var lines []string
	for {
		values, err := rows.Next()
		if err != nil {
			return "error: " + err.Error()
		}
		if values == nil {
			return strings.Join(lines, "\n")
		}
		lines = append(lines, strings.Trim(fmt.Sprint(values), "[]"))
	}
}

// TestDriver: what radar reads of the driver by reflection is there.
func TestDriver(t *testing.T) {
	kind := reflect.TypeFor[duckdb.DataChunk]()
	chunk, _ := kind.FieldByName("chunk")
	projection, _ := kind.FieldByName("projection")
	if chunk.Type != reflect.TypeFor[mapping.DataChunk]() || projection.Type != reflect.TypeFor[[]int]() {
		t.Errorf("a DataChunk has %v and %v", chunk.Type, projection.Type)
	}
	if conn, _ := reflect.TypeFor[duckdb.Conn]().FieldByName("conn"); conn.Type != reflect.TypeFor[mapping.Connection]() {
		t.Errorf("a Conn has %v", conn.Type)
	}
	dir := t.TempDir()
	keep(t, dir, segments.Options{}, several(1)...)
	db, _ := opened(t, dir, query.Options{})
	r, err := db.raw.QueryContext(t.Context(), "SELECT 1", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if res, _ := reflect.TypeOf(r).Elem().FieldByName("res"); res.Type != reflect.TypeFor[mapping.Result]() {
		t.Errorf("rows have %v", res.Type)
	}
}

// TestRows: columns of all kinds come with the values that were added.
func TestRows(t *testing.T) {
	dir := t.TempDir()
	all := several(5000)
	lost := packetAt(5000)
	lost.State, lost.Lost, lost.Segs, lost.Hops = record.Lost, true, 3, lost.Hops[:2]
	lost.Loss = packet.Drop{Node: 1, Port: 3, At: record.AtQueue, Reason: "QDISC_DROP", Qdisc: "tbf", AtNs: 55, First: true}
	keep(t, dir, segments.Options{Once: true}, append(all, lost)...)
	db, _ := opened(t, dir, query.Options{})
	for text, want := range map[string]string{
		"SELECT latency_ns, lost_after_ns FROM packets WHERE lost OR pos = 1 ORDER BY pos":                                          "60 <nil>\n<nil> 60",
		"SELECT max(last_ns), max(latency_max_ns) FROM flows":                                                                       "1000000000005000060 60",
		"SELECT count(latency_ns), count(lost_after_ns), max(lost_after_ns) FROM packets WHERE lost":                                "0 1 60",
		"SELECT count(*), sum(segs), min(t_ns), max(t_ns) FROM packets":                                                             "5001 5003 1000000000000000000 1000000000005000000",
		"SELECT id, guid, src, sport, ttl, ttl_sent, tcp_seq, lost, path, state FROM packets WHERE pos = 18":                        "000000ab-12 0x2 10.0.0.1 1000 64 63 <nil> false n0 > n1 > n2 delivered",
		"SELECT hop, node, in_port, port, link_ns, node_ns, latency_ns, at_ns, role FROM hops WHERE id = '000000ab-7' ORDER BY hop": "0 n0 <nil> e1 <nil> <nil> <nil> 0 source\n1 n1 e2 e3 30 10 40 40 transit\n2 n2 e4 <nil> 20 <nil> 20 60 sink",
		`SELECT node, port, "at", reason, qdisc, at_ns, skbs, after_delivery, segs, id FROM losses`:                                 "n1 e3 queue QDISC_DROP tbf 55 1 false 3 000000ab-1388",
		`SELECT count(*), sum(packets), sum("left"), sum(lost) FROM flows`:                                                          "3 5003 0 3",
		"SELECT path, packets, flows, latency_p50_ns FROM paths ORDER BY packets DESC":                                              "n0 > n1 > n2 5000 3 60\nn0 > n1 3 1 <nil>",
		"SELECT * FROM percentiles(node, link_ns) ORDER BY 1":                                                                       "n1 5003 30 30 30 30 30 30\nn2 5000 20 20 20 20 20 20",
		"SELECT kind, fields FROM events":                                                                                           `recorder_begins {"big":9223372036854775808}`,
		"SELECT count(*) FROM reports":                                                                                              "0",
		"SELECT count(DISTINCT t) FROM hops":                                                                                        "5001",
		"SELECT a.id FROM packets a JOIN packets b ON a.pos = b.pos + 1 WHERE b.pos = 3":                                            "000000ab-4",
	} {
		if got := answer(t, db, text); got != want {
			t.Errorf("%s\n%s\nwant\n%s", text, got, want)
		}
	}
}

// TestWithin: an address is in a prefix, or not, or that is not known.
func TestWithin(t *testing.T) {
	dir := t.TempDir()
	keep(t, dir, segments.Options{Once: true}, several(300)...)
	db, _ := opened(t, dir, query.Options{})
	for text, want := range map[string]string{
		"SELECT count(*) FROM packets WHERE within(src, '10.0.0.0/8') AND NOT within(dst, '10.0.0.2/31')":                                 "200",
		"SELECT DISTINCT dst FROM packets WHERE within(dst, '10.0.0.2')":                                                                  "10.0.0.2",
		"SELECT within('2001:db8::1', '2001:db8::/32'), within('2001:db9::1', '2001:db8::/32'), within('10.0.0.1', '::/0')":               "true false false",
		"SELECT within('fe80::1%eth0', 'fe80::/10'), within('::ffff:10.0.0.1', '10.0.0.0/24'), within(NULL, '::/0'), within('?', '::/0')": "true true <nil> <nil>",
		"SELECT count(*) FROM packets JOIN (VALUES ('10.0.0.0/32'), ('10.0.0.1/32')) p(prefix) ON within(dst, prefix)":                    "200",
	} {
		if got := answer(t, db, text); got != want {
			t.Errorf("%s\n%s\nwant\n%s", text, got, want)
		}
	}
	if got := answer(t, db, "SELECT within(src, '10.0.0.0/33') FROM packets"); !strings.Contains(got, `"10.0.0.0/33" is no prefix`) {
		t.Errorf("a prefix that is none: %s", got)
	}
}

// TestFirstRelease: in files before schema 1.3 the time to where a packet was lost is in latency_ns, and is none here either.
func TestFirstRelease(t *testing.T) {
	db, _ := opened(t, "../../segments/testdata/v1.0.parquet", query.Options{})
	const want = "23 0 24 120 true"
	if got := answer(t, db, "SELECT count(*) FILTER (lost), count(latency_ns) FILTER (lost), count(lost_after_ns), (SELECT count(*) FROM packets), count(latency_ns) > 20 FROM packets"); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestViews: each column that is documented is there, with that type.
func TestViews(t *testing.T) {
	dir := t.TempDir()
	keep(t, dir, segments.Options{}, several(1)...)
	db, _ := opened(t, dir, query.Options{})
	for _, v := range query.Views {
		var want []string
		for _, f := range v.Columns {
			want = append(want, f.Name+" "+f.Type)
		}
		if got := answer(t, db, "SELECT column_name, column_type FROM (DESCRIBE "+v.Name+")"); got != strings.Join(want, "\n") {
			t.Errorf("%s:\n%s\nwant\n%s", v.Name, got, strings.Join(want, "\n"))
		}
	}
}

// TestUnknown: a loss whose place is not known is one at its node, and what is not known is NULL: of packets and of copies.
func TestUnknown(t *testing.T) {
	dir := t.TempDir()
	lost, copied := packetAt(1), packetAt(2)
	lost.State, lost.Lost = record.Lost, true
	lost.Loss = packet.Drop{Node: 1, Port: packet.NoPort, AtNs: packet.NoTime}
	copied.Tree = true
	copied.Drops = []packet.BranchDrop{{Hop: 1, Drop: packet.Drop{Node: 1, Port: packet.NoPort, AtNs: packet.NoTime}}}
	keep(t, dir, segments.Options{}, lost, copied)
	db, _ := opened(t, dir, query.Options{})
	want := `node <nil> <nil> <nil> <nil>`
	if got := answer(t, db, `SELECT "at", port, reason, qdisc, "function" FROM losses`); got != want+"\n"+want {
		t.Errorf("losses: %s", got)
	}
	if got := answer(t, db, `SELECT loss_at, loss_port, loss_reason, loss_qdisc, loss_function FROM packets WHERE lost`); got != want {
		t.Errorf("packets: %s", got)
	}
}

// TestEvents: events come as often as they are asked for, with texts that are none made ones.
func TestEvents(t *testing.T) {
	dir := t.TempDir()
	w, err := segments.Create(dir, segments.Meta{}, segments.Options{MaxAge: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	for i, kind := range []string{"a", "b", "c\xff"} {
		if err := w.AddEvent(time.Unix(int64(i), 0), kind, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	db, _ := opened(t, dir, query.Options{})
	for text, want := range map[string]string{
		"SELECT kind FROM events ORDER BY t": "a\nb\nc\ufffd",
		"WITH RECURSIVE r AS (SELECT 0 AS n, 'x' AS kind UNION ALL SELECT n + 1, e.kind FROM r, events e WHERE n < 2 AND (n = 0 OR r.kind = e.kind)) SELECT count(*) FROM r": "7",
	} {
		if got := answer(t, db, text); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

// TestTwice: of packets that two recorders have kept each is there once, and what switches have said stays.
func TestTwice(t *testing.T) {
	dir := t.TempDir()
	said := packetAt(3)
	said.INT = make([]segments.Said, 3)
	said.INT[1] = segments.Said{{Name: "queue_occ", Value: 1 << 63}}
	keep(t, dir, segments.Options{Once: true}, several(10)...)
	keep(t, dir, segments.Options{Once: true}, append(several(15)[5:], said)...)
	db, _ := opened(t, dir, query.Options{})
	for text, want := range map[string]string{
		"SELECT count(*), count(DISTINCT id) FROM packets": "15 15",
		"SELECT count(*) FROM hops":                        "45",
		"SELECT id, hop, node, name, value FROM reports":   "000000ab-3 1 n1 queue_occ 9223372036854775808",
	} {
		if got := answer(t, db, text); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

// TestDamaged: the row groups of a file that can be read are, and the one that cannot is named.
func TestDamaged(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "it's \"a\" run;--")
	keep(t, dir, segments.Options{}, several(65536+1000)...)
	files, err := filepath.Glob(filepath.Join(strings.ReplaceAll(dir, "[", "\\["), "*", "packets-*"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	text[24] ^= 1 // of t
	if err := os.WriteFile(files[0], text, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(filepath.Dir(files[0]), "packets-link.parquet")); err != nil {
		t.Fatal(err)
	}
	db, r := opened(t, dir, query.Options{})
	if got := answer(t, db, "SELECT count(*), count(latency_ns) FROM packets"); got != "66536 66536" {
		t.Errorf("%s packets: what is asked for is not damaged", got)
	}
	if got := answer(t, db, "SELECT count(*), count(t_ns) FROM packets"); got != "1000 1000" {
		t.Errorf("%s packets", got)
	}
	if d := fmt.Sprint(r.Dir.Damage()); !strings.Contains(d, files[0]+": row group 0: column t: its checksum differs") || !strings.Contains(d, "packets-link.parquet") {
		t.Errorf("damage: %s", d)
	}
}

// TestCounted: what is counted before DuckDB gets it is what DuckDB counts of all rows: of short keys and long ones, of a
// row group whose keys are longer than those before, and of more than 32 bits hold.
func TestCounted(t *testing.T) {
	dir := t.TempDir()
	var all []*segments.Packet
	for i := range uint64(2*65536 + 1000) {
		p := packetAt(i)
		p.Segs, p.Len = int(1+i%3), uint32(40+i%7)
		wait := int64(i * i % 1009)
		if i > 65536 {
			p.Segs, wait = 1<<31+int(i%5), wait<<25
		}
		p.Hops = p.Hops[:1+i%3]
		for h := range p.Hops {
			if hop := &p.Hops[h]; h > 0 {
				hop.InNs, hop.OutNs = int64(h)*wait, int64(h)*wait+wait/7
			}
		}
		all = append(all, p)
	}
	keep(t, dir, segments.Options{Once: true}, all...)
	db, _ := opened(t, dir, query.Options{Threads: 2})
	for _, c := range []struct{ table, columns string }{
		{"hop", "hop, link_ns"}, {"hop", "node, port, node_ns"}, {"hop", "link_ns, node_ns"}, {"hop", "node"}, {"hop", "link_ns, node_ns, path_id, src, dst"}, {"hop", "queue_ns"},
		{"packet", "dst, path"}, {"packet", "dst, sport, path_id, state, guid"}, {"packet", "dst, latency_ns"}, {"packet", "segs"},
	} {
		counted := fmt.Sprintf("SELECT %s, sum(packets)::VARCHAR AS a FROM radar_%s_counts() GROUP BY ALL", c.columns, c.table)
		single := fmt.Sprintf("SELECT %s, sum(segs)::VARCHAR AS a FROM radar_%ss() GROUP BY ALL", c.columns, c.table)
		if got := answer(t, db, fmt.Sprintf("SELECT count(*) FROM ((%s) EXCEPT (%s) UNION ALL ((%[2]s) EXCEPT (%[1]s)))", counted, single)); got != "0" {
			t.Errorf("%s: %s rows are other ones", c.columns, got)
		}
	}
	if got, want := answer(t, db, "SELECT sum(bytes) FROM radar_packet_counts()"), answer(t, db, "SELECT sum(len) FROM packets"); got != want {
		t.Errorf("%s bytes, not %s", got, want)
	}
}

// TestNarrow: a number that a column cannot hold is damage.
func TestNarrow(t *testing.T) {
	for k, want := range map[kind]bool{byte8: false, short: true, long: true} {
		o := output{column: &column{kind: k, of: "ttl"}, value: &parquet.Values{Ints: []int64{64, parquet.Null, 300}}}
		if err := o.fits(); (err == nil) != want {
			t.Errorf("%v: %v", k, err)
		}
	}
}

// TestStream: rows come before the last of them is made. An error among them is one, and the next query is answered, also
// after one that was not read to its end or was interrupted.
func TestStream(t *testing.T) {
	dir := t.TempDir()
	keep(t, dir, segments.Options{}, several(3)...)
	db, _ := opened(t, dir, query.Options{})
	for text, want := range map[string]string{
		"SELECT CASE WHEN range = 9000000 THEN error('late') ELSE range END FROM range(10000000)": "late",
		"SELECT a.range FROM range(1000000000) a, range(1000) b":                                  "left",
		"SELECT range FROM range(1000000000000) WHERE range < 400000 OR hash(range) = 0":          "canceled",
	} {
		ctx, cancel := context.WithCancel(t.Context())
		rows, err := db.Query(ctx, text, 0)
		if err != nil {
			t.Fatal(err)
		}
		if want == "canceled" {
			time.AfterFunc(50*time.Millisecond, cancel)
		}
		n := 0
		for values := []any{nil}; values != nil && err == nil && (want != "left" || n < 10000); n++ {
			values, err = rows.Next()
		}
		if err = errors.Join(err, rows.Close()); want != "left" && (err == nil || !strings.Contains(err.Error(), want)) || want == "left" && err != nil || n < 3 {
			t.Errorf("%s: %d rows, %v", text, n, err)
		}
		cancel()
		if got := answer(t, db, "SELECT count(*) FROM packets"); got != "3" {
			t.Errorf("then: %s", got)
		}
	}
}

// TestInterrupted: a query ends when its context does, and the next one is answered.
func TestInterrupted(t *testing.T) {
	dir := t.TempDir()
	keep(t, dir, segments.Options{}, several(3)...)
	db, _ := opened(t, dir, query.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	if rows, err := db.Query(ctx, "SELECT count(*) FROM range(1000000) a, range(1000000) b WHERE hash(a.range, b.range) = 0", 0); err == nil {
		rows.Close()
		t.Error("it was answered")
	}
	if got := answer(t, db, "SELECT count(*) FROM packets"); got != "3" {
		t.Errorf("then: %s", got)
	}
}

// TestReleased: what a query takes that ends before its row group does is given back.
func TestReleased(t *testing.T) {
	dir := t.TempDir()
	keep(t, dir, segments.Options{}, several(30000)...)
	db, _ := opened(t, dir, query.Options{})
	var held atomic.Int64
	create, destroy := mapping.CreateVector, mapping.DestroyVector
	mapping.CreateVector = func(l mapping.LogicalType, n mapping.IdxT) mapping.Vector { held.Add(1); return create(l, n) }
	mapping.DestroyVector = func(v *mapping.Vector) { held.Add(-1); destroy(v) }
	defer func() { mapping.CreateVector, mapping.DestroyVector = create, destroy }()
	if got := answer(t, db, "SELECT path FROM packets LIMIT 1"); got != "n0 > n1 > n2" {
		t.Error(got)
	}
	if held.Load() == 0 {
		t.Fatal("it has taken nothing")
	}
	if got := answer(t, db, "SELECT 1"); got != "1" {
		t.Error(got)
	}
	for end := time.Now().Add(10 * time.Second); held.Load() > 0 && time.Now().Before(end); time.Sleep(time.Millisecond) {
		runtime.GC()
	}
	if n := held.Load(); n != 0 {
		t.Errorf("%d columns are not given back", n)
	}
}

// TestMemory: a query that needs more than it may have fails, and says what helps.
func TestMemory(t *testing.T) {
	dir := t.TempDir()
	keep(t, dir, segments.Options{}, several(3)...)
	db, _ := opened(t, dir, query.Options{Memory: 30 << 20})
	if got := answer(t, db, "SELECT count(*) FROM (SELECT DISTINCT range::VARCHAR || 'some more text than fits' FROM range(10000000))"); !strings.Contains(got, "‹memory›") {
		t.Errorf("%.200s", got)
	}
}
