// SPDX-License-Identifier: Apache-2.0

package serve_test

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vnetradar/radar/pkg/cli/clitest"
	"github.com/vnetradar/radar/pkg/cli/kit"
)

// A recording is served as a domain of its name: with the rows that the command line has of it, its topology, and the
// stories of its packets.
func TestServeRecording(t *testing.T) {
	w := clitest.NewWorld(t)
	dir := filepath.Join(t.TempDir(), "run1")
	w.In("r1", "nft", "add table t; add chain t f { type filter hook forward priority 0; }; add rule t f udp dport 9999 drop")
	w.Radar(kit.ExitOK, append([]string{"attach", "-d", "--record", dir}, w.Lab.AttachArgs()...)...)
	w.Ping(10)
	w.In("h1", "bash", "-c", "for i in $(seq 5); do echo x >/dev/udp/10.0.2.2/9999; done")
	w.Settled(25)
	serve(t, "--listen", "0").oldest(w.Domain)
	w.Radar(kit.ExitOK, "detach")
	s := serve(t, "--listen", "0", "-r", dir)
	s.oldest("run1")
	var domains []struct {
		Name, Source, File string
		Nodes, Ports       int
	}
	s.get("/api/v1/domains", &domains)
	if len(domains) != 1 || domains[0].Name != "run1" || domains[0].Source != "recording" || domains[0].File != "run1" || domains[0].Nodes != 3 || domains[0].Ports != 4 {
		t.Fatalf("domains: %+v", domains)
	}
	for path, args := range map[string]string{
		"packets?limit=100": "packets --last 0", "paths": "paths", "loss": "loss", "flows?since=5m&src=h1": "flows --since 5m --src h1", "latency?by=link": "latency --by link",
	} {
		var got struct{ Rows []any }
		s.get("/api/v1/domains/run1/"+path, &got)
		for _, row := range got.Rows {
			delete(row.(map[string]any), "why") // which the command line says in its tables
		}
		want := rowsOf(w, append(strings.Fields(args), "-r", dir)...)
		if diff := cmp.Diff(want, got.Rows); diff != "" || len(want) == 0 {
			t.Errorf("%s: %d rows, -command line +API:\n%.2000s", path, len(want), diff)
		}
	}
	var topology struct {
		Nodes []struct {
			Ports []struct {
				Addresses []string
				State     string
			}
		}
	}
	s.get("/api/v1/domains/run1/topology?load=true", &topology)
	if len(topology.Nodes) != 3 || len(topology.Nodes[0].Ports) != 1 || topology.Nodes[0].Ports[0].State != "up" || len(topology.Nodes[0].Ports[0].Addresses) == 0 {
		t.Errorf("topology: %+v", topology)
	}
	lost := w.Packets("--state", "lost", "--last", "1", "-r", dir)
	var packet struct{ Story []string }
	s.get("/api/v1/domains/run1/packets/"+lost[0].ID, &packet)
	if !strings.Contains(strings.Join(packet.Story, "\n"), "NETFILTER_DROP") {
		t.Errorf("story: %q", packet.Story)
	}
	if code, _, text := s.ask(http.MethodGet, "/api/v1/domains/run1/paths?node=r9", nil); code != http.StatusUnprocessableEntity || !strings.Contains(text, "its nodes are h1, r1, h2") {
		t.Errorf("an unknown node: %d %s", code, text)
	}
}

// oldest checks that the first packets of a domain can be asked for, as the last can.
func (s *server) oldest(domain string) {
	s.Helper()
	var all, first, last struct{ Rows []struct{ ID string } }
	s.get("/api/v1/domains/"+domain+"/packets", &all)
	s.get("/api/v1/domains/"+domain+"/packets?limit=3&oldest=true", &first)
	s.get("/api/v1/domains/"+domain+"/packets?limit=3", &last)
	n := len(all.Rows)
	if n < 10 {
		s.Fatalf("%s has %d packets", domain, n)
	}
	if diff := cmp.Diff(all.Rows[:3], first.Rows) + cmp.Diff(all.Rows[n-3:], last.Rows); diff != "" {
		s.Errorf("%s: of %d packets -the outermost +got:\n%s", domain, n, diff)
	}
}
