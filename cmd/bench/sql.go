// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	"github.com/vnetradar/radar/cmd/bench/fabric"
	"github.com/vnetradar/radar/cmd/bench/result"
)

// askSQL asks a recording of a hundred million packets in SQL.
func askSQL(ctx context.Context, o *options) (tables []result.Table, err error) {
	packets, rounds := o.pick(100_000_000, 200_000), o.pick(3, 1)
	r, err := newRadarCommand(ctx, o)
	if err != nil {
		return nil, err
	}
	defer r.close()
	o.progress("  making a recording of %d packets", packets)
	took, made, err := fabric.Measure(ctx, packets, rounds, r.run)
	if err != nil {
		return nil, err
	}
	t := result.Table{Columns: []string{"seconds", fmt.Sprintf("%d packets", packets)}}
	for i, q := range fabric.Questions {
		t.Add(q.Name, result.Of(result.Seconds, took[i]))
	}
	t.Note("%d rounds; %d flows over one or three switches, 0.5 %% of packets lost; the files were made in %.0f s", rounds, fabric.Flows, made.Seconds())
	return []result.Table{t}, nil
}
