// SPDX-License-Identifier: Apache-2.0

package outputs

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/net/netutil"
	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/collect/metrics"
)

// Limits of the server.
const (
	mostConnections = 256
	mostListeners   = 64               // of /events
	mostAnswers     = 4                // of /metrics, and of /values, at a time
	answerTime      = 30 * time.Second // for one of them
	rowsFor         = time.Second      // for so long what was asked of the source is good: it works for nobody else meanwhile
	sendBuffer      = 256 << 10        // bytes that the kernel keeps for who does not read
)

// Server answers by HTTP: /metrics, /events and /values.
type Server struct {
	listener net.Listener
	namer    metrics.Namer
	log      *slog.Logger
	hub      *hub
	prom     *exposition
	http     *http.Server
	ended    chan error
	beat     time.Duration // between heartbeats

	source Source
	fanout *Fanout

	mu    sync.Mutex
	taken time.Time
	rows  []metrics.Row
}

// Listen opens the address, ADDRESS:PORT; of a port alone, it is the one of this machine only.
func Listen(address string, n metrics.Namer, log *slog.Logger) (*Server, error) {
	if !strings.Contains(address, ":") {
		address = ":" + address
	}
	if strings.HasPrefix(address, ":") {
		address = "127.0.0.1" + address
	}
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		// Connections inherit it. A listener that does not read is to be seen soon.
		return c.Control(func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUF, sendBuffer) })
	}}
	listener, err := config.Listen(context.Background(), "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("serve HTTP: %w", err)
	}
	s := &Server{listener: netutil.LimitListener(listener, mostConnections), namer: n, log: log, hub: newHub(), ended: make(chan error, 1), beat: heartbeat}
	s.prom = newExposition(s)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "radar collect: /metrics for Prometheus, /events as server-sent events, /values as JSON lines (docs/int.md)")
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.prom.registry, promhttp.HandlerOpts{
		MaxRequestsInFlight: mostAnswers, Timeout: answerTime, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}))
	mux.HandleFunc("GET /events", s.serveEvents)
	mux.Handle("GET /values", limited(mostAnswers, s.serveValues))
	s.http = &http.Server{
		Handler: mux, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: answerTime,
		IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	return s, nil
}

// Addr is where it listens.
func (s *Server) Addr() netip.AddrPort { return s.listener.Addr().(*net.TCPAddr).AddrPort() }

// Close closes a server that was not started. A Fanout ends those that were.
func (s *Server) Close() error { return s.listener.Close() }

// Observe is for metrics.Engine.Observe: the histograms' values. No two calls may be at a time.
func (s *Server) Observe(m metrics.Metric, node uint32, ns uint64) { s.prom.observe(m, node, ns) }

// Name implements Output.
func (s *Server) Name() string { return "http" }

func (s *Server) begin(source Source, f *Fanout) {
	s.source, s.fanout = source, f
	go func() { s.ended <- s.http.Serve(s.listener) }()
}

func (s *Server) run(ctx context.Context, q <-chan item, n *Tally) error {
	for {
		select {
		case it, ok := <-q:
			if !ok {
				return s.end(ctx)
			}
			if it.rows != nil {
				it.release() // who wants values, asks
				continue
			}
			if err := s.hub.publish(it.number, it.event.Metric, s.namer.Event(&it.event)); err != nil {
				return err
			}
			n.Written.Add(1)
		case err := <-s.ended:
			s.hub.close()
			return fmt.Errorf("serve HTTP: %w", err)
		}
	}
}

// end lets answers end. Listeners get what there is, then their connection is closed.
func (s *Server) end(ctx context.Context) error {
	s.hub.close()
	ctx, cancel := context.WithTimeout(ctx, grace/2)
	defer cancel()
	if s.http.Shutdown(ctx) != nil {
		_ = s.http.Close()
	}
	return nil
}

// values are the rows, at most a second old.
func (s *Server) values() ([]metrics.Row, time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := time.Now(); now.Sub(s.taken) >= rowsFor {
		s.rows, s.taken = s.fanout.rows(now), now
	}
	return s.rows, s.taken
}

// limited refuses requests beyond a number at a time.
func limited(most int, handle http.HandlerFunc) http.Handler {
	places := make(chan struct{}, most)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case places <- struct{}{}:
			defer func() { <-places }()
			handle(w, r)
		default:
			http.Error(w, fmt.Sprintf("%d such requests are being answered, try again later", most), http.StatusServiceUnavailable)
		}
	})
}

// wanted is which metrics a request asks for by ?metric=NAME,NAME; all if it names none.
func wanted(r *http.Request) (set [metrics.NumMetrics]bool, err error) {
	all := true
	for _, list := range r.URL.Query()["metric"] {
		for name := range strings.SplitSeq(list, ",") {
			m, err := metrics.ByName(name)
			if err != nil {
				return set, err
			}
			set[m], all = true, false
		}
	}
	for m := range set {
		set[m] = set[m] || all
	}
	return set, nil
}

func (s *Server) serveValues(w http.ResponseWriter, r *http.Request) {
	want, err := wanted(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	rows, taken := s.values()
	out := bufio.NewWriterSize(w, linesAtOnce)
	enc := newEncoder(s.namer, out)
	for i := range rows {
		if want[rows[i].Metric] && enc.value(&rows[i], taken.UnixNano()) != nil {
			return // who asked has gone
		}
	}
	_ = out.Flush()
}
