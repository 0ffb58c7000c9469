// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/host/statedir"
	"github.com/vnetradar/radar/pkg/steer"
	"github.com/vnetradar/radar/pkg/telemetry/control"
)

// stopTime is how long a request waits until devices hold nothing of INT. The service goes on with that.
const stopTime = 20 * time.Second

// managed does something with the management of an INT domain.
func managed[T any](a *API, name string, do func(*steer.Management) (T, error)) (*Output[T], error) {
	if err := statedir.CheckDomain(name); err != nil {
		return nil, noDomain(err.Error())
	}
	m, err := steer.Open(name)
	if err != nil {
		return nil, err
	}
	result, err := do(m)
	if err != nil {
		return nil, a.steerError(err)
	}
	return output(result), nil
}

// steerError is an error of the management for who asked.
func (a *API) steerError(err error) error {
	var fields []error
	for _, f := range control.FieldErrors(err) {
		where := "body"
		if f.Field != "" {
			where += "." + f.Field
		}
		fields = append(fields, &huma.ErrorDetail{Message: a.Face.Render(f.Text), Location: where})
	}
	switch {
	case len(fields) > 0:
		return huma.Error422UnprocessableEntity("a field cannot be used", fields...)
	case errors.Is(err, steer.ErrNoIntent):
		return huma.Error404NotFound("no such intent", &huma.ErrorDetail{Message: a.Face.Render(err.Error()), Location: "path.name"})
	case errors.Is(err, steer.ErrExists):
		return huma.Error409Conflict("there is an intent of that name", &huma.ErrorDetail{Message: a.Face.Render(err.Error()), Location: "body.name"})
	case errors.Is(err, steer.ErrNoTopology):
		return huma.Error409Conflict(a.Face.Render(err.Error()))
	case errors.Is(err, fault.Usage):
		return huma.Error422UnprocessableEntity(a.Face.Render(err.Error()))
	case errors.Is(err, context.DeadlineExceeded):
		return huma.Error504GatewayTimeout(a.Face.Render(err.Error()))
	}
	return huma.Error500InternalServerError(a.Face.Render(err.Error()))
}

// intChanged is a change of a part that is given as text.
type intChanged struct {
	OneDomain
	WithText
}

// registerManagement adds what is about INT domains beside intents.
func (a *API) registerManagement() {
	a.registerConfig()
	a.registerService()
	huma.Register(a.huma, reading("int-devices", "/devices", "The devices, with what the service says of them"), func(_ context.Context, q *OneDomain) (*Output[[]control.DeviceStatus], error) {
		return managed(a, q.Domain, func(m *steer.Management) ([]control.DeviceStatus, error) {
			list, err := m.Devices()
			return append([]control.DeviceStatus{}, list...), err
		})
	})
	huma.Register(a.huma, reading("int-status", "/status", "What the service has written last, with conflicts of intents"), func(_ context.Context, q *OneDomain) (*Output[control.Status], error) {
		return managed(a, q.Domain, (*steer.Management).Status)
	})
	type eventsSince struct {
		OneDomain
		Since uint64 `query:"since" maximum:"9007199254740991" doc:"only those behind the one of this number"`
	}
	huma.Register(a.huma, reading("int-events", "/events", "What happened to the management"), func(_ context.Context, q *eventsSince) (*Output[[]control.Event], error) {
		return managed(a, q.Domain, func(m *steer.Management) ([]control.Event, error) {
			list, err := m.Events(q.Since)
			return append([]control.Event{}, list...), err
		})
	})
	huma.Register(a.huma, reading("int-schema", "/schema", "The JSON schema of intents"), func(context.Context, *OneDomain) (*Output[json.RawMessage], error) {
		return output(json.RawMessage(control.Schema())), nil
	})
}

