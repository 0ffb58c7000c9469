// SPDX-License-Identifier: Apache-2.0

package serve_test

import (
	"context"
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

	"github.com/google/go-cmp/cmp"

	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/lab/test/servers"
	"github.com/vnetradar/radar/pkg/cli/clitest"
	"github.com/vnetradar/radar/pkg/cli/kit"
)

// TestSchemathesis: what the OpenAPI document says holds for requests that a program makes up: no server error, no
// status, header or body that is not described, and nothing accepted that is not allowed.
func TestSchemathesis(t *testing.T) {
	program := servers.Module(t, "schemathesis", "schemathesis.cli")
	w := measured(t)
	s := serve(t, "--listen", "0")
	// Requests that are allowed may still be refused: an address is more than a text. The names of domains are made
	// up, but for that of the examples.
	config := filepath.Join(t.TempDir(), "schemathesis.toml")
	text := fmt.Sprintf("[parameters]\n\"path.domain\" = %q\n", w.Domain)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*clitest.Patience)
	defer cancel()
	// Bodies with intents are read as files of intents are: more than the schema says is allowed, such as one value
	// in place of a list.
	texts := []string{"add-intent", "put-intent", "apply-intents", "set-int-config", "patch-int-config", "set-int-topology"}
	most, rest := []string{"--exclude-checks", "positive_data_acceptance", "--exclude-operation-id", "events"}, []string{"--exclude-checks", "positive_data_acceptance,negative_data_rejection"}
	for _, id := range texts {
		most, rest = append(most, "--exclude-operation-id", id), append(rest, "--include-operation-id", id)
	}
	for _, more := range [][]string{most, rest} {
		args := append(slices.Clone(program), "--config-file", config, "run", s.address+"/api/v1/openapi.json", "--header", "Authorization: Bearer "+s.token(),
			"--max-examples", "5", "--seed", "1", "--phases", "examples,fuzzing", "--suppress-health-check", "all", "--workers", "1", "--no-color")
		args = append(args, more...)
		cmd := exec.CommandContext(ctx, args[0], args[1:]...)
		cmd.Dir = t.TempDir() // it keeps what it has found there
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out[max(0, len(out)-6000):])
		}
		if !strings.Contains(string(out), " passed") {
			t.Errorf("nothing was tried: %s", out)
		}
	}
}

// TestPrometheus: Prometheus gets radar's own measurement, with histograms that say what radar latency says.
func TestPrometheus(t *testing.T) {
	servers.Program(t, "prometheus")
	w := measured(t)
	s := serve(t, "--listen", "0")
	dir := t.TempDir()
	config := filepath.Join(dir, "prometheus.yml")
	text := fmt.Sprintf("scrape_configs:\n- job_name: radar\n  scrape_interval: 15s\n  scrape_timeout: 15s\n  static_configs: [{targets: [%q]}]\n", strings.TrimPrefix(s.address, "http://"))
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	address := "http://" + servers.Free(t)
	servers.Serve(t, address+"/-/ready", "prometheus", "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address="+strings.TrimPrefix(address, "http://"), "--enable-feature=native-histograms")
	query := func(q string) map[string]float64 {
		_, text := servers.Get(t, address+"/api/v1/query?query="+url.QueryEscape(q))
		var answer struct {
			Data struct {
				Result []struct {
					Metric map[string]string
					Value  [2]any
				}
			}
		}
		if err := json.Unmarshal([]byte(text), &answer); err != nil {
			t.Fatal(err, text)
		}
		values := make(map[string]float64)
		for _, r := range answer.Data.Result {
			delete(r.Metric, "__name__")
			delete(r.Metric, "instance")
			delete(r.Metric, "job")
			if r.Metric["domain"] != w.Domain {
				t.Errorf("%s: of domain %q", q, r.Metric["domain"])
			}
			delete(r.Metric, "domain")
			labels, err := json.Marshal(r.Metric)
			if err != nil {
				t.Fatal(err)
			}
			number, err := strconv.ParseFloat(r.Value[1].(string), 64)
			if err != nil {
				t.Fatal(err)
			}
			values[string(labels)] = number
		}
		return values
	}
	nstest.WaitFor(t, "a scrape", func() bool { return len(query("radar_packets_total")) > 0 })
	totals := w.Status().Totals
	for q, want := range map[string]map[string]float64{
		"radar_packets_total > 0":                           {`{"outcome":"delivered"}`: float64(totals.Delivered), `{"outcome":"lost"}`: float64(totals.Lost)},
		"radar_bytes_total":                                 {`{}`: float64(totals.Bytes)},
		"radar_lost_packets_total":                          {`{"at":"node","node":"r1","port":"eth0","reason":"NETFILTER_DROP"}`: 20},
		"radar_agent_up":                                    {`{}`: 1},
		"radar_series_left_out":                             {`{}`: 0},
		"histogram_count(radar_end_to_end_latency_seconds)": {`{}`: float64(totals.Delivered)},
	} {
		if diff := cmp.Diff(want, query(q)); diff != "" {
			t.Errorf("%s: %s", q, diff)
		}
	}
	// Buckets are 9 % wide, and Prometheus supposes that values are spread evenly in them.
	for by, labels := range map[string]func(name string) map[string]string{
		"node": func(name string) map[string]string { return map[string]string{"node": name} },
		"link": func(name string) map[string]string {
			from, to, _ := strings.Cut(name, " > ")
			return map[string]string{"from": from, "to": to}
		},
	} {
		count, median := query("histogram_count(radar_"+by+"_latency_seconds)"), query("histogram_quantile(0.5, radar_"+by+"_latency_seconds)")
		rows := rowsOf(w, "latency", "--by", by)
		if len(rows) != len(count) || len(rows) == 0 {
			t.Errorf("%s: %v, radar %v", by, count, rows)
		}
		for _, row := range rows {
			row := row.(map[string]any)
			key, err := json.Marshal(labels(row["name"].(string)))
			if err != nil {
				t.Fatal(err)
			}
			p50 := row["p50_ns"].(float64) / 1e9
			if count[string(key)] != row["count"] || median[string(key)] < p50*0.85 || median[string(key)] > p50*1.15 {
				t.Errorf("%s: count %v, median %v; radar %v", key, count[string(key)], median[string(key)], row)
			}
		}
	}
	for name := range query(`{__name__=~"radar_agent_cpu_seconds_total|radar_agent_memory_bytes"} > 0`) {
		if name != "{}" {
			t.Errorf("cost of %s", name)
		}
	}
}

