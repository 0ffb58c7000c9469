// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/vnetradar/radar/pkg/answer"
	"github.com/vnetradar/radar/pkg/api"
	"github.com/vnetradar/radar/pkg/store"
	"github.com/vnetradar/radar/pkg/system"
)

// Server says what the server is and may.
type Server struct {
	Version   string `json:"version"`
	CanSteer  bool   `json:"can_steer" doc:"whether this request has the token"`
	TLS       bool   `json:"tls"`
	Default   string `json:"default_domain"`
	Capture   bool   `json:"capture" doc:"whether capture files or recordings are served"`
	Collector string `json:"collector,omitempty" doc:"the domain whose collector has started this server, if one has"`
	Now       string `json:"now" format:"date-time"`
}

// Domain is one that can be asked.
type Domain struct {
	Name     string     `json:"name"`
	Attached bool       `json:"attached"`
	Created  *time.Time `json:"created,omitempty"`
	Nodes    int        `json:"nodes"`
	Ports    int        `json:"ports"`
	Source   string     `json:"source" enum:"ring,reports,capture,recording" doc:"what there is of it: a ring, perhaps beside reports; reports alone; a capture file; a recording"`
	File     string     `json:"file,omitempty" doc:"of a capture or recording: the name of the file or folder"`
}

// registerServer adds /server and /domains.
func (a *API) registerServer() {
	huma.Register(a.huma, operation("server", "/server", "What this server is, and what the request may"), func(ctx context.Context, _ *struct{}) (*Output[Server], error) {
		s := Server{
			Version: a.Version, CanSteer: api.Steers(ctx), TLS: a.TLS, Default: a.Default,
			Capture: len(a.Files) > 0, Now: time.Now().UTC().Format(time.RFC3339Nano),
		}
		if a.Live != nil {
			s.Collector = a.Live.Domain
		}
		return output(s), nil
	})
	huma.Register(a.huma, operation("domains", "/domains", "The domains that can be asked"), func(context.Context, *struct{}) (*Output[[]Domain], error) {
		list, err := a.domains()
		return output(list), err
	})
}

// count counts the nodes and ports that are there.
func (of *Domain) count(d *system.Network) {
	isThere := make(map[uint16]bool)
	for _, n := range d.Nodes {
		if !n.Removed {
			of.Nodes++
			isThere[n.ID] = true
		}
	}
	for _, p := range d.Ports {
		if isThere[p.Node] && !p.Removed {
			of.Ports++
		}
	}
}

func (a *API) domains() ([]Domain, error) {
	list := []Domain{}
	for _, name := range slices.Sorted(maps.Keys(a.Files)) {
		f := a.Files[name]
		of := Domain{Name: name, Source: "capture", File: f.Name()}
		if since := f.Since().UTC(); !since.IsZero() {
			of.Created = &since
		}
		if r, is := f.(*answer.Recorded); is {
			of.Source = "recording"
			if d := r.Of(); d != nil {
				of.count(d.Network())
			}
		}
		list = append(list, of)
	}
	names, err := answer.Attached()
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		d, err := answer.Network(name)
		if err != nil {
			continue // detached meanwhile, or damaged: whoever asks it is told
		}
		of := Domain{Name: name, Attached: true, Source: "ring", Created: &d.Since}
		of.count(d)
		list = append(list, of)
	}
	reported, err := store.List()
	if err != nil {
		return nil, err
	}
	for _, name := range reported {
		if slices.Contains(names, name) {
			continue
		}
		if info, err := store.Load(name); err == nil {
			list = append(list, Domain{Name: name, Source: "reports", Created: &info.Since})
		}
	}
	return list, nil
}
