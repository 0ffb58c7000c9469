// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/vnetradar/radar/pkg/steer"
	"github.com/vnetradar/radar/pkg/telemetry/control"
)

// IntentRow is an intent, with what became of it.
type IntentRow struct {
	control.Intent
	Status *IntentState `json:"status,omitempty" doc:"absent: the service has not looked at it"`
}

// IntentState is what became of an intent.
type IntentState struct {
	State   control.IntentState `json:"state"`
	Devices []string            `json:"devices,omitempty" doc:"that hold an entry of it"`
	Reasons []control.Reason    `json:"reasons,omitempty" doc:"why it is not applied as it is"`
	Why     []string            `json:"why,omitempty" doc:"the reasons in words"`
}

// IntentInput is an intent as users write it.
type IntentInput struct {
	control.Intent
	Lifetime string `json:"lifetime,omitempty" doc:"how long it lives, in place of expires: 30s, 15m, 1h30m"`
}

// OneIntent is the path of one intent.
type OneIntent struct {
	OneDomain
	Name string `path:"name" maxLength:"64" doc:"of an intent"`
}

// WithText is a body in JSON (or YAML), which is read as intent files are: errors name the field.
type WithText struct {
	RawBody []byte `contentType:"application/json"`
}

// readIntent and readIntents read what is to begin now.
func readIntent(b []byte) (control.Intent, error)    { return control.ReadIntent(b, time.Now()) }
func readIntents(b []byte) ([]control.Intent, error) { return control.ReadIntents(b, time.Now()) }

// steering is an operation that changes something.
func steering(id, method, path, summary string) huma.Operation {
	return huma.Operation{
		OperationID: id, Method: method, Path: Base + "/domains/{domain}/int" + path, Summary: summary,
		Security: []map[string][]string{{"token": {}}}, MaxBodyBytes: mostBody,
		SkipValidateBody: method == http.MethodPut || method == http.MethodPatch || strings.HasSuffix(path, "/intents"), // WithText
		Errors: []int{
			http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusConflict,
			http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity, http.StatusGatewayTimeout,
		},
	}
}

// takes describes the body of an operation WithText: it is read as a T.
func takes[T any](a *API, o huma.Operation) {
	t, api := typeOf[T](), a.huma.OpenAPI()
	of := map[string]*huma.Operation{http.MethodPut: api.Paths[o.Path].Put, http.MethodPost: api.Paths[o.Path].Post, http.MethodPatch: api.Paths[o.Path].Patch}[o.Method]
	of.RequestBody.Required = true
	of.RequestBody.Content["application/json"].Schema = api.Components.Schemas.Schema(t, true, t.Name())
}

// mostBody is how much a request's body may have, bytes.
const mostBody = 1 << 20

// reading is an operation that changes nothing.
func reading(id, path, summary string) huma.Operation {
	return ofDomain(id, "/int"+path, summary)
}

// registerIntents adds /int/intents.
func (a *API) registerIntents() {
	huma.Register(a.huma, reading("intents", "/intents", "The intents, in their order of priority, with what became of them"), func(_ context.Context, q *OneDomain) (*Output[[]IntentRow], error) {
		return managed(a, q.Domain, intentRows)
	})
	huma.Register(a.huma, reading("intent", "/intents/{name}", "One intent"), func(_ context.Context, q *OneIntent) (*Output[control.Intent], error) {
		return managed(a, q.Domain, func(m *steer.Management) (control.Intent, error) { return m.Intent(q.Name) })
	})
	type intentsAsked struct {
		OneDomain
		WithText
	}
	add := steering("add-intent", http.MethodPost, "/intents", "Add an intent")
	add.DefaultStatus = http.StatusCreated
	huma.Register(a.huma, add, func(_ context.Context, q *intentsAsked) (*Output[control.Intent], error) {
		return managed(a, q.Domain, func(m *steer.Management) (control.Intent, error) {
			i, err := readIntent(q.RawBody)
			if err != nil {
				return i, err
			}
			if err := m.Add(i); err != nil {
				return i, err
			}
			return m.Intent(i.Name)
		})
	})
	takes[IntentInput](a, add)
	apply := steering("apply-intents", http.MethodPut, "/intents", "Replace all intents")
	huma.Register(a.huma, apply, func(_ context.Context, q *intentsAsked) (*Output[[]IntentRow], error) {
		return managed(a, q.Domain, func(m *steer.Management) ([]IntentRow, error) {
			list, err := readIntents(q.RawBody)
			if err != nil {
				return nil, err
			}
			if err := m.Apply(list); err != nil {
				return nil, err
			}
			return intentRows(m)
		})
	})
	takes[[]IntentInput](a, apply)
	a.registerIntent()
}

// registerIntent adds what changes one intent.
func (a *API) registerIntent() {
	type putAsked struct {
		OneIntent
		WithText
	}
	put := steering("put-intent", http.MethodPut, "/intents/{name}", "Add an intent, or replace the one of that name")
	huma.Register(a.huma, put, func(_ context.Context, q *putAsked) (*Output[control.Intent], error) {
		return managed(a, q.Domain, func(m *steer.Management) (control.Intent, error) {
			i, err := readIntent(q.RawBody)
			switch {
			case err != nil:
				return i, err
			case i.Name != q.Name:
				return i, &control.FieldError{Field: "name", Text: "the path names another intent"}
			}
			if err := m.Put(i); err != nil {
				return i, err
			}
			return m.Intent(i.Name)
		})
	})
	takes[IntentInput](a, put)
	remove := steering("remove-intent", http.MethodDelete, "/intents/{name}", "Remove an intent")
	remove.DefaultStatus = http.StatusNoContent
	huma.Register(a.huma, remove, func(_ context.Context, q *OneIntent) (*struct{}, error) {
		_, err := managed(a, q.Domain, func(m *steer.Management) (struct{}, error) { return struct{}{}, m.Remove(q.Name) })
		return nil, err
	})
}

// intentRows are all intents with what became of them.
func intentRows(m *steer.Management) ([]IntentRow, error) {
	list, err := m.Intents()
	if err != nil {
		return nil, err
	}
	status, err := m.Status()
	if err != nil {
		return nil, err
	}
	rows := []IntentRow{}
	for _, i := range list {
		row := IntentRow{Intent: i}
		k := slices.IndexFunc(status.Intents, func(s control.IntentStatus) bool { return s.Name == i.Name })
		if k >= 0 {
			s := &status.Intents[k]
			row.Status = &IntentState{State: s.State, Devices: s.Devices, Reasons: s.Reasons}
			for _, r := range s.Reasons {
				row.Status.Why = append(row.Status.Why, strings.Trim(r.Device+": "+r.Text, ": "))
			}
		}
		rows = append(rows, row)
	}
	return rows, nil
}
