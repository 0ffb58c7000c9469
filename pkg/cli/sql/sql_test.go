// SPDX-License-Identifier: Apache-2.0

//go:build cgo && !nosql

package sql_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/vnetradar/radar/lab/test/servers"
	"github.com/vnetradar/radar/pkg/aggregate"
	"github.com/vnetradar/radar/pkg/cli/clitest"
	"github.com/vnetradar/radar/pkg/cli/kit"
)

// TestSameAnswers: SQL answers as other questions do, of the domain and of its recording.
func TestSameAnswers(t *testing.T) {
	w := clitest.NewWorld(t)
	dir := filepath.Join(t.TempDir(), "it's a run")
	w.In("r1", "nft", "add table ip t; add chain ip t f { type filter hook forward priority 0; }; add rule ip t f udp dport 9999 drop")
	w.In("r1", "tc", "qdisc", "add", "dev", "eth1", "root", "tbf", "rate", "20mbit", "burst", "3000", "limit", "20000")
	w.Radar(kit.ExitOK, append([]string{"attach", "-d", "--record", dir}, w.Lab.AttachArgs()...)...)
	w.Ping(5)
	w.In("h1", "bash", "-c", "for i in $(seq 5); do echo x >/dev/udp/10.0.2.2/9999; done")
	w.In("h1", "python3", "-c", `import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for i in range(100): s.sendto(b"x" * 1000, ("10.0.2.2", 7))`)
	w.In("h1", "ping", "-q", "-c", "2", "-i", "0.01", "-s", "4000", "10.0.2.2")
	last := ""
	for same := 0; same < 3; time.Sleep(300 * time.Millisecond) {
		s := w.Status().Totals
		now := fmt.Sprint(s.Delivered, s.Left, s.Lost, s.Expired, s.InFlight)
		if same++; now != last || s.InFlight > 0 {
			same = 0
		}
		last = now
	}
	live := w.Radar(kit.ExitOK, "sql", "-o", "csv", "-c", "SELECT * FROM packets ORDER BY t, id")
	if got := w.Radar(kit.ExitOK, "sql", "-o", "csv", "-c", "SELECT kind FROM events"); !strings.Contains(got, "recorder_begins") {
		t.Errorf("events of the domain: %q", got)
	}
	w.Radar(kit.ExitOK, "detach")
	same(w, dir)
	if got := w.Radar(kit.ExitOK, "sql", "-o", "csv", "-r", dir, "-c", "SELECT * FROM packets ORDER BY t, id"); got != live || strings.Count(got, "\n") < 100 {
		t.Errorf("recorded\n%.2000s\nlive\n%.2000s", got, live)
	}
	printed(w, dir)
	pages(w, dir)
}

// rows are what SQL answers, by JSON.
func rows(w *clitest.World, dir, text string) string {
	w.Helper()
	return w.Radar(kit.ExitOK, "sql", "-r", dir, "-o", "json", "-c", text)
}

