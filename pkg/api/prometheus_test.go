// SPDX-License-Identifier: Apache-2.0

package api

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/lab/test/servers"
	"github.com/vnetradar/radar/pkg/api/reported"
	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/sink/sinktest"
	"github.com/vnetradar/radar/pkg/telemetry/metrics"
)

func decimal(n uint32) string { return strconv.FormatUint(uint64(n), 10) }

func newServer(t *testing.T, l *sinktest.Log) (s *Reports, address string) {
	t.Helper()
	s, err := ListenReports("0", nil, "d", sinktest.OddName, fault.Face{}, l.Logger())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	if !s.Server().Addr().Addr().IsLoopback() {
		t.Errorf("a port alone is at %v", s.Server().Addr())
	}
	return s, "http://" + s.Server().Addr().String()
}

// prometheusd is a server of its own that scrapes one address, native histograms too.
type prometheusd struct {
	t       *testing.T
	address string
	at      string // when all questions are about, Unix seconds; "": now
}

func newPrometheus(t *testing.T, target string) *prometheusd {
	t.Helper()
	dir := t.TempDir()
	// The first scrape comes at any time within the interval, and a scrape may not take longer than that:
	// on a busy machine, under the race detector, none would ever be done with a short one.
	config := fmt.Sprintf("scrape_configs:\n- job_name: radar\n  scrape_interval: 15s\n  scrape_timeout: 15s\n  static_configs: [{targets: [%q]}]\n", strings.TrimPrefix(target, "http://"))
	path := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	p := &prometheusd{t: t, address: "http://" + servers.Free(t)}
	servers.Serve(t, p.address+"/-/ready", "prometheus", "--config.file="+path, "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address="+strings.TrimPrefix(p.address, "http://"), "--enable-feature=native-histograms")
	return p
}

// awaitScrape waits for the first scrape; all later questions are about it. (After one that came too
// late on a busy machine, Prometheus has no values until the next.)
func (p *prometheusd) awaitScrape() {
	p.t.Helper()
	nstest.WaitFor(p.t, "a scrape", func() bool {
		at, ok := p.ask("timestamp(radar_collect_reports_total)")[""]
		if ok {
			p.at = strconv.FormatFloat(at, 'f', 3, 64)
		}
		return ok
	})
}

// ask returns the values of an instant query, by the labels that are named.
func (p *prometheusd) ask(query string, labels ...string) map[string]float64 {
	p.t.Helper()
	query = p.address + "/api/v1/query?query=" + url.QueryEscape(query)
	if p.at != "" {
		query += "&time=" + p.at
	}
	_, text := servers.Get(p.t, query)
	var answer struct {
		Error string
		Data  struct {
			Result []struct {
				Metric map[string]string
				Value  [2]any
			}
		}
	}
	if err := json.Unmarshal([]byte(text), &answer); err != nil || answer.Error != "" {
		p.t.Fatal(err, text)
	}
	values := make(map[string]float64)
	for _, r := range answer.Data.Result {
		var key []string
		for _, name := range labels {
			key = append(key, r.Metric[name])
		}
		value, _ := r.Value[1].(string)
		n, err := strconv.ParseFloat(value, 64)
		if err != nil {
			p.t.Fatal(err)
		}
		values[strings.Join(key, "|")] = n
	}
	return values
}

