// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"log/slog"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/vnetradar/radar/pkg/api"
	"github.com/vnetradar/radar/pkg/api/measured"
)

// mostScrapes is how many scrapes are answered at a time: each reads all domains.
const mostScrapes = 2

// serveMetrics adds /metrics.
func (a *API) serveMetrics() {
	registry := prometheus.NewRegistry()
	registry.MustRegister(measured.Collector{}, a.server, collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), unauthorized(a.Guard))
	a.server.Answer("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		MaxRequestsInFlight: mostScrapes, Timeout: api.AnswerTime, ErrorLog: slog.NewLogLogger(a.Log.Handler(), slog.LevelWarn),
		ErrorHandling: promhttp.ContinueOnError,
	}))
	a.server.Answer("/metrics", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Allow", "GET, HEAD")
		api.Refuse(w, http.StatusMethodNotAllowed, "metrics can only be read")
	}))
}

func unauthorized(g *api.Guard) prometheus.Collector {
	return prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "radar_http_unauthorized_total", Help: "Requests that were refused: without the token that they needed, or of another site's page.",
	}, func() float64 { return float64(g.Refused()) })
}
