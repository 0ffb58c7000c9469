// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"context"

	"github.com/moby/moby/api/types/events"
	"github.com/moby/moby/client"
)

// Starts calls started whenever a container has started, from one goroutine,
// until ctx ends or the engine does. ready is called once nothing can be missed
// any more: what started before is for the caller to list. It returns ctx's error
// or why the engine ended.
func (e *Engine) Starts(ctx context.Context, ready, started func()) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r := e.api.Events(ctx, client.EventsListOptions{Filters: client.Filters{}.
		Add("type", string(events.ContainerEventType)).
		Add("event", string(events.ActionStart), string(events.ActionUnPause))})
	// Events returns when the engine has answered, or not.
	select {
	case err := <-r.Err:
		return e.explain(err)
	default:
	}
	ready()
	for {
		select {
		case <-r.Messages:
			started()
		case err := <-r.Err:
			return e.explain(err)
		}
	}
}
