// SPDX-License-Identifier: Apache-2.0

package api

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/lab/test/servers"
	"github.com/vnetradar/radar/pkg/sink/sinktest"
	"github.com/vnetradar/radar/pkg/telemetry/metrics"
)

// got is one event of a stream as a listener reads it, and when.
type got struct {
	id, kind, data string
	at             time.Time
}

// read reads a stream (HTML standard, section 9.2.6) until it ends, or n events are there.
func read(r io.Reader, n int) (list []got) {
	var one got
	for lines := bufio.NewScanner(r); len(list) < n && lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case lines.Text() == "" && one.data != "":
			one.at = time.Now()
			list = append(list, one)
			one = got{id: one.id}
		case name == "id":
			one.id = value
		case name == "event":
			one.kind = value
		case name == "data":
			one.data += value
		}
	}
	return list
}

// listen begins to listen; when it returns, the server knows the listener.
func listen(t *testing.T, url, last string) *http.Response {
	t.Helper()
	response, err := tryListen(t, url, last)
	if err != nil {
		t.Fatal(err)
	}
	return response
}

func tryListen(t *testing.T, url, last string) (*http.Response, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), nstest.Patience)
	t.Cleanup(cancel)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if last != "" {
		request.Header.Set("Last-Event-ID", last)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { response.Body.Close() })
	return response, nil
}

func dataOf(t *testing.T, list []got) (all []string) {
	t.Helper()
	for _, g := range list {
		var plain map[string]any
		if err := json.Unmarshal([]byte(g.data), &plain); err != nil {
			t.Fatal(err, g.data)
		}
		all = append(all, fmt.Sprint(plain))
	}
	return all
}

// TestEvents: a listener gets each event, with numbers, and one that comes back what it missed.
func TestEvents(t *testing.T) {
	t.Parallel()
	var l sinktest.Log
	s, address := newServer(t, &l)
	w := sinktest.NewWorld(t, s).Start(0)
	all, paths := listen(t, address+"/events", ""), listen(t, address+"/events?metric=flow_path&metric=flow_latency", "")
	w.Feed(50)
	list := read(all.Body, len(w.Events))
	if diff := cmp.Diff(sinktest.WantEvents(t, w.Events), dataOf(t, list)); diff != "" {
		t.Error(diff)
	}
	for i, g := range list {
		if !strings.HasSuffix(g.id, fmt.Sprintf("-%d", i+1)) || g.kind != "" {
			t.Errorf("event %d has id %s, type %q", i+1, g.id, g.kind)
		}
	}
	want := sinktest.WantEvents(t, w.Events, metrics.FlowPath, metrics.FlowLatency)
	if diff := cmp.Diff(want, dataOf(t, read(paths.Body, len(want)))); diff != "" {
		t.Errorf("filtered: %s", diff)
	}

	// Who comes back gets the rest, and then what is new.
	back := listen(t, address+"/events", list[9].id)
	w.Feed(10)
	if diff := cmp.Diff(sinktest.WantEvents(t, w.Events[10:]), dataOf(t, read(back.Body, len(w.Events)-10))); diff != "" {
		t.Errorf("who comes back: %s", diff)
	}
	// One of another process gets all that is remembered, and is told so.
	for _, id := range []string{"00000000-5", "7", list[9].id + "0000000"} {
		first := read(listen(t, address+"/events", id).Body, 2)
		if len(first) < 2 || first[0].kind != "missed" || first[0].data != `{"restarted":true}` || !strings.HasSuffix(first[1].id, "-1") {
			t.Errorf("%s: %+v", id, first)
		}
	}
	// After more than is remembered, it is told how many are gone.
	for len(w.Events) < 2*remembered {
		w.Written("http", len(w.Events))
		w.Feed(100)
	}
	w.Written("http", len(w.Events))
	late := read(listen(t, address+"/events", list[9].id).Body, 2)
	missed := len(w.Events) - remembered - 10
	if len(late) < 2 || late[0].kind != "missed" || late[0].data != fmt.Sprintf(`{"missed":%d}`, missed) || !strings.HasSuffix(late[1].id, fmt.Sprintf("-%d", missed+11)) {
		t.Errorf("want %d missed: %+v", missed, late)
	}
	if code, text := servers.Get(t, address+"/events?metric=jitter"); code != http.StatusBadRequest || !strings.Contains(text, "hop_latency") {
		t.Errorf("unknown metric: %d, %s", code, text)
	}
	// At the end listeners get what there is, then the stream ends.
	last := listen(t, address+"/events", "")
	w.Feed(3)
	w.Close()
	if n := len(read(last.Body, 1<<30)); n == 0 || w.Tally("http").Written.Load() != uint64(len(w.Events)) {
		t.Errorf("%d events at the end, %d written of %d", n, w.Tally("http").Written.Load(), len(w.Events))
	}
	if _, err := net.Dial("tcp", strings.TrimPrefix(address, "http://")); err == nil {
		t.Error("somebody still listens")
	}
}

