// SPDX-License-Identifier: Apache-2.0

package serve_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/cli/clitest"
	"github.com/vnetradar/radar/pkg/cli/kit"
)

// measured is a domain with packets that arrived, were dropped by a rule, and after delivery.
func measured(t *testing.T) *clitest.World {
	t.Helper()
	w := clitest.NewWorld(t)
	w.In("r1", "nft", "add table t; add chain t f { type filter hook forward priority 0; }; add rule t f udp dport 9999 drop")
	w.Listen("h2", 53)
	w.Radar(kit.ExitOK, append([]string{"attach", "-d"}, w.Lab.AttachArgs()...)...)
	w.In("h1", "python3", "-c", `import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for port, n in (53, 30), (9999, 20), (7, 5):
    for i in range(n): s.sendto(bytes([i]) * 100, ("10.0.2.2", port))`)
	w.Ping(10)
	w.Settled(30 + 20 + 5 + 20 + uint64(unreachable(w)))
	return w
}

// unreachable is how many ICMP errors h2 has sent about the port where nobody listens.
func unreachable(w *clitest.World) int {
	n := 0
	nstest.WaitFor(w.T, "errors of h2", func() bool {
		n = len(w.Packets("--proto", "icmp", "--src", "10.0.2.2", "--last", "0"))
		return n > 10
	})
	return n - 10
}

// rowsOf are the rows that a command prints with -o json.
func rowsOf(w *clitest.World, args ...string) []any {
	w.Helper()
	stdout, stderr, code := clitest.Radar(w.T, append(args, "-o", "json")...)
	if code != kit.ExitOK {
		w.Fatalf("radar %v: %d %s", args, code, stderr)
	}
	rows := []any{}
	for dec := json.NewDecoder(strings.NewReader(stdout)); dec.More(); {
		var row any
		if err := dec.Decode(&row); err != nil {
			w.Fatal(err)
		}
		rows = append(rows, row)
	}
	return rows
}

// without removes a field, which time changes, from rows.
func without(rows []any, field string) []any {
	for _, row := range rows {
		delete(row.(map[string]any), field)
	}
	return rows
}

// TestQuestions: each question has the rows and notes of the command line.
func TestQuestions(t *testing.T) {
	w := measured(t)
	s := serve(t, "--listen", "0")
	for _, c := range []struct {
		path string
		args string
	}{
		{"paths", "paths"}, {"paths?dst=h2&proto=udp", "paths --dst h2 --proto udp"},
		{"loss", "loss"}, {"loss?by=flow", "loss --by flow"}, {"loss?after_delivery=true", "loss --after-delivery"}, {"loss?series=true", "loss --series"},
		{"flows?top=0", "flows --top 0"}, {"flows?sort=loss&top=1", "flows --sort loss --top 1"},
		{"flows?filter=" + url.QueryEscape("udp and dst port 53"), "flows udp and dst port 53"},
		{"paths?filter=" + url.QueryEscape("udp and dst host h2"), "paths udp and dst host h2"},
		{"latency", "latency"}, {"latency?by=node", "latency --by node"}, {"latency?by=queue", "latency --by queue"}, {"latency?by=link&series=true", "latency --by link --series"},
		{"latency?by=flow&top=2", "latency --by flow --top 2"}, {"latency?by=path&node=r1&state=delivered", "latency --by path --node r1 --state delivered"},
		{"throughput", "throughput"}, {"throughput?by=port", "throughput --by port"}, {"throughput?series=true&by=node", "throughput --series --by node"}, {"throughput?by=flow", "throughput --by flow"},
		{"packets?limit=7", "packets --last 7"}, {"packets?state=lost,expired&since=1h&limit=1000", "packets --state lost,expired --since 1h"},
		{"packets?src=h1,h2&src=10.0.9.0/24&last=4", "packets --src h1,h2,10.0.9.0/24 --last 4"}, {"packets?sport=1-65535&dport=53", "packets --sport 1-65535 --dport 53 --last 200"},
		{"paths?since=2020-01-01T00:00:00Z&until=0s", "paths --since 2020-01-01T00:00:00Z --until 0s"},
		{"packets?dport=1234", "packets --dport 1234"}, {"paths?dport=1234", "paths --dport 1234"},
	} {
		var got struct{ Rows, Notes []any }
		s.get("/api/v1/domains/"+w.Domain+"/"+c.path, &got)
		want := without(rowsOf(w, strings.Fields(c.args)...), "last_bps")
		checkWhys(w, c.args, got.Rows)
		if diff := cmp.Diff(want, without(without(got.Rows, "last_bps"), "why")); diff != "" || len(want) == 0 && c.path != "latency?by=queue" && !strings.HasSuffix(c.path, "1234") {
			t.Errorf("%s, %d rows of radar %s: %s", c.path, len(want), c.args, diff)
		}
		_, stderr, _ := clitest.Radar(t, append(strings.Fields(c.args), "-o", "json")...)
		for _, n := range got.Notes {
			if text := n.(map[string]any)["text"].(string); !strings.Contains(stderr, text) {
				t.Errorf("%s says %q, radar %s %q", c.path, text, c.args, stderr)
			}
		}
		if said := strings.Count(stderr, "\n"); said != len(got.Notes) {
			t.Errorf("%s has %d notes, radar %s says %q", c.path, len(got.Notes), c.args, stderr)
		}
	}
}

