// SPDX-License-Identifier: Apache-2.0

package serve_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/lab/test/servers"
	"github.com/vnetradar/radar/pkg/cli/clitest"
	"github.com/vnetradar/radar/pkg/cli/kit"
)

// grafanaDir has the dashboards, and what brings servers for them.
const grafanaDir = "../../../docs/grafana"

// grafanaFile is one of its files, in which some texts, each of which it has, are others.
func grafanaFile(t *testing.T, name string, others map[string]string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(grafanaDir, name))
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	for old, other := range others {
		if !strings.Contains(text, old) {
			t.Fatalf("%s has no %q", name, old)
		}
		text = strings.ReplaceAll(text, old, other)
	}
	return text
}

// TestAlertRules: what the alerts say of made-up numbers.
func TestAlertRules(t *testing.T) {
	cmd := exec.Command(servers.Program(t, "promtool"), "test", "rules", "rules_test.yml")
	cmd.Dir = grafanaDir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestNetworks: a real Prometheus, as docs/grafana sets it up, finds data for every query of the dashboard of virtual
// networks, and the alerts of losses, of slow packets and of an agent that was killed fire.
func TestNetworks(t *testing.T) {
	servers.Program(t, "prometheus")
	w := clitest.NewWorld(t)
	w.In("r1", "nft", "add table t; add chain t f { type filter hook forward priority 0; }; add rule t f udp dport 9999 drop")
	w.In("r1", "tc", "qdisc", "add", "dev", "eth1", "root", "tbf", "rate", "5mbit", "burst", "5k", "limit", "200k")
	w.Listen("h2", 53)
	w.Radar(kit.ExitOK, append([]string{"attach", "-d"}, w.Lab.AttachArgs()...)...)
	traffic := w.Lab.Command(t.Context(), "h1", "python3", "-c", `import socket, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
while True:
    for i in range(20): s.sendto(b"x" * 1000, ("10.0.2.2", (9999, 54, 53, 53)[i % 4]))
    time.sleep(0.2)`)
	if err := traffic.Start(); err != nil {
		t.Fatal(err)
	}
	nstest.Cleanup(t, func() { _ = traffic.Process.Kill(); _ = traffic.Wait() })
	s := serve(t, "--listen", "0")
	address := prometheusOf(t, strings.TrimPrefix(s.address, "http://"))
	askDashboard(t, address, w.Domain)
	firing := func(name, summary string) {
		t.Helper()
		said := ""
		nstest.WaitFor(t, name+" to fire", func() bool {
			_, said = servers.Get(t, address+"/api/v1/alerts")
			var answer struct {
				Data struct {
					Alerts []struct {
						State               string
						Labels, Annotations map[string]string
					}
				}
			}
			if err := json.Unmarshal([]byte(said), &answer); err != nil {
				t.Fatal(err, said)
			}
			for _, a := range answer.Data.Alerts {
				if a.Labels["alertname"] == name && a.State == "firing" && a.Labels["domain"] == w.Domain && strings.Contains(a.Annotations["summary"], summary) {
					return true
				}
			}
			return false
		})
	}
	firing("RadarLoss", "of domain "+w.Domain+" are lost at r1/eth0 (node): NETFILTER_DROP")
	firing("RadarSlow", "of domain "+w.Domain+" takes ")
	if _, said := servers.Get(t, address+"/api/v1/alerts"); strings.Contains(said, "RadarAgentGone") {
		t.Errorf("an agent that lives is gone: %s", said)
	}
	w.Kill()
	firing("RadarAgentGone", "Nothing measures domain "+w.Domain)
}

// prometheusOf is the address of a Prometheus that scrapes a server, and looks at the alerts without patience.
func prometheusOf(t *testing.T, target string) string {
	t.Helper()
	dir := t.TempDir()
	for name, others := range map[string]map[string]string{
		"prometheus.yml": {"127.0.0.1:8480": target, "scrape_interval: 5s": "scrape_interval: 1s", "scrape_timeout: 5s": "scrape_timeout: 1s", "evaluation_interval: 15s": "evaluation_interval: 1s"},
		"rules.yml":      {"for: 1m": "for: 0s", "for: 2m": "for: 0s", "> 0.1\n": "> 0.000001\n"},
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(grafanaFile(t, name, others)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	address := servers.Free(t)
	servers.Serve(t, "http://"+address+"/-/ready", "prometheus", "--config.file="+filepath.Join(dir, "prometheus.yml"), "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address="+address, "--enable-feature=native-histograms")
	return "http://" + address
}

// askDashboard asks every query of the dashboard.
func askDashboard(t *testing.T, address, domain string) {
	t.Helper()
	var board struct {
		Templating struct {
			List []struct{ Type, Query string }
		}
		Panels []struct {
			Title, Type string
			Targets     []struct{ Expr string }
		}
	}
	text := grafanaFile(t, "dashboards/radar-networks.json", map[string]string{"$__rate_interval": "1m", "$domain": domain, "$node": ".*"})
	if err := json.Unmarshal([]byte(text), &board); err != nil {
		t.Fatal(err)
	}
	asked := 0
	for _, p := range board.Panels {
		for _, q := range p.Targets {
			asked++
			nstest.WaitFor(t, fmt.Sprintf("%s to have data: %s", p.Title, q.Expr), func() bool {
				_, text := servers.Get(t, address+"/api/v1/query?query="+url.QueryEscape(q.Expr))
				return strings.Contains(text, `"value":[`) && !strings.Contains(text, `"NaN"`)
			})
		}
		if p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("panel %q asks nothing", p.Title)
		}
	}
	if asked < 15 {
		t.Errorf("only %d queries", asked)
	}
	for _, v := range board.Templating.List {
		if v.Type != "query" {
			continue
		}
		found := regexp.MustCompile(`^label_values\((.+), (\w+)\)$`).FindStringSubmatch(v.Query)
		if found == nil {
			t.Fatal(v.Query)
		}
		_, text := servers.Get(t, address+"/api/v1/label/"+found[2]+"/values?match[]="+url.QueryEscape(found[1]))
		if !strings.Contains(text, `"success"`) || !strings.Contains(text, map[string]string{"domain": domain, "node": "r1"}[found[2]]) {
			t.Errorf("%s: %s", v.Query, text)
		}
	}
}