// registerConfig adds /int/config.
func (a *API) registerConfig() {
	huma.Register(a.huma, reading("int-config", "/config", "What holds for all devices"), func(_ context.Context, q *OneDomain) (*Output[control.Config], error) {
		return managed(a, q.Domain, (*steer.Management).Config)
	})
	set := steering("set-int-config", http.MethodPut, "/config", "Replace what holds for all devices")
	huma.Register(a.huma, set, func(_ context.Context, q *intChanged) (*Output[control.Config], error) {
		return managed(a, q.Domain, func(m *steer.Management) (c control.Config, err error) {
			if c, err = control.ReadConfig(q.RawBody); err != nil {
				return c, err
			}
			if err := m.SetConfig(c); err != nil {
				return c, err
			}
			return m.Config()
		})
	})
	takes[control.Config](a, set)
	patch := steering("patch-int-config", http.MethodPatch, "/config", "Change what holds for all devices: what the body does not have stays, null is the default (RFC 7396)")
	huma.Register(a.huma, patch, func(_ context.Context, q *intChanged) (*Output[control.Config], error) {
		return managed(a, q.Domain, func(m *steer.Management) (c control.Config, err error) {
			if err := m.PatchConfig(q.RawBody); err != nil {
				return c, err
			}
			return m.Config()
		})
	})
	takes[control.Config](a, patch)
	a.registerTopologyOf()
}

// registerTopologyOf adds /int/topology and /int/plan.
func (a *API) registerTopologyOf() {
	huma.Register(a.huma, reading("int-topology", "/topology", "What the INT domain is made of"), func(_ context.Context, q *OneDomain) (*Output[control.Topology], error) {
		return managed(a, q.Domain, (*steer.Management).Topology)
	})
	set := steering("set-int-topology", http.MethodPut, "/topology", "Say what the INT domain is made of, in JSON or YAML")
	huma.Register(a.huma, set, func(_ context.Context, q *intChanged) (*Output[control.Topology], error) {
		return managed(a, q.Domain, func(m *steer.Management) (t control.Topology, err error) {
			if t, err = control.ReadTopology(q.RawBody); err != nil {
				return t, err
			}
			if t.Source == "" {
				t.Source = "api"
			}
			if err := m.SetTopology(t); err != nil {
				return t, err
			}
			return m.Topology()
		})
	})
	takes[control.Topology](a, set)
	type planAsked struct {
		OneDomain
		Body control.Change
	}
	plan := steering("plan", http.MethodPost, "/plan", "What devices would get if a change were made; it changes nothing")
	huma.Register(a.huma, plan, func(ctx context.Context, q *planAsked) (*Output[[]control.DevicePlan], error) {
		return managed(a, q.Domain, func(m *steer.Management) ([]control.DevicePlan, error) {
			list, err := m.DryRun(ctx, q.Body)
			return append([]control.DevicePlan{}, list...), err
		})
	})
}

// registerService adds /int/service.
func (a *API) registerService() {
	huma.Register(a.huma, reading("service", "/service", "The service that brings intents to devices"), func(_ context.Context, q *OneDomain) (*Output[steer.Service], error) {
		return managed(a, q.Domain, (*steer.Management).Service)
	})
	type serviceAsked struct {
		OneDomain
		Force bool `query:"force" doc:"to stop: devices that cannot be reached are left as they are"`
		Body  struct {
			Running bool `json:"running" doc:"true: intents are brought to devices; false: INT is taken off all of them"`
		}
	}
	set := steering("set-service", http.MethodPost, "/service", "Start or stop it; the answer comes when that is done")
	huma.Register(a.huma, set, func(ctx context.Context, q *serviceAsked) (*Output[steer.Service], error) {
		return managed(a, q.Domain, func(m *steer.Management) (steer.Service, error) {
			if q.Body.Running {
				return m.Start(ctx)
			}
			ctx, cancel := context.WithTimeout(ctx, stopTime)
			defer cancel()
			if err := m.Stop(ctx, q.Force); err != nil {
				return steer.Service{}, err
			}
			return m.Service()
		})
	})
}
