// SPDX-License-Identifier: Apache-2.0

package sink_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/lab/test/servers"
	"github.com/vnetradar/radar/pkg/sink"
	"github.com/vnetradar/radar/pkg/sink/sinktest"
	"github.com/vnetradar/radar/pkg/telemetry/metrics"
)

// influxd is a server of its own, at 127.0.0.1 only.
type influxd struct {
	t       *testing.T
	address string
	args    []string
	stop    func()
	user    *url.Userinfo // nil: it asks nobody who they are
	db      string        // that questions are about
}

func newInfluxd(t *testing.T) *influxd { return newInfluxdOf(t, nil) }

// newInfluxdOf makes one with an administrator of that name; nil: anybody is.
func newInfluxdOf(t *testing.T, user *url.Userinfo) *influxd {
	t.Helper()
	i := &influxd{t: t, address: "http://" + servers.Free(t), user: user, db: "radar"}
	i.args = servers.InfluxDB(t, strings.TrimPrefix(i.address, "http://"), user != nil)
	i.begin()
	if user != nil {
		word, _ := user.Password()
		i.ask("q", fmt.Sprintf("CREATE USER %s WITH PASSWORD '%s' WITH ALL PRIVILEGES", user.Username(), word))
	}
	i.ask("q", "CREATE DATABASE radar")
	return i
}

func (i *influxd) begin() { i.stop = servers.Serve(i.t, i.address+"/ping", "influxd", i.args...) }

