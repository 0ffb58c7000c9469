// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/vnetradar/radar/pkg/api"
	"github.com/vnetradar/radar/pkg/api/live"
)

func requestOf(ctx huma.Context) (*http.Request, http.ResponseWriter) { return humago.Unwrap(ctx) }

// eventsAsked is what a listener asks for.
type eventsAsked struct {
	OneDomain
	Filters
	Topic []string `query:"topic,explode" doc:"packet, loss, load, event; none: all of them" example:"[\"packet\",\"load\"]"`
	Rate  uint32   `query:"rate" minimum:"1" maximum:"1000" default:"100" doc:"packets a second at most: an even sample of those that match"`
	Last  string   `header:"Last-Event-ID" doc:"of the last event that the listener has: it gets those behind it"`
}

// topics are which it asks for.
func (q *eventsAsked) topics() (want [4]bool, err error) {
	for _, list := range q.Topic {
		for name := range strings.SplitSeq(list, ",") {
			i := slices.Index(live.Topics, name)
			if i < 0 {
				return want, fieldError("query.topic", name, "use packet, loss, load or event")
			}
			want[i] = true
		}
	}
	if want == [4]bool{} {
		return [4]bool{true, true, true, true}, nil
	}
	return want, nil
}

// registerEvents adds /events.
func (a *API) registerEvents() {
	o := ofDomain("events", "/events", "Packets, losses, loads and events, as they come")
	o.Description = "Server-sent events. `packet` and `loss` have a record as data, `load` what the domain carried in the last second, " +
		"`event` what happened to it, `missed` how many events the listener has missed. Lost packets are `loss` where that is asked for, else `packet`."
	o.Responses = map[string]*huma.Response{"200": {Description: "events, until either side ends", Content: map[string]*huma.MediaType{"text/event-stream": {Schema: &huma.Schema{Type: "string"}}}}}
	huma.Register(a.huma, o, func(ctx context.Context, q *eventsAsked) (*huma.StreamResponse, error) {
		want, err := q.topics()
		if err != nil {
			return nil, err
		}
		s, err := a.selection(ctx, &q.Filters, q.Domain)
		if err != nil {
			return nil, err
		}
		stream, leave, err := a.feeds.Join(q.Domain, live.Options{Key: q.Filters.key(), Selection: s, Rate: int(q.Rate), Losses: want[live.TopicLoss], Client: api.ClientOf(ctx)})
		if err != nil {
			return nil, later(err.Error())
		}
		return &huma.StreamResponse{Body: func(ctx huma.Context) {
			defer leave()
			r, w := requestOf(ctx)
			a.server.Follow(w, r, stream.Hub, func(topic uint8) bool { return want[topic] })
		}}, nil
	})
}

// key is the same of filters that choose the same.
func (f *Filters) key() string {
	return url.Values{
		"src": f.Src, "dst": f.Dst, "proto": f.Proto, "sport": f.Sport, "dport": f.Dport,
		"node": f.Node, "state": f.State, "filter": {f.Filter},
	}.Encode()
}