// checkWhys checks that rows of losses say why in the words that the command's table has.
func checkWhys(w *clitest.World, args string, rows []any) {
	w.Helper()
	if !strings.HasPrefix(args, "loss") {
		return
	}
	table, _, _ := clitest.Radar(w.T, strings.Fields(args)...)
	for _, row := range rows {
		why, _ := row.(map[string]any)["why"].(string)
		if why == "" || !strings.Contains(table, why) {
			w.Errorf("radar %s: a row says %q why, the table is\n%s", args, why, table)
		}
	}
}

// TestTopology: the topology is that of the command line, and so is the status as far as time does not change it.
func TestTopology(t *testing.T) {
	w := measured(t)
	s := serve(t, "--listen", "0")
	for path, args := range map[string][]string{"topology": {"topo"}, "topology?load=true": {"topo", "--load"}} {
		var got any
		s.get("/api/v1/domains/"+w.Domain+"/"+path, &got)
		if diff := cmp.Diff(rowsOf(w, args...), []any{got}); diff != "" {
			t.Errorf("%s: %s", path, diff)
		}
	}
	var got map[string]any
	s.get("/api/v1/domains/"+w.Domain+"/status", &got)
	want := rowsOf(w, "status")[0].(map[string]any)
	for _, changes := range []string{"lease", "cost"} {
		if got[changes] == nil {
			t.Errorf("status lacks %s", changes)
		}
		delete(got, changes)
		delete(want, changes)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("status: %s", diff)
	}
	var list []map[string]any
	s.get("/api/v1/domains", &list)
	if len(list) != 1 || list[0]["name"] != w.Domain || list[0]["nodes"] != 3.0 || list[0]["source"] != "ring" || list[0]["attached"] != true {
		t.Errorf("domains: %v", list)
	}
}

// TestPacket: a packet and its story are those of radar trace, its parts those of its hops; a histogram counts what
// the latency counts.
func TestPacket(t *testing.T) {
	w := measured(t)
	s := serve(t, "--listen", "0")
	for _, dport := range []string{"53", "9999"} {
		id := w.Packets("--dport", dport, "--last", "1")[0].ID
		var got struct {
			Record map[string]any
			Story  []any
			Parts  []struct {
				Place string
				Hop   int
				Ns    float64
			}
		}
		s.get("/api/v1/domains/"+w.Domain+"/packets/"+id, &got)
		want := rowsOf(w, "trace", id)[0].(map[string]any)
		if diff := cmp.Diff(want["story"], any(got.Story)); diff != "" {
			t.Errorf("port %s: %s", dport, diff)
		}
		delete(want, "story")
		if why, lost := got.Record["why"]; lost != (dport == "9999") || lost && why != "firewall rule" {
			t.Errorf("port %s: the record says %v why", dport, why)
		}
		delete(got.Record, "why")
		if diff := cmp.Diff(want, got.Record); diff != "" {
			t.Errorf("port %s: %s", dport, diff)
		}
		for _, p := range got.Parts {
			hop := want["hops"].([]any)[p.Hop].(map[string]any)
			if hop[p.Place+"_ns"] != p.Ns {
				t.Errorf("port %s: %+v is not of %v", dport, p, hop)
			}
		}
		if len(got.Parts) == 0 {
			t.Errorf("port %s: no parts", dport)
		}
	}
	for _, by := range []string{"node", "link", "end-to-end"} {
		for _, row := range rowsOf(w, "latency", "--by", by) {
			row := row.(map[string]any)
			var h struct {
				Count, Sum float64
				Buckets    []struct{ Ge, Le, Count float64 }
			}
			s.get(fmt.Sprintf("/api/v1/domains/%s/histogram?by=%s&name=%s", w.Domain, by, url.QueryEscape(row["name"].(string))), &h)
			n := 0.0
			for _, b := range h.Buckets {
				n += b.Count
			}
			if h.Count != row["count"] || n != h.Count || h.Buckets[0].Le < row["min_ns"].(float64) || h.Buckets[len(h.Buckets)-1].Ge > row["max_ns"].(float64) {
				t.Errorf("%s %v: histogram %+v", by, row, h)
			}
		}
	}
}