// output is one that writes to a database of the server.
func (i *influxd) output(t *testing.T, l *sinktest.Log, db string) *sink.Influx {
	t.Helper()
	o, err := sink.NewInflux(i.address+"/?db="+db, "", sinktest.OddName, l.Logger())
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// ask asks a query and returns the rows of its answer, by column.
func (i *influxd) ask(kind, query string) (rows []map[string]any) {
	i.t.Helper()
	at := strings.Replace(i.address, "//", "//"+userText(i.user), 1) + "/query"
	response, err := http.PostForm(at, url.Values{kind: {query}, "db": {i.db}, "epoch": {"ns"}})
	if err != nil {
		i.t.Fatal(err)
	}
	defer response.Body.Close()
	var answer struct {
		Results []struct {
			Error  string
			Series []struct {
				Columns []string
				Values  [][]any
			}
		}
	}
	decoder := json.NewDecoder(response.Body)
	decoder.UseNumber()
	if err := decoder.Decode(&answer); err != nil {
		i.t.Fatal(err)
	}
	for _, r := range answer.Results {
		if r.Error != "" {
			i.t.Fatalf("%s: %s", query, r.Error)
		}
		for _, s := range r.Series {
			for _, values := range s.Values {
				row := make(map[string]any)
				for n, v := range values {
					if v != nil {
						row[s.Columns[n]] = v
					}
				}
				rows = append(rows, row)
			}
		}
	}
	return rows
}

func userText(u *url.Userinfo) string {
	if u == nil {
		return ""
	}
	return u.String() + "@"
}

// count is how many points the database has.
func (i *influxd) count() (n int) {
	for m := range metrics.NumMetrics {
		n += len(i.points(m))
	}
	return n
}

// points are what the database has of a metric, as text, in order.
func (i *influxd) points(m metrics.Metric) (list []string) {
	for _, row := range i.ask("q", "SELECT * FROM "+m.String()) {
		list = append(list, fmt.Sprint(row))
	}
	slices.Sort(list)
	return list
}

// want is what a point should read as: what is in an event or row, by name, less "".
func want(k *metrics.Key, at int64, more map[string]any) map[string]any {
	row := map[string]any{"time": at}
	j := metrics.Namer(sinktest.OddName).Key(k)
	if k.Metric.OfFlow() {
		row["src"], row["dst"], row["proto"], row["flow_group"] = j.Src, j.Dst, j.Proto, sink.FlowGroup(&k.Flow)
		if j.Sport != nil {
			row["sport"], row["dport"] = *j.Sport, *j.Dport
		}
	}
	if j.NodeID != nil {
		row["node"], row["node_id"] = influxName(*j.NodeID), *j.NodeID
	}
	if j.Port != nil {
		row["port"] = *j.Port
	}
	if j.Queue != nil {
		row["queue"] = *j.Queue
	}
	if j.ToNodeID != nil {
		row["to_node"], row["to_node_id"] = influxName(*j.ToNodeID), *j.ToNodeID
	}
	for name, v := range more {
		row[name] = v
	}
	return row
}

// influxName is a name as the database has it: nothing but what cannot be written is replaced.
func influxName(id uint32) string {
	return map[uint32]string{5: "back?slash", 6: "line?break", 7: "trailing?", 8: "_"}[id] + map[bool]string{true: sinktest.OddName(id)}[id < 5 || id > 8]
}

func influxPath(ids []uint32) string {
	var names []string
	for _, id := range ids {
		if id == 8 {
			names = append(names, "")
			continue
		}
		names = append(names, influxName(id))
	}
	return strings.Join(names, " > ")
}

// TestInfluxDB: what a real server has afterwards are the events, and the engine's rows.
func TestInfluxDB(t *testing.T) {
	t.Parallel()
	server := newInfluxd(t)
	var l sinktest.Log
	w := sinktest.NewWorld(t, server.output(t, &l, "radar")).Start(time.Hour) // one snapshot, at the end
	w.Feed(1000)
	w.Close()
	if n := w.Tally("influx"); n.DroppedEvents.Load()+n.DroppedValues.Load()+n.GivenUp.Load() != 0 {
		t.Fatalf("lost: %+v, %s", n, l.String())
	}
	expected := make(map[metrics.Metric]map[string]map[string]any) // by series and time, as the server has them
	add := func(k *metrics.Key, at int64, more map[string]any) {
		if expected[k.Metric] == nil {
			expected[k.Metric] = make(map[string]map[string]any)
		}
		row := want(k, at, more)
		id := fmt.Sprint(at, row["flow_group"], row["node_id"], row["port"], row["queue"], row["to_node_id"])
		for name, v := range expected[k.Metric][id] {
			if _, ok := row[name]; !ok {
				row[name] = v
			}
		}
		expected[k.Metric][id] = row
	}
	for n := range w.Events {
		e := &w.Events[n]
		more := map[string]any{"value": e.Value, "was": e.Was}
		if e.New {
			delete(more, "was")
		}
		if e.Metric == metrics.FlowPath {
			more = map[string]any{"path": influxPath(e.Path), "was_path": influxPath(e.WasPath)}
			if e.New {
				delete(more, "was_path")
			}
		}
		add(&e.Key, e.At, more)
	}
	rows := w.Rows(time.Time{})
	for n := range rows {
		r := &rows[n]
		more := map[string]any{"value": r.Value, "reports": r.Reports}
		if r.Metric == metrics.FlowPath {
			more = map[string]any{"path": influxPath(r.Path), "reports": r.Reports}
		}
		add(&r.Key, r.At, more)
	}
	total := 0
	for m := range metrics.NumMetrics {
		var list []string
		for _, row := range expected[m] {
			list = append(list, fmt.Sprint(row))
		}
		slices.Sort(list)
		total += len(list)
		if diff := cmp.Diff(list, server.points(m)); diff != "" || len(list) == 0 {
			t.Errorf("%v: %d points expected: %s", m, len(list), diff[:min(len(diff), 3000)])
		}
	}
	t.Logf("%d events and %d rows are %d points", len(w.Events), len(rows), total)
}

// TestInfluxDown: while the server is away for two seconds nothing is lost that the queue holds.
func TestInfluxDown(t *testing.T) {
	t.Parallel()
	server := newInfluxd(t)
	var l sinktest.Log
	w := sinktest.NewWorld(t, server.output(t, &l, "radar")).Start(0)
	first := w.Feed(100)
	w.Written("influx", first)
	server.stop()
	w.Feed(1000)
	time.Sleep(2 * time.Second)
	nstest.WaitFor(t, "an attempt that is refused", func() bool { return strings.Contains(l.String(), "connection refused") })
	server.begin()
	w.Feed(100)
	w.Close()
	n := w.Tally("influx")
	if n.Written.Load() != uint64(len(w.Events)) || n.GivenUp.Load()+n.DroppedEvents.Load() != 0 || n.Retries.Load() == 0 {
		t.Errorf("of %d events: written %d, given up %d, dropped %d, %d retries", len(w.Events), n.Written.Load(), n.GivenUp.Load(), n.DroppedEvents.Load(), n.Retries.Load())
	}
	got := 0
	for m := range metrics.NumMetrics {
		got += len(server.points(m))
	}
	if got != len(w.Events) { // their times differ, so each is a point
		t.Errorf("%d points of %d events", got, len(w.Events))
	}
	// Once for each reason: the first request may be cut off, all others are refused.
	if said := l.String(); strings.Count(said, "connection refused") != 1 || strings.Count(said, "does not take points") > 2 {
		t.Errorf("said: %s", said)
	}
}

// TestInfluxRefuses: what the server does not want is given up, counted, and said once.
func TestInfluxRefuses(t *testing.T) {
	t.Parallel()
	server := newInfluxd(t)
	t.Run("a part", func(t *testing.T) {
		response, err := http.Post(server.address+"/write?db=radar", "", strings.NewReader(`link_utilization value="text"`))
		if err != nil || response.StatusCode != http.StatusNoContent {
			t.Fatal(response, err)
		}
		response.Body.Close()
		var l sinktest.Log
		w := sinktest.NewWorld(t, server.output(t, &l, "radar")).Start(0)
		w.Feed(100)
		w.Close()
		refused := w.Engine.Counts.Events[metrics.LinkUtilization]
		if n := w.Tally("influx"); n.GivenUp.Load() != refused || n.Written.Load() != uint64(len(w.Events))-refused {
			t.Errorf("%d of utilisation among %d events: given up %d, written %d, %s", refused, len(w.Events), n.GivenUp.Load(), n.Written.Load(), l.String())
		}
	})
}

// answers is a server that answers as it is told, in turn; the last answer again and again.
type answers struct {
	*httptest.Server
	asked   atomic.Int64
	points  atomic.Int64 // in what it took
	request atomic.Pointer[http.Request]
	text    string // that it says
}

func newAnswers(t *testing.T, codes ...int) *answers {
	a := &answers{text: "because"}
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		code := codes[min(int(a.asked.Add(1)), len(codes))-1]
		a.request.Store(r)
		b, _ := io.ReadAll(r.Body)
		if code == http.StatusTooManyRequests {
			w.Header().Set("Retry-After", "1")
		}
		if code/100 == 3 {
			w.Header().Set("Location", "/elsewhere")
		}
		if code/100 == 2 {
			a.points.Add(int64(strings.Count(string(b), "\n")))
		}
		w.WriteHeader(code)
		fmt.Fprintln(w, a.text)
	}))
	t.Cleanup(a.Close)
	return a
}