// TestCapture: a capture file with reports answers as `radar collect -r` of it does, beside what was collected.
func TestCapture(t *testing.T) {
	w := clitest.NewWorld(t)
	reports, err := os.ReadFile("../../../docs/reports.pcap")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "some reports.pcap")
	if err := os.WriteFile(file, reports, 0o600); err != nil {
		t.Fatal(err)
	}
	w.Radar(kit.ExitOK, "collect", "--all", "-r", file)
	s := serve(t, "--listen", "0", "-r", file)
	var list []map[string]any
	s.get("/api/v1/domains", &list)
	if len(list) != 2 || list[0]["name"] != "some-reports" || list[0]["source"] != "capture" || list[1]["source"] != "reports" {
		t.Fatalf("domains: %v", list)
	}
	for path, args := range map[string][]string{
		"paths": {"paths"}, "loss": {"loss"}, "flows": {"flows"}, "latency?by=node": {"latency", "--by", "node"}, "paths?proto=udp&last=5": {"paths", "--proto", "udp", "--last", "5"},
	} {
		want := rowsOf(w, args...)
		for _, of := range []string{"some-reports", w.Domain} {
			var got struct{ Rows []any }
			s.get("/api/v1/domains/"+of+"/"+path, &got)
			if diff := cmp.Diff(want, got.Rows); diff != "" || len(want) == 0 && path != "loss" {
				t.Errorf("%s of %s: %s", path, of, diff)
			}
		}
	}
	var topology struct {
		Nodes []struct{ Name, Class string }
		Links []struct{ Ends []struct{ Node string } }
	}
	s.get("/api/v1/domains/some-reports/topology?load=true", &topology)
	var paths struct {
		Rows []struct{ Hops []struct{ Node string } }
	}
	s.get("/api/v1/domains/some-reports/paths", &paths)
	nodes, links := make(map[string]bool), 0
	for _, row := range paths.Rows {
		for _, h := range row.Hops {
			nodes[h.Node] = true
		}
		links = max(links, len(row.Hops)-1)
	}
	for _, n := range topology.Nodes {
		if n.Class != "reported" || !nodes[n.Name] {
			t.Errorf("node %+v", n)
		}
	}
	if len(topology.Nodes) != len(nodes) || len(nodes) == 0 || len(topology.Links) < links || links == 0 {
		t.Errorf("topology %+v of paths %+v", topology, paths)
	}
	var packets struct{ Rows []map[string]any }
	s.get("/api/v1/domains/some-reports/packets?limit=1", &packets)
	var one struct{ Record map[string]any }
	s.get("/api/v1/domains/some-reports/packets/"+packets.Rows[0]["id"].(string), &one)
	if diff := cmp.Diff(packets.Rows[0], one.Record); diff != "" {
		t.Error(diff)
	}
}
