// SPDX-License-Identifier: Apache-2.0

package serve_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/cli/clitest"
	"github.com/vnetradar/radar/pkg/cli/kit"
)

// listen calls fn for each event until it returns false, or the test ends.
func (s *server) listen(ctx context.Context, path string, fn func(kind, data string) bool) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.address+path, nil)
	if err != nil {
		return err
	}
	response, err := (&http.Client{Transport: &http.Transport{}}).Do(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	kind := ""
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ": ")
		switch name {
		case "event":
			kind = value
		case "data":
			if !fn(kind, value) {
				return nil
			}
		}
	}
	return lines.Err()
}

// TestEvents: packets, losses and loads come as they happen, and have what the command line has.
func TestEvents(t *testing.T) {
	w := clitest.NewWorld(t)
	w.In("r1", "nft", "add table t; add chain t f { type filter hook forward priority 0; }; add rule t f udp dport 9999 drop")
	w.Radar(kit.ExitOK, append([]string{"attach", "-d"}, w.Lab.AttachArgs()...)...)
	s := serve(t, "--listen", "0")
	ctx, cancel := context.WithTimeout(t.Context(), clitest.Patience)
	defer cancel()
	var mu sync.Mutex
	ids, sums := map[string]map[string]bool{"packet": {}, "loss": {}}, map[string]float64{}
	loads := make(chan struct{}, 1000)
	ended := make(chan error, 1)
	go func() {
		ended <- s.listen(ctx, "/api/v1/domains/"+w.Domain+"/events?filter=udp&rate=1000", func(kind, data string) bool {
			mu.Lock()
			defer mu.Unlock()
			var v map[string]any
			if err := json.Unmarshal([]byte(data), &v); err != nil {
				t.Error(err, data)
			}
			switch kind {
			case "packet", "loss":
				ids[kind][v["id"].(string)] = true
				if kind == "loss" && v["why"] != "firewall rule" {
					t.Errorf("a loss does not say why in words: %s", data)
				}
			case "load":
				for _, field := range []string{"packets", "lost", "unsent", "bytes"} {
					sums[field] += v[field].(float64)
				}
				for _, l := range v["links"].([]any) {
					l := l.(map[string]any)
					sums[l["from"].(string)+" "+l["to"].(string)] += l["packets"].(float64)
				}
				loads <- struct{}{}
			}
			return true
		})
	}()
	<-loads // the feed follows
	w.In("h1", "python3", "-c", `import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for i in range(40): s.sendto(b"x", ("10.0.2.2", 53 if i % 2 else 9999))`)
	w.Ping(5)
	nstest.WaitFor(t, "all events", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(ids["packet"]) == 20 && len(ids["loss"]) == 20 && sums["lost"] == 20 && sums["h1/eth0 r1/eth0"] >= 45
	})
	cancel()
	<-ended
	mu.Lock()
	defer mu.Unlock()
	for _, r := range w.Packets("--proto", "udp", "--last", "0") {
		kind := map[bool]string{true: "loss", false: "packet"}[r.State == "lost"]
		if !ids[kind][r.ID] {
			t.Errorf("%s %s did not come", kind, r.ID)
		}
	}
	if totals := w.Status().Totals; sums["packets"] != float64(totals.Delivered+totals.Lost+totals.Left) || sums["bytes"] != float64(totals.Bytes) || sums["unsent"] != 0 {
		t.Errorf("loads have %v, status %+v", sums, totals)
	}
}

