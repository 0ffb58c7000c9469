// SPDX-License-Identifier: Apache-2.0

package domain

import (
	"errors"
	"fmt"

	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/filter"
	"github.com/vnetradar/radar/pkg/vnet/datapath/program"
)

// compileWatch compiles the expression of --watch into the options.
func compileWatch(o *program.Options) error {
	e, err := filter.Compile(o.Watch)
	if errors.Is(err, filter.ErrNotBuilt) {
		return fmt.Errorf("--watch: %w", err)
	}
	if err != nil {
		return fault.Usage.Errorf("--watch: %w", err)
	}
	o.Watch, o.WatchProgram = e.String(), e.Instructions()
	return nil
}
