// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"

	"github.com/vnetradar/radar/pkg/datapath"
	"github.com/vnetradar/radar/pkg/filter"
)

// compileWatch compiles the expression of --watch into the options.
func compileWatch(o *datapath.Options) error {
	e, err := filter.Compile(o.Watch)
	if errors.Is(err, filter.ErrNotBuilt) {
		return fmt.Errorf("--watch: %w", err)
	}
	if err != nil {
		return usagef("--watch: %w", err)
	}
	o.Watch, o.WatchProgram = e.String(), e.Instructions()
	return nil
}

// checkFilter says whether filter expressions are built in.
func checkFilter() datapath.Check {
	if !filter.Available {
		return datapath.Check{
			Name: "filter", Level: datapath.Warn, Detail: "no filter expressions (attach --watch, radar packets EXPRESSION)",
			Fix: "build radar with cgo and libpcap-dev, without -tags nopcap",
		}
	}
	return datapath.Check{Name: "filter", Level: datapath.OK, Detail: "expressions by " + filter.Library()}
}