// TestInfluxAnswers: which answers are tried again.
func TestInfluxAnswers(t *testing.T) {
	for _, c := range []struct {
		name    string
		codes   []int
		taken   bool
		retries uint64
		atLeast time.Duration
	}{
		{"busy", []int{500, 503, 204}, true, 2, 3 * sink.FirstRetry},
		{"later", []int{429, 204}, true, 1, time.Second},
		{"unauthorized", []int{401}, false, 0, 0},
		{"too large", []int{413}, false, 0, 0},
		{"elsewhere", []int{307}, false, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			server := newAnswers(t, c.codes...)
			var l sinktest.Log
			o, err := sink.NewInflux(server.URL+"/?org=o&bucket=b", "secret", sinktest.OddName, l.Logger())
			if err != nil {
				t.Fatal(err)
			}
			w := sinktest.NewWorld(t, o).Start(0)
			began := time.Now()
			w.Feed(10)
			w.Close()
			n, all := w.Tally("influx"), uint64(len(w.Events))
			written, lost := uint64(0), all
			if c.taken {
				written, lost = all, 0
			}
			if n.Written.Load() != written || n.GivenUp.Load() != lost || n.Retries.Load() != c.retries || uint64(server.points.Load()) != written {
				t.Errorf("of %d: written %d, given up %d, retries %d, taken %d", all, n.Written.Load(), n.GivenUp.Load(), n.Retries.Load(), server.points.Load())
			}
			if took := time.Since(began); took < c.atLeast {
				t.Errorf("done after %v", took)
			}
			r := server.request.Load()
			if got := r.URL.Path + "?" + r.URL.RawQuery; got != "/api/v2/write?bucket=b&org=o&precision=ns" || r.Header.Get("Authorization") != "Token secret" {
				t.Errorf("asked %s, %q", got, r.Header.Get("Authorization"))
			}
			if !strings.Contains(l.String(), "because") || strings.Contains(l.String(), "secret") {
				t.Errorf("said: %s", l.String())
			}
		})
	}
}

// TestInfluxEnds: at the end what a server does not take is counted, in bounded time.
func TestInfluxEnds(t *testing.T) {
	t.Parallel()
	server := newAnswers(t, 500)
	var l sinktest.Log
	o, err := sink.NewInflux(strings.Replace(server.URL, "//", "//u:word@", 1)+"?db=radar", "", sinktest.OddName, l.Logger())
	if err != nil {
		t.Fatal(err)
	}
	w := sinktest.NewWorld(t, o)
	w.Fan.Grace = soon
	w.Start(0)
	w.Feed(8000) // more than queue and batch hold
	w.Close()
	n := w.Tally("influx")
	if n.Written.Load() != 0 || n.DroppedEvents.Load() == 0 || n.DroppedEvents.Load()+n.GivenUp.Load() != uint64(len(w.Events)) {
		t.Errorf("of %d: written %d, dropped %d, given up %d", len(w.Events), n.Written.Load(), n.DroppedEvents.Load(), n.GivenUp.Load())
	}
	r := server.request.Load()
	if user, word, _ := r.BasicAuth(); user != "u" || word != "word" || r.URL.Path != "/write" || strings.Contains(l.String(), "word") {
		t.Errorf("asked %v as %s %s; said %s", r.URL, user, word, l.String())
	}
}

func TestInfluxAddress(t *testing.T) {
	for _, address := range []string{"", "127.0.0.1:8086", "http://", "ftp://h/?db=x", "http://h/", "http://h/?db=x&bucket=y", "http://h:word@/?\x01", "http://u:w%zz@h/?db=x"} {
		if _, err := sink.NewInflux(address, "", sinktest.OddName, nil); err == nil || strings.Contains(err.Error(), "word") {
			t.Errorf("%q: %v", address, err)
		}
	}
}
