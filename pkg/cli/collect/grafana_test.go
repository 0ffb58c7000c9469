// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"encoding/json"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/lab/test/servers"
	"github.com/vnetradar/radar/pkg/cli/clitest"
)

// grafanaDir has the dashboards, and what brings servers for them.
const grafanaDir = "../../../docs/grafana"

// dashboard is what a test needs of one.
type dashboard struct {
	UID        string
	Templating struct {
		List []struct{ Name, Type, Query string }
	}
	Panels []struct {
		Title, Type string
		Targets     []struct{ Expr, Query string }
	}
}

// queries are all of a dashboard, by panel, and that of its variable of nodes.
func (d *dashboard) queries(t *testing.T) (list map[string][]string, nodes string) {
	t.Helper()
	list = make(map[string][]string)
	for _, p := range d.Panels {
		for _, q := range p.Targets {
			list[p.Title] = append(list[p.Title], q.Expr+q.Query)
		}
		if p.Type != "row" && len(list[p.Title]) == 0 {
			t.Errorf("%s: panel %q asks nothing", d.UID, p.Title)
		}
	}
	for _, v := range d.Templating.List {
		if v.Name == "node" && v.Type == "query" {
			nodes = v.Query
		}
	}
	if len(list) < 5 || nodes == "" {
		t.Fatalf("%s: %d panels with queries, nodes by %q", d.UID, len(list), nodes)
	}
	return list, nodes
}

func loadDashboard(t *testing.T, uid string) *dashboard {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(grafanaDir, "dashboards", uid+".json"))
	if err != nil {
		t.Fatal(err)
	}
	d := &dashboard{}
	if err := json.Unmarshal(b, d); err != nil || d.UID != uid {
		t.Fatal(d.UID, err)
	}
	return d
}

// filled is a query with Grafana's variables as Grafana would fill them in. Nobody may be left.
func filled(t *testing.T, query string) string {
	t.Helper()
	query = strings.NewReplacer("$__rate_interval", "5m", "$__interval", "10s", "$timeFilter", "time > now() - 1h", "$node", ".*").Replace(query)
	if left := regexp.MustCompile(`\$\w+|\[\[`).FindString(strings.ReplaceAll(query, "$/", "")); left != "" {
		t.Errorf("no value for %s in %s", left, query)
	}
	return query
}

