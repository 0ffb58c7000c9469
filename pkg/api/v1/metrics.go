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
	"github.com/vnetradar/radar/pkg/api/reported"
)

// serveMetrics adds /metrics.
func (a *API) serveMetrics() {
	registry := prometheus.NewRegistry()
	kept := reported.Kept{Exporter: reported.NewExporter(a.Face)}
	if a.Live != nil { // it has more to say of its reports than it writes down
		kept.Except = a.Live.Domain
		registry.MustRegister(a.Live.Collectors()...)
	}
	domains := measured.NewKeeper(kept)
	registry.MustRegister(ageOf(domains), a.server, collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), unauthorized(a.Guard))
	a.server.Answer("GET /metrics", promhttp.HandlerFor(prometheus.Gatherers{domains, registry}, promhttp.HandlerOpts{
		ErrorLog:      slog.NewLogLogger(a.Log.Handler(), slog.LevelWarn),
		ErrorHandling: promhttp.ContinueOnError,
	}))
	a.server.Answer("/metrics", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Allow", "GET, HEAD")
		api.Refuse(w, http.StatusMethodNotAllowed, "metrics can only be read")
	}))
}

// ageOf tells how old what is told of the domains is. It is asked behind them.
func ageOf(k *measured.Keeper) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "radar_metrics_age_seconds", Help: "Time since the domains were read for these metrics: up to 5 s, more while a reading takes longer.",
	}, func() float64 { return k.Age().Seconds() })
}

func unauthorized(g *api.Guard) prometheus.Collector {
	return prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "radar_http_unauthorized_total", Help: "Requests that were refused: without the token that they needed, or of another site's page.",
	}, func() float64 { return float64(g.Refused()) })
}