// TestHeartbeat: a listener for whom nothing comes hears that the server is there, outlives the
// times that other requests have, and then gets its event.
func TestHeartbeat(t *testing.T) {
	t.Parallel()
	var l sinktest.Log
	s, address := newServer(t, &l)
	s.server.beat, s.server.http.ReadTimeout, s.server.http.WriteTimeout = 50*time.Millisecond, 100*time.Millisecond, 100*time.Millisecond
	w := sinktest.NewWorld(t, s).Start(0)
	var body *bufio.Reader
	for try := 1; body == nil; try++ {
		var err error
		// On a busy machine a request may not even be read in time.
		if body, err = heartbeats(t, address, 10); err != nil && try == 5 {
			t.Fatal(err)
		}
	}
	w.Feed(1)
	if list := read(body, len(w.Events)); len(list) != len(w.Events) {
		t.Errorf("%d of %d events", len(list), len(w.Events))
	}
}

// heartbeats listens until so many have come, and returns what comes then.
func heartbeats(t *testing.T, address string, n int) (*bufio.Reader, error) {
	t.Helper()
	response, err := tryListen(t, address+"/events", "")
	if err != nil {
		return nil, err
	}
	body := bufio.NewReader(response.Body)
	for beats := 0; beats < n; {
		line, err := body.ReadString('\n')
		if err != nil {
			return nil, err
		}
		if line == ": still here\n" {
			beats++
		}
	}
	return body, nil
}

// TestEventsShed: what did not find room in the queue is told in its place, also to who comes back.
func TestEventsShed(t *testing.T) {
	t.Parallel()
	h := NewHub("test", remembered)
	for _, number := range []uint64{1, 2, 6, 7} {
		h.Publish(number, 0, []byte("{}\n"))
	}
	for _, c := range []struct {
		last    string
		missed  uint64
		restart bool
		numbers string
	}{
		{h.id(0), 0, false, "[1 2 5 6 7]"}, {h.id(1), 0, false, "[2 5 6 7]"}, {h.id(2), 3, false, "[6 7]"},
		{h.id(4), 1, false, "[6 7]"}, {h.id(7), 0, false, "[]"}, {h.id(8), 0, true, "[1 2 5 6 7]"}, {"", 0, false, "[]"},
	} {
		l, missed, restarted, err := h.addListener(c.last)
		if err != nil {
			t.Fatal(err)
		}
		batch, err := h.takeEvents(l, nil, 100)
		numbers := []uint64{}
		for _, s := range batch {
			numbers = append(numbers, s.number)
		}
		if err != nil || missed != c.missed || restarted != c.restart || fmt.Sprint(numbers) != c.numbers {
			t.Errorf("%q: missed %d, restarted %v, %v, %v", c.last, missed, restarted, numbers, err)
		}
		h.removeListener(l, false)
	}
	if h.ring[2].missed != 3 {
		t.Errorf("%+v", h.ring[2])
	}
}

// TestOvertaken: a listener that the ring has overtaken gets nothing with a hole in it.
func TestOvertaken(t *testing.T) {
	t.Parallel()
	h := NewHub("test", remembered)
	l, _, _, err := h.addListener("")
	if err != nil {
		t.Fatal(err)
	}
	for number := range uint64(remembered + 1) {
		if list, err := h.takeEvents(l, nil, 0); len(list) > 0 || err != nil {
			t.Fatal(list, err)
		}
		h.Publish(number+1, 0, []byte("{}\n"))
	}
	if list, err := h.takeEvents(l, nil, 1); !errors.Is(err, errBehind) {
		t.Errorf("%v, %v", list, err)
	}
}

// someoneHasAll says whether a listener has taken every event.
func (h *Hub) someoneHasAll() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for l := range h.listeners {
		if l.at == h.next {
			return true
		}
	}
	return false
}

