// SPDX-License-Identifier: Apache-2.0

package selector

import (
	"context"

	"github.com/vnetradar/radar/pkg/vnet/selector/docker"
)

// Follow calls changed at once and then whenever containers have started, until
// ctx ends or the engine does: then it returns why. changed must not block.
func Follow(ctx context.Context, changed func()) error {
	e, err := docker.Connect(ctx)
	if err != nil {
		return err
	}
	defer e.Close()
	return e.Starts(ctx, changed, changed)
}
