// SPDX-License-Identifier: Apache-2.0

package api

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/sink"
	"github.com/vnetradar/radar/pkg/telemetry/collect"
	"github.com/vnetradar/radar/pkg/telemetry/metrics"
)

const (
	rowsFor    = time.Second // for so long what was asked of the source is good: it works for nobody else meanwhile
	bufferSize = 1 << 16     // bytes of /values that are written by one call
)

// reportsIndex is what a server of reports says at /.
const reportsIndex = "«collect»: /metrics for Prometheus, /events as server-sent events, /values as JSON lines (docs/int/collect.md)"

// ReportsOtherName is what it says to requests that name another server.
const ReportsOtherName = "this server does not answer to the name %.100q: use its address, or «collect ‹http-host› NAME»"

// Reports answers about what a domain's collector finds: /events, /values, and its part of /metrics. It is an output
// of the collector, which gives it events.
type Reports struct {
	Domain string

	server *Server
	ending func() // called before the server ends
	hub    *Hub
	namer  metrics.Namer
	prom   *exposition
	ended  chan error

	// The publisher's.
	buf bytes.Buffer
	enc sink.Encoder

	source sink.Source
	fanout *sink.Fanout

	mu    sync.Mutex
	taken time.Time
	rows  []metrics.Row
}

// NewReports returns the answers of a domain's collector, whose nodes n names. They are for users of face.
func NewReports(domain string, n metrics.Namer, face fault.Face) *Reports {
	r := &Reports{Domain: domain, hub: NewHub(face.Render("«collect»"), remembered), namer: n, ended: make(chan error, 1)}
	r.enc = sink.NewEncoder(n, &r.buf)
	r.prom = newExposition(r, face)
	return r
}

// AddTo adds /events and /values to a server, which serves from when the collector begins until it ends. ending,
// which may be nil, is called then, before answers have to end.
func (r *Reports) AddTo(s *Server, ending func()) {
	r.server, r.ending = s, ending
	s.Stream("GET /events", r.hub, func(request *http.Request) (func(uint8) bool, error) {
		return wantedTopics(request.URL.Query()["metric"])
	})
	s.Answer("GET /values", http.HandlerFunc(r.serveValues))
}

// ListenReports opens a server that has nothing but a collector's answers: no token protects them.
// See Config for address, names and face.
func ListenReports(address string, names []string, domain string, n metrics.Namer, face fault.Face, log *slog.Logger) (*Reports, error) {
	s, err := Listen(Config{Address: address, Names: names, Index: reportsIndex, OtherName: ReportsOtherName, Face: face, Log: log})
	if err != nil {
		return nil, err
	}
	r := NewReports(domain, n, face)
	r.AddTo(s, nil)
	registry := prometheus.NewRegistry()
	registry.MustRegister(append(r.Collectors(), s, collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))...)
	s.Answer("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		Timeout: AnswerTime, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}))
	return r, nil
}

// Collectors give Prometheus what the collector counts and finds, and its listeners.
func (r *Reports) Collectors() []prometheus.Collector {
	return []prometheus.Collector{r.prom, r.prom.hops, r.prom.flows}
}

// Server is the server that answers.
func (r *Reports) Server() *Server { return r.server }

// Close closes the server if it was not started. A Fanout ends those that were.
func (r *Reports) Close() error { return r.server.Close() }

// Observe is for metrics.Engine.Observe: the histograms' values. No two calls may be at a time.
func (r *Reports) Observe(m metrics.Metric, node uint32, ns uint64) { r.prom.observe(m, node, ns) }

// Name implements sink.Output.
func (r *Reports) Name() string { return "http" }

// Begin implements sink.Beginner: it begins to answer.
func (r *Reports) Begin(source sink.Source, f *sink.Fanout) {
	r.source, r.fanout = source, f
	go func() { r.ended <- r.server.Serve() }()
}

// Run implements sink.Output.
func (r *Reports) Run(ctx context.Context, q <-chan sink.Item, n *sink.Tally) error {
	for {
		select {
		case it, ok := <-q:
			if !ok {
				r.endAnswers(ctx)
				return nil
			}
			if it.Snapshot != nil {
				it.Release() // who wants values, asks
				continue
			}
			if err := r.publish(&it); err != nil {
				return err
			}
			n.Written.Add(1)
		case err := <-r.ended:
			r.hub.Close()
			return fmt.Errorf("serve HTTP: %w", err)
		}
	}
}

func (r *Reports) publish(it *sink.Item) error {
	r.buf.Reset()
	if err := r.enc.Event(&it.Event); err != nil {
		return fmt.Errorf("event %d: %w", it.Number, err)
	}
	r.hub.Publish(it.Number, uint8(it.Event.Metric), bytes.Clone(r.buf.Bytes()))
	return nil
}

// endAnswers lets answers end. Listeners get what there is, then their connection is closed.
func (r *Reports) endAnswers(ctx context.Context) {
	r.hub.Close()
	if r.ending != nil {
		r.ending()
	}
	ctx, cancel := context.WithTimeout(ctx, sink.DefaultGrace/2)
	defer cancel()
	r.server.Shutdown(ctx)
}

// values are the rows, at most a second old.
func (r *Reports) values() ([]metrics.Row, time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := time.Now(); now.Sub(r.taken) >= rowsFor {
		r.rows, r.taken = r.fanout.Rows(now), now
	}
	return r.rows, r.taken
}

// Values are the newest values that keep chooses, and when they were taken.
func (r *Reports) Values(keep func(metrics.Metric) bool) (list []metrics.RowJSON, taken time.Time) {
	rows, taken := r.values()
	for i := range rows {
		if keep(rows[i].Metric) {
			list = append(list, r.namer.Row(&rows[i]))
		}
	}
	return list, taken
}

// Info is what the collector counts.
func (r *Reports) Info() collect.Info {
	info := r.source.Info()
	info.Outputs = r.fanout.Info()
	return info
}

// Follow answers with the events of some metrics, as /events does. The caller is a handler of Server.Listen.
func (r *Reports) Follow(w http.ResponseWriter, request *http.Request, want func(topic uint8) bool) {
	r.server.Follow(w, request, r.hub, want)
}

// WantedMetrics is which metrics a list of NAME,NAME asks for; all if it names none.
func WantedMetrics(lists []string) (set [metrics.NumMetrics]bool, err error) {
	all := true
	for _, list := range lists {
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

func wantedTopics(lists []string) (func(uint8) bool, error) {
	want, err := WantedMetrics(lists)
	return func(topic uint8) bool { return want[topic] }, err
}

func (r *Reports) serveValues(w http.ResponseWriter, request *http.Request) {
	want, err := WantedMetrics(request.URL.Query()["metric"])
	if err != nil {
		Refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	rows, taken := r.values()
	out := bufio.NewWriterSize(w, bufferSize)
	enc := sink.NewEncoder(r.namer, out)
	for i := range rows {
		if want[rows[i].Metric] && enc.Value(&rows[i], taken.UnixNano()) != nil {
			return // who asked has gone
		}
	}
	_ = out.Flush()
}
