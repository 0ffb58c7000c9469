// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/vnetradar/radar/pkg/api"
	"github.com/vnetradar/radar/pkg/host/statedir"
	"github.com/vnetradar/radar/pkg/store"
	"github.com/vnetradar/radar/pkg/telemetry/collect"
	"github.com/vnetradar/radar/pkg/telemetry/metrics"
	"github.com/vnetradar/radar/pkg/words"
)

// MetricsAsked are the metrics that are asked for.
type MetricsAsked struct {
	OneDomain
	Metric []string `query:"metric,explode" maxItems:"32" doc:"flow_path, flow_latency, hop_latency, queue_occupancy, queue_congestion, link_utilization, link_latency; none: all of them" example:"[\"queue_occupancy\"]"`
}

// wanted are the metrics of a request.
func (q *MetricsAsked) wanted() ([metrics.NumMetrics]bool, error) {
	want, err := api.WantedMetrics(q.Metric)
	if err != nil {
		return want, fieldError("query.metric", q.Metric, "%v", err)
	}
	return want, nil
}

// eventsElsewhere is for listeners to the events of a collector that this server is not of.
const eventsElsewhere = "the collector of this domain has not started this server: events come by the address of its ‹http›"

// Collector is what a collector counts, as `radar collect status -o json` prints it.
type Collector struct{ *collect.Info }

// MarshalJSON implements json.Marshaler.
func (c Collector) MarshalJSON() ([]byte, error) { return plain(c.Info) }

// Schema implements huma.SchemaProvider: counters are added from time to time.
func (Collector) Schema(huma.Registry) *huma.Schema {
	integer, minimum := huma.TypeInteger, 0.0
	return &huma.Schema{
		Type: huma.TypeObject, AdditionalProperties: true, Required: []string{"pid", "since", "counts"},
		Properties: map[string]*huma.Schema{
			"pid":    {Type: integer, Minimum: &minimum, Description: "the collector's process; 0: it has ended"},
			"since":  {Type: huma.TypeString, Format: "date-time", Description: "when it began"},
			"counts": {Type: huma.TypeObject, AdditionalProperties: true, Description: "what came, by name"},
		},
	}
}

// isLive reports whether the collector of a domain runs this server.
func (a *API) isLive(name string) bool { return a.Live != nil && a.Live.Domain == name }

// registerValues adds /collector, /values and /values/events.
func (a *API) registerValues() {
	o := ofDomain("collector", "/collector", "What the domain's collector of telemetry reports does, or what the last one did")
	o.Description = "What the command line prints of it as JSON. `pid` is 0 if no collector runs."
	huma.Register(a.huma, o, func(_ context.Context, q *OneDomain) (*Output[Collector], error) {
		info, err := a.collectorOf(q.Domain)
		return output(Collector{info}), err
	})
	type valuesAsked struct {
		MetricsAsked
		Limit uint32 `query:"limit" minimum:"1" maximum:"100000" default:"1000" doc:"rows at most, the first by their key"`
	}
	o = ofDomain("values", "/values", "The latest values that telemetry reports say")
	o.Description = "Of flows, nodes, queues and links. A server that the domain's collector has started has them as they are now, any other one as the collector wrote them last, about once a second."
	huma.Register(a.huma, o, func(ctx context.Context, q *valuesAsked) (*Output[Rows[metrics.RowJSON]], error) {
		want, err := q.wanted()
		if err != nil {
			return nil, err
		}
		return once(ctx, a.answers, q.asked, func(context.Context) (*Output[Rows[metrics.RowJSON]], error) {
			return a.values(q.Domain, want, int(q.Limit))
		})
	})
	o = ofDomain("value-events", "/values/events", "Values that are new, or further than a threshold from those reported last, as they come")
	o.Description = "Server-sent events of the server that the domain's collector has started; any other server answers 404. " +
		"Data are the objects that a collector writes as JSON lines; `missed` says how many events the listener has missed."
	o.Responses = map[string]*huma.Response{"200": {Description: "events, until either side ends", Content: map[string]*huma.MediaType{"text/event-stream": {Schema: &huma.Schema{Type: "string"}}}}}
	type listened struct {
		MetricsAsked
		Last string `header:"Last-Event-ID" doc:"of the last event that the listener has: it gets those behind it"`
	}
	huma.Register(a.huma, o, func(_ context.Context, q *listened) (*huma.StreamResponse, error) {
		want, err := q.wanted()
		if err != nil {
			return nil, err
		}
		if !a.isLive(q.Domain) {
			return nil, huma.Error404NotFound(a.Face.Render(eventsElsewhere))
		}
		return &huma.StreamResponse{Body: func(ctx huma.Context) {
			r, w := requestOf(ctx)
			a.Live.Follow(w, r, func(topic uint8) bool { return want[topic] })
		}}, nil
	})
}

// collectorOf says how a domain's collector does.
func (a *API) collectorOf(name string) (*collect.Info, error) {
	if a.isLive(name) {
		info := a.Live.Info()
		return &info, nil
	}
	if err := statedir.CheckDomain(name); err != nil {
		return nil, noDomain(err.Error())
	}
	info, err := store.Load(name)
	if errors.Is(err, store.ErrNone) {
		return nil, noDomain(fmt.Sprintf("domain %s: %v", name, err))
	}
	if err != nil {
		return nil, err
	}
	runs, err := store.Runs(name, info)
	if err != nil {
		return nil, err
	}
	if !runs {
		info.PID = 0
	}
	return info, nil
}

// values are the newest ones of a domain.
func (a *API) values(name string, want [metrics.NumMetrics]bool, limit int) (*Output[Rows[metrics.RowJSON]], error) {
	info, err := a.collectorOf(name)
	if err != nil {
		return nil, err
	}
	notes := []Note{}
	note := func(kind, format string, args ...any) {
		notes = append(notes, Note{kind, fmt.Sprintf(format, args...)})
	}
	var rows []metrics.RowJSON
	if a.isLive(name) {
		rows, _ = a.Live.Values(func(m metrics.Metric) bool { return want[m] })
	} else {
		var written time.Time
		if rows, written, err = store.LoadRows(name); err != nil && !errors.Is(err, store.ErrNone) {
			return nil, err
		}
		rows = slices.DeleteFunc(rows, func(r metrics.RowJSON) bool {
			m, err := metrics.ByName(r.Metric)
			return err != nil || !want[m]
		})
		if age := time.Since(written); info.PID != 0 && age > 2*time.Second {
			note("values_old", "the values are %s old", words.Duration(float64(age)))
		}
		if info.LeftOut > 0 {
			note("values_left_out", "the state directory had no room for %s more", words.Plural(int(info.LeftOut), "value"))
		}
	}
	if info.PID == 0 {
		note("collector_ended", "no collector of this domain runs: these are the last values")
	}
	if info.Metrics.Full > 0 {
		note("no_room", "%s had no room in the tables", words.Plural(int(info.Metrics.Full), "value"))
	}
	if len(rows) > limit {
		note("limited", "%d of %d values", limit, len(rows))
		rows = rows[:limit]
	}
	if rows == nil {
		rows = []metrics.RowJSON{}
	}
	return output(Rows[metrics.RowJSON]{rows, notes}), nil
}

// Public reports whether a request takes no token wherever it comes from: those for files of the page do not, which say
// nothing of the network.
func Public(r *http.Request) bool {
	switch path := r.URL.Path; {
	case path == "/metrics", path == "/events", path == "/values":
		return false
	default:
		return !strings.HasPrefix(path, "/api/")
	}
}
