// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/cli/clitest"
)

// serverWorld is a namespace with a collector, and radar's servers in it.
type serverWorld struct {
	*testing.T
	net *nstest.Net
	env []string
}

func (w *serverWorld) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command("nsenter", append([]string{"--net=" + w.net.Path("c"), name}, args...)...)
	cmd.Env = w.env
	return cmd
}

// ask returns the code and the body of an answer.
func (w *serverWorld) ask(url string, more ...string) (code, text string) {
	w.Helper()
	out, err := w.command("curl", append([]string{"-s", "--max-time", "30", "-w", "\n%{http_code}", url}, more...)...).Output()
	if err != nil { // or it is a stream that does not end
		w.Fatalf("%s: %v", url, err)
	}
	i := strings.LastIndexByte(string(out), '\n')
	return string(out[i+1:]), string(out[:i])
}

// values are the rows of an answer of /values of the API, by what they are of.
func (w *serverWorld) values(address string) map[string]any {
	w.Helper()
	code, text := w.ask(address + "/api/v1/domains/default/values")
	var answer struct{ Rows []map[string]any }
	if err := json.Unmarshal([]byte(text), &answer); err != nil || code != "200" {
		w.Fatalf("%s: %v, %s", code, err, text)
	}
	rows := make(map[string]any)
	for _, r := range answer.Rows {
		rows[fmt.Sprint(r["metric"], r["src"], r["node"], r["port"], r["queue"], r["to_node"])] = r
	}
	return rows
}

// TestCollectServer: the server that a collector starts is that of radar serve, with what is collected beside it, and
// radar serve has the same of the collector as soon as that has written it. Where other machines can reach it without
// TLS, nothing but what is collected is there.
func TestCollectServer(t *testing.T) {
	need.Programs(t, "curl")
	state := t.TempDir()
	w := &serverWorld{T: t, net: nstest.New(t, "c"), env: append(os.Environ(), "RADAR_STATE_DIR="+state, clitest.ExecEnv+"=1")}
	w.net.Run("c", "ip", "link", "set", "lo", "up")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	collector := w.command(self, "collect", "--http", "9432", "--node", "1=leaf1")
	clitest.Await(t, collector, "collecting at")
	open := w.command(self, "collect", "--domain", "other", "--port", "40000", "--http", "0.0.0.0:9433")
	clitest.Await(t, open, "collecting at")
	server := w.command(self, "serve", "--listen", "8480")
	clitest.Await(t, server, "the token")
	if out, err := w.command(self, "collect", "generate", "--to", "127.0.0.1:32766", "--count", "20").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	const live, plain, served = "127.0.0.1:9432", "127.0.0.1:9433", "127.0.0.1:8480"
	for _, address := range []string{live, served} {
		nstest.WaitFor(t, "reports at "+address, func() bool {
			_, text := w.ask(address + "/metrics")
			return strings.Contains(text, "\nradar_collect_reports_total{domain=\"default\"} 20\n") && strings.Contains(text, "radar_collect_up{domain=\"other\"} 1\n")
		})
	}
	nstest.WaitFor(t, "the same values at both", func() bool {
		return len(w.values(live)) > 0 && cmp.Equal(w.values(live), w.values(served))
	})
	for path, want := range map[string][3]string{ // at the collector's, at the open one, at radar serve
		"/":                                       {"200", "200", "200"},
		"/assets/page.js":                         {"200", "404", "200"},
		"/metrics":                                {"200", "200", "200"},
		"/values":                                 {"200", "200", "404"},
		"/values?metric=x":                        {"400", "400", "404"},
		"/api/v1/server":                          {"200", "404", "200"},
		"/api/v1/domains/default/collector":       {"200", "404", "200"},
		"/api/v1/domains/none/collector":          {"404", "404", "404"},
		"/api/v1/domains/none/values":             {"404", "404", "404"},
		"/api/v1/domains/default/paths":           {"200", "404", "200"},
		"/api/v1/domains/other/values/events":     {"404", "404", "404"},
		"/api/v1/domains/default/values?metric=x": {"422", "404", "422"},
		"/api/v1/domains/default/values/events?metric=x": {"422", "404", "422"},
	} {
		for i, address := range []string{live, plain, served} {
			if code, text := w.ask(address + path); code != want[i] {
				t.Errorf("%s%s: %s, want %s: %.200s", address, path, code, want[i], text)
			}
		}
	}
	for _, address := range []string{live, served} {
		if code, _ := w.ask(address+"/api/v1/domains/default/int/intents", "--json", "{}"); code != "401" {
			t.Errorf("%s: steering without a token: %s", address, code)
		}
		var info struct{ Counts struct{ Reports int } }
		if _, text := w.ask(address + "/api/v1/domains/default/collector"); json.Unmarshal([]byte(text), &info) != nil || info.Counts.Reports != 20 {
			t.Errorf("%s: %s", address, text)
		}
	}
	if _, text := w.ask(plain + "/metrics"); strings.Contains(text, `domain="default"`) {
		t.Errorf("the open server has another domain: %s", text)
	}
	heard, _ := w.command("curl", "-sN", "--max-time", "1", live+"/api/v1/domains/default/values/events?metric=flow_path", "-H", "Last-Event-ID: x").Output()
	if !strings.Contains(string(heard), `"metric":"flow_path"`) || strings.Contains(string(heard), `"metric":"hop_latency"`) {
		t.Errorf("events: %s", heard)
	}
	clitest.Interrupt(t, collector)
	clitest.Interrupt(t, open)
	said, err := os.ReadFile(collector.Stderr.(*os.File).Name())
	if err != nil || strings.Contains(string(said), "error gathering") {
		t.Errorf("the collector says %s, %v", said, err)
	}
	nstest.WaitFor(t, "radar serve to see that the collectors have ended", func() bool {
		_, text := w.ask(served + "/metrics")
		return strings.Contains(text, "radar_collect_up{domain=\"default\"} 0\n") && !strings.Contains(text, "radar_collect_reports_total{")
	})
	if _, text := w.ask(served + "/api/v1/domains/default/values"); !strings.Contains(text, "collector_ended") {
		t.Errorf("values of a collector that has ended: %s", text)
	}
	if err := os.WriteFile(filepath.Join(state, "reports", "other", "collector.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	nstest.WaitFor(t, "radar serve to say what cannot be read", func() bool {
		_, text := w.ask(served + "/metrics")
		return strings.Contains(text, "radar_collect_unreadable{domain=\"other\"} 1\n") && strings.Contains(text, "radar_collect_up{domain=\"default\"} 0\n")
	})
	clitest.Interrupt(t, server)
}