// TestSlowListener: one that does not read is cut off and counted; another gets every event.
func TestSlowListener(t *testing.T) {
	t.Parallel()
	var l sinktest.Log
	s, address := newServer(t, &l)
	w := sinktest.NewWorld(t, s).Start(0)
	slow, err := net.Dial("tcp", strings.TrimPrefix(address, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Close()
	fmt.Fprint(slow, "GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
	fast := listen(t, address+"/events", "")
	ids := make(chan []string, 1)
	go func() {
		var list []string
		for _, g := range read(fast.Body, 1<<30) {
			list = append(list, g.id[strings.Index(g.id, "-")+1:])
		}
		ids <- list
	}()
	nstest.WaitFor(t, "two listeners", func() bool { now, _, _ := s.hub.Counts(); return now == 2 })
	nstest.WaitFor(t, "the slow one to be cut off", func() bool {
		w.Feed(50)
		w.Written("http", len(w.Events))
		nstest.WaitFor(t, "the fast one to have all", s.hub.someoneHasAll)
		time.Sleep(5 * time.Millisecond) // else there are too many to keep
		_, cut, _ := s.hub.Counts()
		return cut > 0
	})
	now, cut, _ := s.hub.Counts()
	if now != 1 || cut != 1 {
		t.Errorf("%d listeners, %d cut off", now, cut)
	}
	w.Close()
	list := <-ids
	for i, id := range list {
		if id != fmt.Sprint(i+1) {
			t.Fatalf("the fast one got %s after %d", id, i)
		}
	}
	if len(list) != len(w.Events) || w.Tally("http").DroppedEvents.Load() != 0 {
		t.Errorf("the fast one got %d of %d, %d were dropped", len(list), len(w.Events), w.Tally("http").DroppedEvents.Load())
	}
}

// TestManyListeners: there is a limit, and who goes makes room.
func TestManyListeners(t *testing.T) {
	t.Parallel()
	var l sinktest.Log
	s, address := newServer(t, &l)
	sinktest.NewWorld(t, s).Start(0)
	for range mostListeners - 1 {
		listen(t, address+"/events", "")
	}
	last := listen(t, address+"/events", "")
	if code, _ := servers.Get(t, address+"/events"); code != http.StatusServiceUnavailable {
		t.Errorf("code %d", code)
	}
	if now, _, denied := s.hub.Counts(); now != mostListeners || denied != 1 {
		t.Errorf("%d listeners, %d denied", now, denied)
	}
	last.Body.Close()
	nstest.WaitFor(t, "it to be gone", func() bool {
		s.server.readers.mu.Lock()
		defer s.server.readers.mu.Unlock()
		return len(s.server.readers.held) < mostListeners
	})
	listen(t, address+"/events", "")
}

// TestEventsAtOnce: curl gets an event within some milliseconds, with InfluxDB's second not over.
// How many is judged where nothing else runs.
func TestEventsAtOnce(t *testing.T) {
	need.Programs(t, "curl")
	var l sinktest.Log
	s, address := newServer(t, &l)
	w := sinktest.NewWorld(t, s).Start(0)
	curl := exec.Command("curl", "-sN", address+"/events?metric=flow_path")
	out, err := curl.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := curl.Start(); err != nil {
		t.Fatal(err)
	}
	nstest.Cleanup(t, func() { _ = curl.Process.Kill(); _ = curl.Wait() })
	nstest.WaitFor(t, "curl to listen", func() bool { now, _, _ := s.hub.Counts(); return now == 1 })
	const times = 200
	fed := make(map[string]time.Time)
	list := make(chan []got)
	go func() { list <- read(out, times) }()
	var began []time.Time
	for len(began) < times {
		before := w.Engine.Counts.Events[metrics.FlowPath]
		now := time.Now()
		w.Feed(1)
		if w.Engine.Counts.Events[metrics.FlowPath] > before {
			began = append(began, now)
		}
		time.Sleep(2 * time.Millisecond)
	}
	var took []time.Duration
	for i, g := range <-list {
		fed[g.id] = began[i]
		took = append(took, g.at.Sub(began[i]))
	}
	slices.Sort(took)
	t.Logf("from the report to curl's reader: median %v, 99 %% %v, most %v", took[times/2], took[times*99/100], took[times-1])
	if len(fed) != times || need.IsNightly(t) && took[times/2] > 500*time.Millisecond {
		t.Errorf("%d events, median %v", len(fed), took[times/2])
	}
}

// TestHubBytes: what a hub keeps is bounded in bytes, too.
func TestHubBytes(t *testing.T) {
	h := NewHub("test", remembered)
	for range 100 {
		h.Send(0, "load", make([]byte, 1<<20))
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	sum := 0
	for i := range h.ring {
		sum += len(h.ring[i].data)
	}
	if sum > mostRemembered || sum != h.bytes || h.next-h.first != mostRemembered>>20 {
		t.Errorf("it keeps %d events of %d bytes (counted: %d), want %d at most", h.next-h.first, sum, h.bytes, mostRemembered)
	}
}

// TestEventsBeforeFirst: a listener that loses its connection before the first event knows where to go on.
func TestEventsBeforeFirst(t *testing.T) {
	t.Parallel()
	h := NewHub("test", remembered)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.follow(w, r, func(uint8) bool { return true }, heartbeat)
	}))
	t.Cleanup(func() { h.Close(); server.Close() })
	h.Send(0, "", []byte("{\"before\":1}\n"))
	last := ""
	for i := range 3 {
		response := listen(t, server.URL, last)
		head := bufio.NewReader(response.Body)
		for line := ""; line != "\n"; {
			var err error
			if line, err = head.ReadString('\n'); err != nil {
				t.Fatal(err)
			}
			if id, is := strings.CutPrefix(line, "id: "); is {
				last = strings.TrimSpace(id)
			}
		}
		response.Body.Close()
		if want := h.id(1); last != want {
			t.Fatalf("connection %d: the first id is %q, not %q", i, last, want)
		}
		if i == 0 {
			h.Send(0, "", []byte("{\"meanwhile\":1}\n"))
		}
	}
	if list := read(listen(t, server.URL, last).Body, 1); len(list) != 1 || list[0].id != h.id(2) || list[0].data != `{"meanwhile":1}` {
		t.Errorf("who comes back gets %+v", list)
	}
}
