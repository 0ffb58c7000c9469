// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/lab/test/servers"
	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/sink/sinktest"
	"github.com/vnetradar/radar/pkg/telemetry/metrics"
)

// Users of the machine, as whom tests ask. None need have an account.
const (
	root   = 0
	mallet = 4242
)

var sources atomic.Uint32

// dial connects as a user, from another address of the loopback each time.
func dial(t *testing.T, user int, url string) net.Conn {
	t.Helper()
	n := sources.Add(1)
	return nstest.DialAs(t, user, fmt.Sprintf("127.0.%d.%d", n>>8&0xff, n&0xff), strings.TrimPrefix(url, "http://"))
}

// fetch asks as a user, with a connection of its own. An answer that the
// server has cut, since a busy machine took too long for it, is asked for again.
func fetch(t *testing.T, user int, url string) (code int, text string) {
	t.Helper()
	nstest.WaitFor(t, "an answer", func() (whole bool) {
		code, text, whole = fetchOnce(t, user, url)
		return whole
	})
	return code, text
}

func fetchOnce(t *testing.T, user int, url string) (code int, text string, whole bool) {
	t.Helper()
	client := http.Client{Timeout: nstest.Patience, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(context.Context, string, string) (net.Conn, error) {
			return dial(t, user, url[:strings.LastIndex(url, "/")]), nil
		},
	}}
	response, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	b, err := io.ReadAll(response.Body)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, unix.ECONNRESET) {
		t.Fatal(err)
	}
	return response.StatusCode, string(b), err == nil
}

func (p *places) taken() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.held)
}

// TestIdleConnections: connections on which nothing is asked, or never all of it, lock nobody
// out, and a listener keeps its own.
func TestIdleConnections(t *testing.T) {
	t.Parallel()
	var l sinktest.Log
	s, address := newServer(t, &l)
	w := sinktest.NewWorld(t, s).Start(0)
	events := listen(t, address+"/events", "")
	for i := range 2 * mostConnections {
		conn := dial(t, mallet, address)
		if i%2 == 0 {
			fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
		}
	}
	if code, text := fetch(t, mallet, address+"/"); code != http.StatusOK {
		t.Errorf("code %d, %s", code, text)
	}
	// On a busy machine the server ends some connections by itself before all are there.
	if cut, denied := s.server.conns.counts(); denied != 0 || s.server.conns.taken() > mostConnections {
		t.Errorf("%d connections were taken, %d refused, %d are there", cut, denied, s.server.conns.taken())
	}
	w.Feed(1)
	if list := read(events.Body, 1); len(list) != 1 {
		t.Error("the listener's connection was taken")
	}
}

// large is a source whose values no socket's buffer holds.
type large struct{ *sinktest.World }

func (large) Rows(time.Time) []metrics.Row {
	rows := make([]metrics.Row, 100_000)
	for i := range rows {
		rows[i] = metrics.Row{Key: metrics.Key{Metric: metrics.QueueOccupancy, Node: uint32(i)}, Value: uint64(i)}
	}
	return rows
}

// TestSlowReaders: clients that ask for values and do not read them lock nobody out: neither
// another client, nor, after a moment, one of the same address.
func TestSlowReaders(t *testing.T) {
	t.Parallel()
	var l sinktest.Log
	s, address := newServer(t, &l)
	w := sinktest.NewWorld(t, s)
	w.Fan.Start(large{w}, 0)
	stall := func(user int) {
		before, _ := s.server.seats.counts()
		for i := range mostAnswers {
			fmt.Fprint(dial(t, user, address), "GET /values HTTP/1.1\r\nHost: localhost\r\n\r\n")
			nstest.WaitFor(t, "the request to be answered", func() bool {
				cut, _ := s.server.seats.counts()
				return cut > before || s.server.seats.taken() == i+1
			})
		}
	}
	stall(mallet)
	for range 2 { // each takes a place, and gives it back
		if code, text := fetch(t, root, address+"/values"); code != http.StatusOK || strings.Count(text, "\n") != 100_000 {
			t.Fatalf("another client: code %d, %d lines", code, strings.Count(text, "\n"))
		}
	}
	nstest.WaitFor(t, "an answer for the same client", func() bool {
		code, text := fetch(t, mallet, address+"/values")
		if code != http.StatusOK && code != http.StatusServiceUnavailable {
			t.Fatalf("code %d, %.100s", code, text)
		}
		return code == http.StatusOK && strings.Count(text, "\n") == 100_000
	})
	if _, text := servers.Get(t, address+"/metrics"); !strings.Contains(text, `radar_http_taken_total{what="answer"}`) {
		t.Error("what was taken is not counted")
	}
}

