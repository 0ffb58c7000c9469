// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"encoding/binary"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/cli/clitest"
	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/store"
	"github.com/vnetradar/radar/pkg/vnet/topo"
)

// kinds counts lines by their kind and metric.
func kinds(t *testing.T, text string) map[string]int {
	t.Helper()
	n := make(map[string]int)
	for _, l := range clitest.Lines(t, text) {
		kind, _ := l["kind"].(string)
		metric, _ := l["metric"].(string)
		n[kind+" "+metric]++
	}
	return n
}

// TestCollectJSON: a file's events, and all values at its end, whatever its reports' age, to a
// file, which grows, and to standard output, where nothing else is.
func TestCollectJSON(t *testing.T) {
	t.Setenv("RADAR_STATE_DIR", t.TempDir())
	path := filepath.Join(t.TempDir(), "out.jsonl")
	args := []string{"collect", "-r", clitest.ReportsFile(t), "--node", "1=leaf1"}
	shown, _, _ := clitest.Radar(t, append(args, "--show", "events", "-o", "json")...)
	stdout, stderr, code := clitest.Radar(t, append(args, "--json", path, "-o", "json")...)
	if code != kit.ExitOK || !strings.Contains(stdout, `"epoch"`) {
		t.Fatalf("code %d, %s%s", code, stdout, stderr)
	}
	info, err := store.Load("default")
	if err != nil {
		t.Fatal(err)
	}
	if stat, err := os.Stat(path); err != nil || stat.Mode().Perm() != 0o600 {
		t.Errorf("others may read the file: %v, %v", stat.Mode(), err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	events, values := 0, 0
	for what, n := range kinds(t, string(b)) {
		if strings.HasPrefix(what, "event ") {
			events += n
		} else {
			values += n
		}
	}
	if uint64(events) != info.Metrics.Events.Sum() || events != strings.Count(shown, "\n") || events == 0 || values == 0 || !strings.Contains(string(b), `"node":"leaf1","node_id":1`) {
		t.Errorf("%d events of %+v, %d values", events, info.Metrics, values)
	}
	stdout, stderr, code = clitest.Radar(t, append(args, "--json", "-", "-o", "json")...)
	if diff := cmp.Diff(kinds(t, string(b)), kinds(t, stdout)); diff != "" || code != kit.ExitOK || !strings.Contains(stderr, "10 datagrams") {
		t.Errorf("code %d, %s%s", code, stderr, diff)
	}
	clitest.Radar(t, append(args, "--json", path, "--snapshot", "0", "--show", "events")...)
	again, err := os.ReadFile(path)
	if err != nil || strings.Count(string(again), "\n") != 2*events+values {
		t.Errorf("%v, %d lines after two runs", err, strings.Count(string(again), "\n"))
	}
}

// TestCollectHTTP: what comes by UDP reaches a listener, /values and /metrics; InfluxDB that is
// not there disturbs nobody, and is said at the end.
func TestCollectHTTP(t *testing.T) {
	n := nstest.New(t, "c")
	need.Programs(t, "curl")
	n.Run("c", "ip", "link", "set", "lo", "up")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	within := func(name string, args ...string) *exec.Cmd {
		return exec.Command("nsenter", append([]string{"--net=" + n.Path("c"), name}, args...)...)
	}
	collector := within(self, "collect", "--http", "9432", "--http-host", "radar.example", "--influx", "http://u:word@127.0.0.1:9/?db=radar", "--snapshot", "100ms")
	collector.Env = append(os.Environ(), "RADAR_STATE_DIR="+t.TempDir(), clitest.ExecEnv+"=1")
	clitest.Await(t, collector, "collecting at")
	ask := func(path string) string {
		out, err := within("curl", "-sf", "127.0.0.1:9432"+path).Output()
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		return string(out)
	}
	for host, want := range map[string]string{"radar.example": "200", "evil.example": "421"} {
		out, err := within("curl", "-s", "-o", os.DevNull, "-w", "%{http_code}", "-H", "Host: "+host, "127.0.0.1:9432/metrics").Output()
		if err != nil || string(out) != want {
			t.Errorf("Host: %s: code %s, want %s, %v", host, out, want, err)
		}
	}
	listener := within("curl", "-sN", "127.0.0.1:9432/events")
	heard := filepath.Join(t.TempDir(), "heard")
	file, err := os.Create(heard)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	listener.Stdout = file
	if err := listener.Start(); err != nil {
		t.Fatal(err)
	}
	nstest.Cleanup(t, func() { _ = listener.Process.Kill(); _ = listener.Wait() })
	nstest.WaitFor(t, "curl to listen", func() bool { return strings.Contains(ask("/metrics"), "radar_http_listeners 1") })
	spec, err := topo.ParseSpec(n.Spec("c"))
	if err != nil {
		t.Fatal(err)
	}
	if err := spec.Do(func() error {
		conn, err := net.Dial("udp", "127.0.0.1:32766")
		if err != nil {
			return err
		}
		defer conn.Close()
		for _, name := range clitest.ReportFrames {
			b := clitest.FrameBytes(t, name)[14:]
			if _, err := conn.Write(b[int(b[0]&15)*4+8 : binary.BigEndian.Uint16(b[2:])]); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	nstest.WaitFor(t, "all reports", func() bool {
		return strings.Contains(ask("/metrics"), "\nradar_collect_datagrams_total{domain=\"default\"} 10\n")
	})
	nstest.WaitFor(t, "values of all metrics", func() bool { return len(kinds(t, ask("/values"))) == 6 }) // they may be a second old
	for _, want := range []string{`radar_int_hop_latency_seconds_count{domain="default",node="int-4",node_id="4"} 1`, `radar_collect_events_total{domain="default",metric="flow_path"}`} {
		if text := ask("/metrics"); !strings.Contains(text, want) {
			t.Errorf("no %s in %s", want, text)
		}
	}
	clitest.Interrupt(t, collector)
	if err := listener.Wait(); err != nil { // the stream ends, with all in it
		t.Error(err)
	}
	b, err := os.ReadFile(heard)
	if err != nil {
		t.Fatal(err)
	}
	var metrics []string
	for line := range strings.Lines(string(b)) {
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			var event struct{ Kind, Metric string }
			if err := json.Unmarshal([]byte(data), &event); err != nil || event.Kind != "event" {
				t.Fatal(err, line)
			}
			metrics = append(metrics, event.Metric)
		}
	}
	if slices.Sort(metrics); len(slices.Compact(metrics)) != 6 {
		t.Errorf("heard %s", b)
	}
	said, err := os.ReadFile(collector.Stderr.(*os.File).Name())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"serving http://127.0.0.1:9432/, with /metrics", "InfluxDB does not take points", "radar: --influx did not take"} {
		if !strings.Contains(string(said), want) {
			t.Errorf("no %q in %s", want, said)
		}
	}
	if strings.Contains(string(said), "word") {
		t.Errorf("it shows a password: %s", said)
	}
}

func TestCollectOutRefuses(t *testing.T) {
	t.Setenv("RADAR_STATE_DIR", t.TempDir())
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"--snapshot -1s", kit.ExitUsage, "use 0, or at least 100ms"},
		{"--snapshot 1us", kit.ExitUsage, "use 0, or at least 100ms"},
		{"--json - --show events", kit.ExitUsage, "use one of them"},
		{"--json /nowhere/x", kit.ExitFailure, "no such file"},
		{"--http 70000", kit.ExitFailure, "invalid port"},
		{"--http 192.0.2.1:80", kit.ExitFailure, "cannot assign"},
		{"--influx 127.0.0.1:8086", kit.ExitUsage, "use http://HOST:PORT/?db=NAME"},
		{"--influx http://127.0.0.1:8086", kit.ExitUsage, "name a database"},
		{"--http-host a.example", kit.ExitUsage, "--http-host is about --http"},
		{"--forget --http 1", kit.ExitUsage, "--forget and --http"},
	} {
		_, stderr, code := clitest.Radar(t, append([]string{"collect", "-r", clitest.ReportsFile(t)}, strings.Fields(c.args)...)...)
		if strings.Contains(c.args, "--forget") {
			_, stderr, code = clitest.Radar(t, append([]string{"collect"}, strings.Fields(c.args)...)...)
		}
		if code != c.code || !strings.Contains(stderr, c.want) {
			t.Errorf("%s: code %d, %s", c.args, code, stderr)
		}
	}
}