// TestPrometheus: promtool finds nothing odd, and a real server has what was fed.
func TestPrometheus(t *testing.T) {
	t.Parallel()
	var l sinktest.Log
	s, address := newServer(t, &l)
	w := sinktest.NewWorld(t, s).Start(0)
	const reports = 300
	var flow, sums float64
	hops := make(map[string]float64)
	w.Engine.Observe = func(m metrics.Metric, node uint32, ns uint64) {
		s.Observe(m, node, ns)
		if m == metrics.FlowLatency {
			flow++
			sums += float64(ns) / 1e9
			return
		}
		hops[sinktest.OddName(node)+"|"+decimal(node)]++
	}
	w.Feed(reports)
	w.Written("http", len(w.Events))
	w.Tally("http").DroppedValues.Add(7) // as if its queue had been full
	time.Sleep(rowsFor)                  // a scrape may have come before

	_, text := servers.Get(t, address+"/metrics")
	promtool := exec.Command(servers.Program(t, "promtool"), "check", "metrics")
	promtool.Stdin = strings.NewReader(text)
	if said, err := promtool.CombinedOutput(); err != nil || len(said) > 0 {
		t.Errorf("promtool: %v, %s", err, said)
	}
	for _, of := range []string{"10.0.0.1", "2001:db8", "guid"} {
		if strings.Contains(text, of) {
			t.Errorf("a flow is in a label: %s", of)
		}
	}

	p := newPrometheus(t, address)
	p.awaitScrape()
	gauges := map[string]map[string]float64{"radar_int_queue_occupancy": {}, "radar_int_queue_congested": {}, "radar_int_link_utilization": {}, "radar_int_link_latency_seconds": {}}
	for _, r := range w.Rows(time.Time{}) {
		j := metrics.Namer(sinktest.OddName).Key(&r.Key)
		port, queue := "", ""
		if j.Port != nil {
			port = decimal(*j.Port)
		}
		if j.Queue != nil {
			queue = decimal(*j.Queue)
		}
		name := map[metrics.Metric]string{
			metrics.QueueOccupancy: "radar_int_queue_occupancy", metrics.QueueCongestion: "radar_int_queue_congested",
			metrics.LinkUtilization: "radar_int_link_utilization", metrics.LinkLatency: "radar_int_link_latency_seconds",
		}[r.Metric]
		value := float64(r.Value)
		if r.Metric == metrics.LinkLatency {
			value /= 1e9
		}
		if name != "" {
			gauges[name][strings.Join([]string{j.Node, decimal(r.Node), port, queue, j.ToNode}, "|")] = value
		}
	}
	for name, want := range gauges {
		if diff := cmp.Diff(want, p.ask(name, "node", "node_id", "port", "queue", "to_node")); diff != "" || len(want) == 0 {
			t.Errorf("%s: %d rows, %s", name, len(want), diff)
		}
	}
	if diff := cmp.Diff(hops, p.ask("histogram_count(radar_int_hop_latency_seconds)", "node", "node_id")); diff != "" || len(hops) != 12 {
		t.Errorf("hops: %s", diff)
	}
	if got := p.ask("histogram_count(radar_int_flow_latency_seconds)")[""]; got != flow || flow != reports {
		t.Errorf("%v latencies of flows, fed %v", got, flow)
	}
	if got := p.ask("histogram_sum(radar_int_flow_latency_seconds)")[""]; got < sums*0.999 || got > sums*1.001 {
		t.Errorf("their sum is %v, fed %v", got, sums)
	}
	// Latencies are 3 us times 1 to 2^19, each as often: half are up to 1.536 ms.
	if got := p.ask("histogram_quantile(0.5, radar_int_flow_latency_seconds)")[""]; got < 1.3e-3 || got > 1.7e-3 {
		t.Errorf("their median is %v", got)
	}
	for name, want := range map[string]float64{
		"radar_collect_datagrams_total": 12, "radar_collect_rejected_total": 3, "radar_collect_reports_total": 9,
		"radar_collect_gaps": 4, "radar_collect_socket_drops_total": 5,
		"radar_collect_events_total{metric='flow_path'}":          float64(w.Engine.Counts.Events[metrics.FlowPath]),
		"radar_collect_events_total{metric='hop_latency'}":        float64(w.Engine.Counts.Events[metrics.HopLatency]),
		"radar_output_written_total{output='http'}":               float64(len(w.Events)),
		"radar_output_dropped_total{output='http',kind='event'}":  0,
		"radar_output_dropped_total{output='http',kind='value'}":  7,
		"radar_http_listeners":                                    0,
		"radar_int_series_left_out":                               0,
		"count(radar_int_hop_latency_seconds_count) or vector(0)": 0, // no classic series where native ones are taken
	} {
		got := p.ask(name)
		if len(got) != 1 {
			t.Errorf("%s: %v", name, got)
		}
		for _, n := range got {
			if n != want {
				t.Errorf("%s is %v, want %v", name, n, want)
			}
		}
	}
}

// TestExpositionBounded: nodes that anyone may invent do not make ever more series.
func TestExpositionBounded(t *testing.T) {
	t.Parallel()
	var l sinktest.Log
	s, address := newServer(t, &l)
	w := sinktest.NewWorld(t, s).Start(0)
	for id := range uint32(reported.MostSeries + 10) {
		w.Add(&metrics.Report{At: 1, Hops: []metrics.Hop{{
			Has: metrics.HasNode | metrics.HasLatency | metrics.HasUtilization, Node: id, LatencyNs: 1000, Utilization: 7,
		}}}, nil)
	}
	code, text := servers.Get(t, address+"/metrics")
	lines := strings.Split(text, "\n")
	count := func(prefix string) (n int) {
		for _, line := range lines {
			if strings.HasPrefix(line, prefix) {
				n++
			}
		}
		return n
	}
	if n := count("radar_int_hop_latency_seconds_count{"); n != mostNodes+1 {
		t.Errorf("%d histograms, code %d", n, code)
	}
	if n := count("radar_int_link_utilization{"); n != reported.MostSeries {
		t.Errorf("%d gauges", n)
	}
	for _, want := range []string{
		`radar_int_series_left_out{domain="d"} 10`,
		fmt.Sprintf(`radar_int_hop_latency_seconds_count{domain="d",node="other",node_id=""} %d`, reported.MostSeries+10-mostNodes),
	} {
		if !slices.Contains(lines, want) {
			t.Errorf("no %s", want)
		}
	}
}

// BenchmarkObserve is what a hop costs with /metrics.
func BenchmarkObserve(b *testing.B) {
	s, err := ListenReports("0", nil, "d", sinktest.OddName, fault.Face{}, (&sinktest.Log{}).Logger())
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	b.ReportAllocs()
	n := uint64(0)
	for b.Loop() {
		n++
		s.Observe(2, uint32(n%6), 1000+n%4096*100)
	}
}