// TestEnds: that nothing more is measured is said at once, in the words of the command line and with what to do: an agent
// that was killed, a domain without nodes, one that was detached.
func TestEnds(t *testing.T) {
	w := clitest.NewWorld(t)
	w.Radar(kit.ExitOK, append([]string{"attach", "-d"}, w.Lab.AttachArgs()...)...)
	s := serve(t, "--listen", "0")
	ctx, cancel := context.WithTimeout(t.Context(), 2*clitest.Patience)
	defer cancel()
	heard := func(what string, wanted func(kind, data string) bool) {
		t.Helper()
		found := false
		err := s.listen(ctx, "/api/v1/domains/"+w.Domain+"/events?topic=load,event", func(kind, data string) bool {
			found = wanted(kind, data)
			return !found
		})
		if !found {
			t.Fatalf("%s was not said: %v", what, err)
		}
	}
	note := func(kind, text string) {
		t.Helper()
		heard(kind, func(_, data string) bool {
			var load struct{ Notes []struct{ Kind, Text string } }
			if err := json.Unmarshal([]byte(data), &load); err != nil {
				t.Fatal(err)
			}
			return slices.ContainsFunc(load.Notes, func(n struct{ Kind, Text string }) bool {
				return n.Kind == kind && strings.Contains(n.Text, text) && strings.HasSuffix(n.Text, " --domain "+w.Domain)
			})
		})
	}
	heard("nothing, while all is well", func(kind, data string) bool { return kind == "load" && !strings.Contains(data, "notes") })
	w.Kill()
	note("no_agent", "no agent runs: packets are recorded until the lease ends; go on with: radar attach -d")
	w.Radar(kit.ExitOK, "attach", "-d") // another agent
	if err := w.Lab.Down(); err != nil {
		t.Fatal(err)
	}
	heard("one cause, from the first second on", func(_, data string) bool {
		var load struct{ Notes []struct{ Kind, Text string } }
		if err := json.Unmarshal([]byte(data), &load); err != nil {
			t.Fatal(err)
		}
		for _, n := range load.Notes {
			if n.Kind != "no_nodes" || !strings.HasPrefix(n.Text, "no node is left: what was measured is still here; end the domain with: radar detach --domain ") {
				t.Errorf("%+v", n)
			}
		}
		return len(load.Notes) > 0
	})
	for name, args := range map[string][]string{"an answer": {"flows"}, "status": {"status"}} {
		if out := w.Radar(kit.ExitOK, args...); strings.Count(out, "no node is left") != 1 || strings.Contains(out, "no agent runs") || strings.Contains(out, "the agent cannot renew the lease since") {
			t.Errorf("%s: %s", name, out)
		}
	}
	var once sync.Once
	hint := "radar attach --domain " + w.Domain + " NODE..."
	heard("detached", func(kind, data string) bool {
		once.Do(func() { go w.Radar(kit.ExitOK, "detach", "--no-drain") })
		return kind == "event" && strings.Contains(data, `"detached"`) && strings.Contains(data, hint)
	})
	status, _, text := s.ask(http.MethodGet, "/api/v1/domains/"+w.Domain+"/topology", nil)
	if status != http.StatusNotFound || !strings.Contains(text, "is not attached (attach nodes with: "+hint+")") {
		t.Errorf("%d %s", status, text)
	}
}

// TestListeners: 200 listeners, and one that reads nothing, while packets pass: radar measures all of them, and the
// others hear all that there is to hear.
func TestListeners(t *testing.T) {
	const listeners, sent = 200, 20000
	w := clitest.NewWorld(t)
	w.Listen("h2", 53)
	w.Radar(kit.ExitOK, append([]string{"attach", "-d"}, w.Lab.AttachArgs()...)...)
	s := serve(t, "--listen", "0")
	path := "/api/v1/domains/" + w.Domain + "/events?rate=50"
	idle, err := http.Get(s.address + path) // it never reads
	if err != nil {
		t.Fatal(err)
	}
	defer idle.Body.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var ready, passed, got, over atomic.Int64
	var all sync.WaitGroup
	for range listeners {
		all.Go(func() {
			first, packets, counted := true, 0.0, 0.0
			err := s.listen(ctx, path, func(kind, data string) bool {
				if first {
					first = false
					ready.Add(1)
				}
				switch kind {
				case "packet":
					packets++
				case "missed":
					over.Add(1)
				case "load":
					var v struct{ Packets, Unsent float64 }
					if err := json.Unmarshal([]byte(data), &v); err != nil {
						t.Error(err)
					}
					counted += v.Packets
					if counted >= sent {
						passed.Add(1)
						got.Add(int64(packets))
						return false
					}
				}
				return true
			})
			if err != nil && ctx.Err() == nil {
				t.Error(err)
			}
		})
	}
	nstest.WaitFor(t, "all listeners to hear something", func() bool { return ready.Load() == listeners })
	before := w.Status().Totals
	w.In("h1", "python3", "-c", `import socket, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for i in range(20000):
    s.sendto(b"x" * 200, ("10.0.2.2", 53))
    if i % 100 == 99: time.sleep(0.01)`)
	nstest.WaitFor(t, "all listeners to hear of all packets", func() bool { return passed.Load() == listeners })
	cancel()
	all.Wait()
	w.Settled(before.Delivered + before.Lost + before.Left + sent)
	now := w.Status().Totals
	if now.Unread != before.Unread || now.NotMeasured != before.NotMeasured || now.Delivered-before.Delivered != sent {
		t.Errorf("not all packets were measured: %+v, before %+v", now, before)
	}
	if got.Load() == 0 || over.Load() > 0 {
		t.Errorf("%d packets came to %d listeners, %d missed some", got.Load(), listeners, over.Load())
	}
	var metrics string
	nstest.WaitFor(t, "listeners to be gone", func() bool {
		_, _, metrics = s.ask(http.MethodGet, "/metrics", nil)
		return strings.Contains(metrics, `radar_http_refused_total{what="listener"} 0`)
	})
}