// TestListenersOfOneClient: a client that holds all places of /events makes room for another.
func TestListenersOfOneClient(t *testing.T) {
	t.Parallel()
	var l sinktest.Log
	s, address := newServer(t, &l)
	w := sinktest.NewWorld(t, s).Start(0)
	for range mostListeners {
		fmt.Fprint(dial(t, mallet, address), "GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
	}
	nstest.WaitFor(t, "all to listen", func() bool { now, _, _ := s.hub.Counts(); return now == mostListeners })
	if code, _ := fetch(t, mallet, address+"/events"); code != http.StatusServiceUnavailable {
		t.Errorf("one more of the same client: code %d", code)
	}
	events := listen(t, address+"/events", "")
	w.Feed(1)
	if list := read(events.Body, 1); events.StatusCode != http.StatusOK || len(list) != 1 {
		t.Errorf("another client: code %d, %d events", events.StatusCode, len(list))
	}
}

// TestListenerWaitsForNobody: whose place another one got may not have noticed by then.
func TestListenerWaitsForNobody(t *testing.T) {
	t.Parallel()
	h := NewHub("test", remembered)
	for range mostListeners + 1 {
		if _, _, _, err := h.addListener(""); err != nil {
			t.Fatal(err)
		}
	}
}

// TestOtherHost: a request that names another server is refused: its sender has been led here by
// a name that is not ours.
func TestOtherHost(t *testing.T) {
	t.Parallel()
	var l sinktest.Log
	s, err := ListenReports("localhost:0", []string{"Collector.example"}, "d", sinktest.OddName, fault.Face{}, l.Logger())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	sinktest.NewWorld(t, s).Start(0)
	address := "http://" + s.Server().Addr().String()
	refused := 0
	for host, ok := range map[string]bool{
		"127.0.0.1": true, "127.0.0.1:9432": true, "[::1]:80": true, "192.0.2.7:9432": true, "[2001:db8::1]": true,
		"localhost": true, "LOCALHOST.:1": true, "a.localhost": true, "collector.example:9432": true, "COLLECTOR.example.": true,
		"evil.example": false, "evil.example:9432": false, "127.0.0.1.evil.example": false, "localhost.evil.example": false,
		"collector.example.evil.example": false, "notlocalhost": false, "127.1": false, "2130706433": false,
	} {
		for _, path := range []string{"/", "/metrics", "/values", "/events", "/none"} {
			if path == "/events" && ok {
				continue // it does not end
			}
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			request.Host = host
			response, err := http.DefaultClient.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			response.Body.Close()
			if got := response.StatusCode != http.StatusMisdirectedRequest; got != ok {
				t.Errorf("Host: %s, %s: code %d", host, path, response.StatusCode)
			}
			if !ok {
				refused++
			}
		}
	}
	if _, text := servers.Get(t, address+"/metrics"); !strings.Contains(text, fmt.Sprintf("radar_http_other_host_total %d\n", refused)) {
		t.Errorf("%d were refused: %s", refused, text)
	}
}

// TestFace: answers say what to do as users of the server's face write it.
func TestFace(t *testing.T) {
	t.Parallel()
	var l sinktest.Log
	face := fault.Face{Setting: func(name string) string { return "the field " + name }, Command: func(words string) string { return "page " + words }}
	r, err := ListenReports("0", nil, "d", sinktest.OddName, face, l.Logger())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	sinktest.NewWorld(t, r).Start(0)
	for path, want := range map[string]string{"/": "page collect: /metrics", "/metrics": "sources that are not heard (the field allow)."} {
		if _, text := servers.Get(t, "http://"+r.Server().Addr().String()+path); !strings.Contains(text, want) {
			t.Errorf("%s: no %q in %s", path, want, text)
		}
	}
	answer := httptest.NewRecorder()
	r.Server().checkHost(nil).ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "http://evil.example/", nil))
	if text := answer.Body.String(); !strings.Contains(text, "or page collect the field http-host NAME") {
		t.Errorf("another name: %s", text)
	}
	if r.hub.origin != "page collect" {
		t.Errorf("events come from %q", r.hub.origin)
	}
}

func TestOtherHostIsAPrefix(t *testing.T) {
	t.Parallel()
	for a, b := range map[string]string{"192.0.2.1": "192.0.2.1", "2001:db8:1:2:3::4": "2001:db8:1:2::", "fe80::1%lo": "fe80::"} {
		if got := OtherHost(netip.MustParseAddr(a)).host; got.String() != b {
			t.Errorf("%s is %v, want %s", a, got, b)
		}
	}
}

// TestReserve: clients that hold one place each lock nobody out who has none, and those who came first keep theirs.
func TestReserve(t *testing.T) {
	t.Parallel()
	p := newPlaces(16, 2, math.MaxInt64)
	ended := make(map[int64]bool)
	take := func(user int64) bool { return p.takePlace(Client{user: user}, func() { ended[user] = true }) != nil }
	for user := range int64(16) {
		if !take(user) {
			t.Fatalf("client %d gets no place", user)
		}
	}
	if take(3) || len(ended) > 0 {
		t.Errorf("who has a place gets another one: %v", ended)
	}
	for user := int64(100); user < 200; user++ {
		if !take(user) || ended[user] || len(p.held) != 16 {
			t.Fatalf("client %d gets no place: %v", user, ended)
		}
		if user > 100 && ended[user-1] {
			t.Errorf("client %d has lost its place at once", user-1)
		}
	}
	for user := range int64(14) {
		if ended[user] {
			t.Errorf("client %d, who came early, has lost its place", user)
		}
	}
}