// same compares figures.
func same(w *clitest.World, dir string) {
	var b strings.Builder
	for _, f := range clitest.RowsOf[aggregate.FlowRow](w, "flows", "--top", "0", "-r", dir) {
		rate := "null"
		if f.RateBps != nil {
			rate = fmt.Sprint(*f.RateBps)
		}
		fmt.Fprintf(&b, `{"src":%q,"dst":%q,"packets":%d,"bytes":%d,"delivered":%d,"left":%d,"lost":%d,"expired":%d,"first_ns":%d,"last_ns":%d,"duration_ns":%d,"rate_bps":%s,"paths":%d}`+"\n",
			f.Src, f.Dst, f.Packets, f.Bytes, f.Delivered, f.Left, f.Lost, f.Expired, f.FirstNs, f.LastNs, f.DurationNs, rate, f.Paths)
	}
	equal(w, "flows", b.String(), rows(w, dir, `SELECT src, dst, packets, bytes, delivered, "left", lost, expired, first_ns, last_ns, duration_ns, rate_bps, paths FROM flows`))
	b.Reset()
	for _, p := range clitest.RowsOf[aggregate.PathRow](w, "paths", "-r", dir) {
		fmt.Fprintf(&b, `{"path":%q,"packets":%d,"bytes":%d,"delivered":%d,"lost":%d,"expired":%d,"flows":%d}`+"\n", p.Path, p.Packets, p.Bytes, p.Delivered, p.Lost, p.Expired, p.Flows)
	}
	equal(w, "paths", b.String(), rows(w, dir, "SELECT path, packets, bytes, delivered, lost, expired, flows FROM paths"))
	b.Reset()
	for _, after := range []bool{false, true} {
		args := []string{"loss", "-r", dir}
		if after {
			args = append(args, "--after-delivery")
		}
		for _, l := range clitest.RowsOf[aggregate.LossRow](w, args...) {
			fmt.Fprintf(&b, `{"node":%q,"port":%q,"at":%q,"reason":%q,"function":%q,"packets":%d,"skbs":%d,"bytes":%d,"after_delivery":%v}`+"\n",
				l.Node, l.Port, l.At, l.Reason, l.Function, l.Packets, l.Skbs, l.Bytes, after)
		}
	}
	equal(w, "losses", b.String(), rows(w, dir, `SELECT node, coalesce(port, '') AS port, "at", coalesce(reason, '') AS reason, coalesce("function", '') AS "function", sum(segs)::BIGINT AS packets, sum(skbs)::BIGINT AS skbs,
		sum(len)::BIGINT AS bytes, after_delivery FROM losses GROUP BY ALL`))
	b.Reset()
	for _, l := range clitest.RowsOf[aggregate.LatencyRow](w, "latency", "--by", "queue", "-r", dir) {
		fmt.Fprintf(&b, `{"name":%q,"count":%d,"min_ns":%d,"max_ns":%d}`+"\n", l.Name, l.Count, l.MinNs, l.MaxNs)
	}
	equal(w, "queues", b.String(), rows(w, dir, "SELECT place AS name, count, min_ns, max_ns FROM percentiles(node || '/' || port, queue_ns)"))
	b.Reset()
	for _, p := range w.Packets("--last", "0", "-r", dir) {
		for i, h := range p.Hops {
			text, _ := json.Marshal([]any{h.LinkNs, h.NodeNs, h.QueueNs, h.LatencyNs, h.AtNs})
			fmt.Fprintf(&b, `{"id":%q,"hop":%d,"node":%q,"node_id":%d,"role":%q,"times":%s}`+"\n", p.ID, i, h.Node, h.NodeID, h.Role, text)
		}
	}
	equal(w, "hops", b.String(), rows(w, dir, "SELECT id, hop, node, node_id, role, [link_ns, node_ns, queue_ns, latency_ns, at_ns] AS times FROM hops"))
}

// equal compares lines in any order.
func equal(w *clitest.World, what, want, got string) {
	w.Helper()
	if want == "" {
		w.Errorf("%s: there is nothing to compare", what)
	}
	if want, got = sorted(want), sorted(got); want != got {
		w.Errorf("%s:\n%.3000s\nwant\n%.3000s", what, got, want)
	}
}

func sorted(text string) string {
	cmd := exec.Command("sort")
	cmd.Env = []string{"LC_ALL=C"}
	cmd.Stdin = strings.NewReader(text)
	out, _ := cmd.Output()
	return string(out)
}

