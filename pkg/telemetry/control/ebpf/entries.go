// SPDX-License-Identifier: Apache-2.0

package ebpf

import (
	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/filter"
	"github.com/vnetradar/radar/pkg/telemetry/control"
	"github.com/vnetradar/radar/pkg/telemetry/node"
)

// compile makes the node's watchlist of a State's entries.
func compile(want *control.State) (list []node.Entry, err error) {
	for i := range want.Entries {
		from := &want.Entries[i]
		mode, err := node.ParseMode(string(from.Mode))
		if err != nil {
			return nil, err
		}
		e := node.Entry{
			Expr: from.Slice.Expression(), Mode: mode, Instructions: from.Instructions, Domain: want.DomainID,
			Hops: from.Hops, Sample: max(from.Sample, 1),
		}
		if e.Hops == 0 {
			e.Hops = control.DefaultHops // modes without a stack have the field, too
		}
		if e.Expr != "" {
			x, err := filter.CompileNumeric(e.Expr)
			if err != nil {
				return nil, fault.Usage.Errorf("intent %s: %w", from.Intent, err)
			}
			e.Expr, e.Program = x.String(), x.Instructions()
		}
		list = append(list, e)
	}
	return list, nil
}
