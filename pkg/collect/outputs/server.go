// SPDX-License-Identifier: Apache-2.0

package outputs

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/collect/metrics"
	"github.com/vnetradar/radar/pkg/fault"
)

// Limits of the server.
const (
	mostConnections = 256
	mostListeners   = 64               // of /events
	mostAnswers     = 8                // of /metrics and /values, at a time
	answerPatience  = time.Second      // how old one is that is cut off for another client
	answerTime      = 30 * time.Second // for one of them
	rowsFor         = time.Second      // for so long what was asked of the source is good: it works for nobody else meanwhile
	sendBuffer      = 256 << 10        // bytes that the kernel keeps for who does not read
)

// Server answers by HTTP: /metrics, /events and /values.
type Server struct {
	listener net.Listener
	namer    metrics.Namer
	face     fault.Face
	log      *slog.Logger
	hub      *hub
	prom     *exposition
	http     *http.Server
	ended    chan error
	beat     time.Duration // between heartbeats
	names    []string      // that requests may name beside addresses and the loopback's

	otherHosts            atomic.Uint64 // requests that named another server
	conns, readers, seats *places       // connections, listeners of /events, answers

	source Source
	fanout *Fanout

	mu    sync.Mutex
	taken time.Time
	rows  []metrics.Row
}

// Listen opens the address, ADDRESS:PORT; of a port alone, it is the one of this machine only.
// names are those that a request's Host header may have beside addresses, localhost, and the
// name in address. face is that of whoever runs the server, whom some answers tell what to do.
func Listen(address string, names []string, n metrics.Namer, face fault.Face, log *slog.Logger) (*Server, error) {
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
	s := &Server{
		namer: n, face: face, log: log, hub: newHub(), ended: make(chan error, 1), beat: heartbeat,
		// A connection on which no answer is under way can always be taken, so that there is room
		// for one that asks something.
		conns:   newPlaces(mostConnections, 0),
		readers: newPlaces(mostListeners, math.MaxInt64),
		seats:   newPlaces(mostAnswers, answerPatience),
	}
	s.listener = &fairListener{listener, s.conns}
	if host, _, err := net.SplitHostPort(address); err == nil {
		names = append(slices.Clone(names), host)
	}
	for _, name := range names {
		s.names = append(s.names, strings.ToLower(strings.TrimSuffix(name, ".")))
	}
	s.prom = newExposition(s)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, face.Render("«collect»: /metrics for Prometheus, /events as server-sent events, /values as JSON lines (docs/int.md)"))
	})
	mux.Handle("GET /metrics", s.seats.in(promhttp.HandlerFor(s.prom.registry, promhttp.HandlerOpts{
		Timeout: answerTime, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}), tooMany))
	mux.Handle("GET /events", s.readers.in(http.HandlerFunc(s.serveEvents), s.denyListener))
	mux.Handle("GET /values", s.seats.in(http.HandlerFunc(s.serveValues), tooMany))
	s.http = &http.Server{
		Handler: s.checkHost(mux), ConnContext: withConn, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: answerTime,
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

// tooMany answers a request for which there is no place.
func tooMany(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Retry-After", "1")
	http.Error(w, "as many such requests as possible are being answered, try again later", http.StatusServiceUnavailable)
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