// TestGrafana: every query of the dashboards finds data in a real Prometheus that scrapes a collector,
// as docs/grafana sets it up, and in a real InfluxDB that the collector writes to.
func TestGrafana(t *testing.T) {
	prometheus, influx, metrics := servers.Free(t), servers.Free(t), servers.Free(t)
	_, port, _ := strings.Cut(servers.Free(t), ":")
	servers.Serve(t, "http://"+influx+"/ping", "influxd", servers.InfluxDB(t, influx, false)...)
	collectReports(t, port, "--http", metrics, "--influx", "http://"+influx+"/?db=radar", "--snapshot", "1s")
	b, err := os.ReadFile(filepath.Join(grafanaDir, "prometheus.yml"))
	if err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(t.TempDir(), "prometheus.yml")
	if strings.Count(string(b), "127.0.0.1:8480") != 1 {
		t.Fatalf("who is scraped? %s", b)
	}
	if err := os.WriteFile(config, []byte(strings.Replace(string(b), "127.0.0.1:8480", metrics, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	native := servers.Free(t)
	for address, more := range map[string][]string{prometheus: nil, native: {"--enable-feature=native-histograms"}} {
		servers.Serve(t, "http://"+address+"/-/ready", "prometheus", append([]string{
			"--config.file=" + config, "--storage.tsdb.path=" + t.TempDir(), "--web.listen-address=" + address,
		}, more...)...)
	}
	t.Run("classic", func(t *testing.T) { askPrometheus(t, prometheus, metrics) })
	t.Run("native", func(t *testing.T) { askPrometheus(t, native, metrics) })
	t.Run("influxdb", func(t *testing.T) { askInflux(t, influx) })
}

// collectReports runs a collector at a UDP port, and something that sends it reports with all there is.
func collectReports(t *testing.T, port string, args ...string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("RADAR_STATE_DIR", t.TempDir())
	env := append(os.Environ(), clitest.ExecEnv+"=1")
	collector := exec.Command(self, append([]string{
		"collect", "--listen", "127.0.0.1", "--port", port, "--source", "127.0.0.1=spec-2.1,clock=shared", "--congested", "500", "--node", "1=leaf1,2=spine2",
	}, args...)...)
	collector.Env = env
	clitest.Await(t, collector, "collecting at")
	sender := exec.Command(self, "collect", "generate", "--to", "127.0.0.1:"+port, "--count", "0", "--rate", "50", "--drops", "0.05", "--gap-every", "100")
	sender.Env = env
	if err := sender.Start(); err != nil {
		t.Fatal(err)
	}
	nstest.Cleanup(t, func() { _ = sender.Process.Kill(); _ = sender.Wait() })
}

// result is what Prometheus answers.
type result struct {
	Status, Error string
	Data          json.RawMessage
}

func prometheusAsk(t *testing.T, address, path string, q url.Values) (r result, n int) {
	t.Helper()
	_, text := servers.Get(t, "http://"+address+path+"?"+q.Encode())
	if err := json.Unmarshal([]byte(text), &r); err != nil || r.Status != "success" {
		t.Fatalf("%s: %v, %s", q.Encode(), err, text)
	}
	var list []json.RawMessage
	var answer struct{ Result []json.RawMessage }
	if json.Unmarshal(r.Data, &list) == nil {
		return r, len(list)
	}
	if err := json.Unmarshal(r.Data, &answer); err != nil {
		t.Fatal(err)
	}
	return r, len(answer.Result)
}

// askPrometheus asks every query of the dashboard, and holds the names in it against what the
// collector serves.
func askPrometheus(t *testing.T, address, metrics string) {
	names := regexp.MustCompile(`radar_\w+`)
	_, served := servers.Get(t, "http://"+metrics+"/metrics")
	known := make(map[string]bool)
	for _, name := range names.FindAllString(served, -1) {
		known[name] = true
	}
	list, nodes := loadDashboard(t, "radar-prometheus").queries(t)
	for title, queries := range list {
		for _, query := range queries {
			for _, name := range names.FindAllString(query, -1) {
				if !known[name] {
					t.Fatalf("%s: the collector has no %s", title, name)
				}
			}
			query = filled(t, query)
			nstest.WaitFor(t, title+" to have data: "+query, func() bool {
				_, n := prometheusAsk(t, address, "/api/v1/query", url.Values{"query": {query}})
				return n > 0
			})
		}
	}
	found := regexp.MustCompile(`^label_values\((.+), (\w+)\)$`).FindStringSubmatch(nodes)
	if found == nil {
		t.Fatalf("nodes by %q", nodes)
	}
	if r, n := prometheusAsk(t, address, "/api/v1/label/"+found[2]+"/values", url.Values{"match[]": {found[1]}}); n < 3 {
		t.Errorf("%d nodes by %s: %s", n, nodes, r.Data)
	}
}

// askInflux asks every query of the dashboard of InfluxDB.
func askInflux(t *testing.T, address string) {
	rows := func(query string) (n int) {
		_, text := servers.Get(t, "http://"+address+"/query?"+url.Values{"q": {query}, "db": {"radar"}}.Encode())
		var answer struct {
			Error   string
			Results []struct {
				Error  string
				Series []struct{ Values [][]any }
			}
		}
		if err := json.Unmarshal([]byte(text), &answer); err != nil || answer.Error != "" {
			t.Fatalf("%s: %v, %s", query, err, text)
		}
		for _, r := range answer.Results {
			if r.Error != "" && !strings.Contains(r.Error, "database not found") { // the collector makes it
				t.Fatalf("%s: %s", query, r.Error)
			}
			for _, s := range r.Series {
				n += len(s.Values)
			}
		}
		return n
	}
	list, nodes := loadDashboard(t, "radar-influxdb").queries(t)
	list["nodes"] = []string{nodes}
	for title, queries := range list {
		for _, query := range queries {
			query = filled(t, query)
			nstest.WaitFor(t, title+" to have data: "+query, func() bool { return rows(query) > 0 })
		}
	}
}

// TestGrafanaFiles: what compose.yaml mounts is there, all listen at 127.0.0.1, and images are named
// without a registry; dashboards ask the servers that are provided.
func TestGrafanaFiles(t *testing.T) {
	var compose struct {
		Services map[string]struct {
			Image   string
			Network string `yaml:"network_mode"`
			Volumes []string
		}
		Volumes map[string]any
	}
	read := func(name string, to any) {
		b, err := os.ReadFile(filepath.Join(grafanaDir, name))
		if err == nil {
			err = yaml.Unmarshal(b, to)
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	read("compose.yaml", &compose)
	if len(compose.Services) != 3 {
		t.Errorf("%d services", len(compose.Services))
	}
	for name, s := range compose.Services {
		if first, _, ok := strings.Cut(s.Image, "/"); ok && strings.ContainsAny(first, ".:") || s.Image == "" || s.Network != "host" {
			t.Errorf("%s: image %q, network %q", name, s.Image, s.Network)
		}
		for _, v := range s.Volumes {
			from, _, _ := strings.Cut(v, ":")
			_, named := compose.Volumes[from]
			if _, err := os.Stat(filepath.Join(grafanaDir, from)); err != nil && !named {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	var sources struct {
		Datasources []struct{ Type, URL string }
	}
	read("provisioning/datasources/radar.yaml", &sources)
	types := make(map[string]bool)
	for _, s := range sources.Datasources {
		types[s.Type] = strings.HasPrefix(s.URL, "http://127.0.0.1:")
	}
	var provided struct {
		Providers []struct {
			Options struct{ Path string }
		}
	}
	read("provisioning/dashboards/radar.yaml", &provided)
	if len(provided.Providers) != 1 || !slices.Contains(compose.Services["grafana"].Volumes, "./dashboards:"+provided.Providers[0].Options.Path+":ro") {
		t.Errorf("dashboards: %+v", provided)
	}
	files, err := filepath.Glob(filepath.Join(grafanaDir, "dashboards", "*.json"))
	if err != nil || len(files) != 3 {
		t.Fatalf("%d dashboards, %v", len(files), err)
	}
	for _, file := range files {
		d := loadDashboard(t, strings.TrimSuffix(filepath.Base(file), ".json"))
		if v := d.Templating.List[0]; v.Name != "datasource" || !types[v.Query] {
			t.Errorf("%s asks %+v", d.UID, v)
		}
	}
}