// printed looks at formats, notes, exit codes and refusals.
func printed(w *clitest.World, dir string) {
	for want, args := range map[string][]string{
		"no packet matches; the recording " + dir + " covers 20": {"-c", "SELECT * FROM packets WHERE dport = 12345"},
		"these are the first 3 rows; --limit 0 shows all":        {"--limit", "3", "-c", "SELECT id FROM packets"},
	} {
		if out := w.Radar(kit.ExitOK, append([]string{"sql", "-r", dir}, args...)...); !strings.Contains(out, want) {
			w.Errorf("radar sql %v says %q, want %q", args, out, want)
		}
	}
	if out := w.Radar(kit.ExitOK, "sql", "-r", dir, "-c", "-- mine\nCREATE TABLE a AS SELECT 1 AS x; CREATE VIEW v AS FROM a; SELECT 'a┌\nb' AS x FROM v"); strings.Contains(out, "no packet") || !strings.Contains(out, "a┌ b") {
		w.Errorf("own tables: %q", out)
	}
	if out := w.Radar(kit.ExitOK, "sql", "-r", dir, "-c", "EXPLAIN SELECT 1"); !strings.Contains(out, "PROJECTION") || strings.Contains(out, "┌ ") || strings.Count(out, "\n") < 4 {
		w.Errorf("a plan: %q", out)
	}
	file := filepath.Join(w.TempDir(), "a.sql")
	if err := os.WriteFile(file, []byte("SELECT 1 AS one;\n\n-- second\nSELECT nod FROM hops;\n"), 0o600); err != nil {
		w.Fatal(err)
	}
	if out := w.Radar(kit.ExitFailure, "sql", "-r", dir, file); !strings.Contains(out, "one\n  1\n") || !strings.Contains(out, file+": line 3: Binder Error") || !strings.Contains(out, `"node"`) {
		w.Errorf("a file: %q", out)
	}
	for want, args := range map[string][]string{
		"COPY asks nothing: use SELECT": {"-c", "COPY (SELECT 1) TO '/tmp/x'"},
		"there is no statement":         {"-c", " -- x"},
		"-o parquet: there are 2":       {"-o", "parquet", "-c", "SELECT 1; SELECT 2"},
		`unknown format "xml"`:          {"-o", "xml", "-c", "SELECT 1"},
		"-c and a.sql: use one of them": {"-c", "SELECT 1", "a.sql"},
		"--threads -1: use 1 to 1024":   {"--threads", "-1", "-c", "SELECT 1"},
	} {
		if out := w.Radar(kit.ExitUsage, append([]string{"sql", "-r", dir}, args...)...); !strings.Contains(out, want) {
			w.Errorf("radar sql %v says %q, want %q", args, out, want)
		}
	}
	if got := rows(w, dir, "SELECT 9007199254740993 AS big, 170141183460469231731687303715884105727 AS huge, TIMESTAMP_NS '2026-01-02 03:04:05.000000006' AS t, DATE '2026-01-02' AS d, NULL AS n"); got !=
		`{"big":9007199254740993,"huge":170141183460469231731687303715884105727,"t":"2026-01-02T03:04:05.000000006Z","d":"2026-01-02","n":null}`+"\n" {
		w.Errorf("JSON: %s", got)
	}
}

var (
	shell  = regexp.MustCompile("(?s)```sh\n(.*?)```")
	python = regexp.MustCompile("(?s)```python\n(.*?)```")
)

// pages runs the blocks of code of the pages about recordings.
func pages(w *clitest.World, dir string) {
	interpreter := servers.Python(w.T, "records")
	work := w.TempDir()
	if err := os.Symlink(dir, filepath.Join(work, "run1")); err != nil {
		w.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(clitest.Root(w.T), "docs/sql.md"))
	if err != nil {
		w.Fatal(err)
	}
	blocks := python.FindAllSubmatch(text, -1)
	if len(blocks) < 3 {
		w.Fatalf("docs/sql.md has %d blocks of Python", len(blocks))
	}
	for _, b := range blocks {
		cmd := exec.Command(interpreter, "-c", string(b[1]))
		cmd.Dir = work
		if out, err := cmd.CombinedOutput(); err != nil || len(out) == 0 {
			w.Errorf("%v: %s\n%s", err, b[1], out)
		}
	}
	page, err := os.ReadFile(filepath.Join(clitest.Root(w.T), "docs/records.md"))
	if err != nil {
		w.Fatal(err)
	}
	queries := regexp.MustCompile(`(?s)duckdb -c "(.*?)"`).FindAllSubmatch(page, -1)
	if len(queries) < 2 || len(shell.FindAll(page, -1)) == 0 {
		w.Fatalf("docs/records.md has %d queries", len(queries))
	}
	for _, q := range queries {
		cmd := exec.Command(interpreter, "-c", "import duckdb, sys; duckdb.sql(sys.argv[1]).show()", strings.ReplaceAll(string(q[1]), "DIR", "run1"))
		cmd.Dir = work
		if out, err := cmd.CombinedOutput(); err != nil || len(out) == 0 {
			w.Errorf("%v: %s\n%s", err, q[1], out)
		}
	}
}
